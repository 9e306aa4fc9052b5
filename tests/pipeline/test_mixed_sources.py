"""A configuration that mixes all six kinds of source: fetched, locked, and locked again to the same bytes elsewhere."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from platoon.envs.harbor.lock import HarborLock
from tests.envs.harbor.fakes.harbor_cli import FakeHub
from tests.envs.harbor.fakes.repositories import Repository

pytestmark = pytest.mark.process

# One program, so that locale, time zone, umask, user and hash seed are those of its start.
SCRIPT = """
import os, sys
from pathlib import Path
import pytest
from platoon.host.console import Console
from platoon.pipeline.inputs import build_inputs
from platoon.site import Site
from tests.envs.harbor.fakes.hugging_face import FakeHuggingFace
config, out, remote = Path(sys.argv[1]), Path(sys.argv[2]), Path(sys.argv[3])
os.umask(int(sys.argv[4], 8))
FakeHuggingFace({("org/name", "a" * 40): remote}).install(pytest.MonkeyPatch())
build_inputs(config, out / "inputs", Site(cache=out / "cache"), Console(open(os.devnull, "w")))
"""
ADAPTER = """
for name in made-2 made-1; do
    mkdir -p "$2/$name/tests"
    : > "$2/$name/task.toml"
    printf 'Do it.' > "$2/$name/instruction.md"
    printf 'true' > "$2/$name/tests/test.sh"
