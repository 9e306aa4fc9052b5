"""`platoon prepare`, `train` and `eval` fetch a pinned dataset themselves, whatever an earlier release left in the cache."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from platoon import exits
from platoon.envs.harbor.answers import read_request
from platoon.envs.harbor.lock import HarborLock
from platoon.envs.harbor.options import HarborOptions
from platoon.envs.harbor.publish import HarborCache
from tests.envs.harbor.fakes.legacy_lock import write_legacy
from tests.envs.harbor.fakes.repositories import Repository

pytestmark = [pytest.mark.process, pytest.mark.timeout(300)]

MODEL = {"model_name": "local/tiny", "renderer_name": "chat_template"}
TRAIN = {**MODEL, "batch_size": 1, "max_training_steps": 1, "workflow_config": {"group_size": 2}}
COMMANDS: dict[str, tuple[str, dict[str, Any]]] = {
    "prepare": ("recipe.yaml", {"train": TRAIN}),
    "train": ("config.yaml", {"train": TRAIN}),
    "eval": ("config.yaml", {"inference": MODEL, "split": "all"}),
}
STACK = "services: {main: {}, db: {image: postgres:16}}\n"


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    made = Repository.make(tmp_path / "repository")
    made.task("plain")
    made.task("stack", {"environment/docker-compose.yaml": STACK})
    made.commit()
    return made


@pytest.mark.parametrize("before", ["an empty cache", "a lock of 0.4"])
@pytest.mark.parametrize("command", list(COMMANDS))
def test_h021_h041_h508_h513_s505_each_command_fetches_what_is_pinned(
    command: str,
    before: str,
    repository: Repository,
    tmp_path: Path,
    checkout: Path,
    run: Callable[..., tuple[int, str]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Into an empty cache, and where a lock of release 0.4 refused a stack, which this one locks: it stops at that task then."""
    monkeypatch.setenv("PYTHONPATH", str(checkout))
    commit = repository.git("rev-parse", "HEAD")
    kwargs = {"dataset": f"git+{repository.url}@{commit}", "provider": "process"}
    cache = HarborCache(tmp_path / "cache/harbor")
    wanted = HarborOptions.parse(kwargs)
    if before == "a lock of 0.4":
        write_legacy(cache, commit, wanted, repository.path, {"plain": None, "stack": "stack: multi-container"})
    argument, config = COMMANDS[command]
    entry = {"name": "tasks", "service": "harbor", "harness": "platoon-bash", "service_kwargs": kwargs}
    (tmp_path / "config.yaml").write_text(json.dumps({**config, "tinker_base_url": "local", "environments": [entry]}))
    (tmp_path / "recipe.yaml").write_text("runs: {main: {config: config.yaml}}\n")
    (tmp_path / "site.yaml").write_text("cache: cache\nruns: runs\n")
    code, told = run(command, argument)
    lock = HarborLock.read(read_request(wanted, tmp_path, cache).path)
    assert (lock.is_legacy, lock.resolved, lock.runnable) == (False, commit, ("plain", "stack"))
    assert all((cache.task(row.digest) / "task.toml").is_file() for row in lock.tasks)
    assert code == exits.CONFIG and "task stack: it is a stack of several containers" in told, told
    assert "task plain" not in told
    # The same again needs no repository.
    shutil.rmtree(repository.path)
    assert run(command, argument)[0] == code