done
"""
UID = 54321
# Another user, who may read where this one's Python lies; or one as far as the program sees, where the kernel lets users be mapped.
_READS = ["--inh-caps=+dac_read_search", "--ambient-caps=+dac_read_search"]
OTHER_USERS = (
    ["setpriv", f"--reuid={UID}", f"--regid={UID}", "--clear-groups", *_READS],
    ["unshare", "--user", f"--map-user={UID}", f"--map-group={UID}"],
)


def entry(name: str, **options: object) -> dict[str, object]:
    return {"name": name, "service": "harbor", "harness": "platoon-bash", "service_kwargs": {"provider": "process", **options}}


def prepare(place: Path) -> tuple[Path, FakeHub, Path]:
    """A clone with its configuration, a Hub, and a repository of Hugging Face."""
    clone = place / "clone"
    Repository(clone / "data").task("local-1", {"environment/docker-compose.yaml": "services: {main: {}, db: {image: redis:7}}\n"})
    Repository(clone / "data").task("local-2", {"environment/Dockerfile": "FROM debian:12\nCOPY data.csv /d/\n"})
    shared = Repository.make(place / "shared")
    (shared.task("tasks/git-1") / "environment/data.csv").chmod(0o755)
    commit = shared.commit()
    upstream = Repository.make(clone / "upstream")
    (upstream.path / "main.sh").write_text(ADAPTER)
    adapter = upstream.commit()
    registered = [{"name": "reg-1", "path": "tasks/git-1", "git_url": shared.url, "git_commit_id": commit}]
    (clone / "registry.json").write_text(json.dumps([{"name": "bench", "version": "1.0", "tasks": registered}]))
    hub = FakeHub.make(place / "hub")
    digest = hub.publish_task("org/hub-1", Repository(place / "published").task("hub-1"))
    remote = Repository(place / "remote")
    remote.task("hf-1", {"environment/big": "x" * 300})
    environments = [
        entry("local", dataset="../data"),
        entry("git", dataset=f"git+{shared.url}@{commit}#tasks"),
        entry("hf", dataset=f"hf://org/name@{'a' * 40}"),
        entry("hub", dataset=f"harbor://org/hub-1@{digest}"),
        entry("registry", dataset="harbor://bench@1.0", registry="../registry.json"),
        entry("adapter", adapter={"repo": "../upstream", "commit": adapter, "command": ["sh", "main.sh"]}),
    ]
    train = {"model_name": "local/small", "renderer_name": "chat_template", "max_training_steps": 3, "batch_size": 2}
    config = clone / "configs/rl.json.yaml"
    config.parent.mkdir()
    config.write_text(json.dumps({"train": train, "tinker_base_url": "local", "environments": environments}))
    return config, hub, remote.path


def files_of(root: Path) -> dict[str, bytes]:
    return {str(path.relative_to(root)): path.read_bytes() for path in sorted(root.rglob("*")) if path.is_file()}


def modes_of(root: Path) -> dict[str, int]:
    return {str(path.relative_to(root)): path.stat().st_mode & 0o777 for path in sorted(root.rglob("*"))}


def other_user(checkout: Path) -> list[str]:
    """The words before a command that run it as another user; none where there can be no other."""
    probe = [sys.executable, "-c", f"import os, platoon.pipeline.inputs; raise SystemExit(os.getuid() != {UID})"]
    for words in OTHER_USERS:
        if shutil.which(words[0]) is not None:
            env = {**os.environ, "PYTHONPATH": str(checkout)}
            if subprocess.run([*words, *probe], env=env, capture_output=True, check=False).returncode == 0:
                return words
    return []


def give(place: Path, uid: int) -> None:
    """A repository is read by its owner alone."""
    for path in (place, *place.rglob("*")):
        os.chown(path, uid, uid, follow_symlinks=False)


@pytest.fixture
def place() -> Iterator[Path]:
    """A directory that every user reaches, unlike those of the tests."""
    with tempfile.TemporaryDirectory() as path:
        Path(path).chmod(0o755)
        yield Path(path)


def test_six_kinds_of_source_give_the_same_bytes_everywhere(place: Path, checkout: Path) -> None:
    """Another clone at another path, its own paths absolute; another umask, locale, time zone, hash seed, home and user."""
    if not (other := other_user(checkout)):
        pytest.skip("no other user: needs setpriv as root, or unshare")
    config, hub, remote = prepare(place)
    found, tasks, owners = [], [], []
    for number, (umask, locale, zone, seed) in enumerate((("022", "C", "UTC", "1"), ("077", "C.UTF-8", "Asia/Tokyo", "2"))):
        clone = config.parent.parent
        if number:
            clone = Path(shutil.copytree(clone, place / "elsewhere/deeper/clone"))
            # Its paths are absolute; what lies in the clone is relative all the same.
            copy = clone / "configs/rl.json.yaml"
            copy.write_text(copy.read_text().replace('"../', f'"{clone}/'))
            assert copy.read_text().count(str(clone)) == 3
        out = place / f"out-{number}"
        out.mkdir()
        env = {
            **os.environ,
            "PYTHONPATH": str(checkout),
            "PLATOON_HARBOR_CLI": hub.command,
            "LC_ALL": locale,
            "TZ": zone,
            "PYTHONHASHSEED": seed,
            "HOME": str(out),
            "USER": f"user-{number}",
        }
        if number and other[:1] == ["setpriv"]:
            give(place, UID)
        arguments = [str(clone / "configs/rl.json.yaml"), str(out), str(remote), umask]
        subprocess.run([*(other if number else []), sys.executable, "-c", SCRIPT, *arguments], env=env, check=True, timeout=110)
        owners.append({path.lstat().st_uid for path in (out / "cache/harbor/tasks").rglob("*")})
        found.append(files_of(out / "inputs"))
        locks = sorted((out / "cache/harbor/locks/by-digest").iterdir())
        found[-1] |= {path.name: path.read_bytes() for path in locks}
        tasks.append((files_of(out / "cache/harbor/tasks"), modes_of(out / "cache/harbor/tasks")))
    assert found[0] == found[1]
    if other[:1] == ["setpriv"]:
        assert owners == [{os.getuid()}, {UID}]
    assert tasks[0] == tasks[1]
    text = b"".join(found[0].values())
    assert str(place / "clone").encode() not in text
    kinds = {
        HarborLock.from_bytes(data, name).source["kind"]
        for name, data in found[0].items()
        if name.endswith(".lock.json") and name != "datasets.lock.json"
    }
    assert kinds == {"directory", "git", "hf", "hub", "registry", "adapter"}
