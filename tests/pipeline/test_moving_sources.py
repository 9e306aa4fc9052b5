"""Inputs of runs whose datasets move: made when they were resolved, kept as they were, and made again from what was recorded."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from platoon.envs.harbor.lock import HarborLock
from platoon.errors import ConfigError
from platoon.host.console import Console
from platoon.pipeline.check import check_config
from platoon.pipeline.datasets import fetch_tools
from platoon.pipeline.fetch import fetch_entries
from platoon.pipeline.inputs import RunInputs, build_inputs, read_inputs
from platoon.pipeline.layout import inputs_of
from platoon.pipeline.recipe import read_recipe
from platoon.pipeline.verify import verify
from platoon.site import Site
from tests.envs.harbor.fakes.repositories import Repository

pytestmark = pytest.mark.process

MakeRecipe = Callable[..., Path]


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    made = Repository.make(tmp_path / "repository")
    for number in range(4):
        made.task(f"t{number}", {"task.toml": f'[metadata]\nfamily = "f{number}"\n', "environment/n": str(number)})
    made.commit()
    return made


@pytest.fixture
def recipe(make_recipe: MakeRecipe, repository: Repository) -> Path:
    root = make_recipe()
    path = root / "configs/rl.yaml"
    path.write_text(path.read_text().replace("dataset: ../data/tasks", f"dataset: git+{repository.url}@main"))
    return root


def update(root: Path, site: Site, console: Console) -> str:
    """The commit that the branch is at now."""
    (row,) = fetch_entries(root / "configs/rl.yaml", site, fetch_tools(site, console), update=True)
    return HarborLock.read(Path(row.lock)).resolved


def digest_of(inputs: RunInputs) -> str:
    lock = inputs.entries["tasks"].lock
    assert lock is not None
    return lock.digest


def test_h021_h022_runs_take_what_was_resolved(
    recipe: Path, repository: Repository, tmp_path: Path, site: Site, console: Console
) -> None:
    with pytest.raises(ConfigError, match="platoon harbor fetch CONFIG --update"):
        build_inputs(recipe / "configs/rl.yaml", tmp_path / "none", site, console)
    assert not (tmp_path / "none").exists()
    first = update(recipe, site, console)
    made = build_inputs(recipe / "configs/rl.yaml", tmp_path / "one", site, console)
    datasets = json.loads((tmp_path / "one/datasets.lock.json").read_text())
    assert datasets["harbor"][0]["resolved"] == first
    # H023: a branch that moved changes nothing unasked.
    repository.task("t9", {"task.toml": '[metadata]\nfamily = "f9"\n'})
    repository.commit()
    same = build_inputs(recipe / "configs/rl.yaml", tmp_path / "two", site, console)
    assert same.digests == made.digests
    assert update(recipe, site, console) != first
    assert build_inputs(recipe / "configs/rl.yaml", tmp_path / "three", site, console).digests != made.digests
    # H019: the older inputs still read what they named, without the repository.
    repository.path.rename(tmp_path / "gone")
    assert digest_of(read_inputs(tmp_path / "one", site, recipe / "configs")) == digest_of(made)


@pytest.mark.parametrize("lock", ["", "lock: ../mine.lock.json\n    "])
def test_another_question_is_asked_of_the_commit_that_was_locked(
    recipe: Path, repository: Repository, tmp_path: Path, site: Site, console: Console, lock: str
) -> None:
    config = recipe / "configs/rl.yaml"
    config.write_text(config.read_text().replace("dataset: ", f"{lock}dataset: "))
    first = update(recipe, site, console)
    repository.task("t9", {"task.toml": '[metadata]\nfamily = "f9"\n'})
    repository.commit()
    config.write_text(config.read_text().replace("    holdout: ", "    refuse: {gpus: false}\n    holdout: "))
    (row,) = fetch_entries(config, site, fetch_tools(site, console))
    assert (HarborLock.read(Path(row.lock)).resolved, row.tasks) == (first, 4)
    told = (tmp_path / "console.txt").read_text()
    assert f"@main: stays at {first}, as it was locked before (--update moves it)\n" in told
    assert update(recipe, site, console) != first
    # Of another folder, or of another branch, nothing was locked.
    if not lock:
        other = recipe / "other.yaml"
        other.write_text(
            config.read_text().replace("extends: ", "extends: configs/").replace("gpus: false", "per_task_build: true")
        )
        with pytest.raises(ConfigError, match="no lock says what it was"):
            fetch_entries(other, site, fetch_tools(site, console))
    config.write_text(config.read_text().replace("@main", "@other").replace("gpus: false", "gpus: true"))
    with pytest.raises(ConfigError, match="no lock says what it was"):
        fetch_entries(config, site, fetch_tools(site, console))


@pytest.mark.parametrize("lost", ["tasks", "everything"])
def test_a_cache_that_was_emptied_gets_what_the_inputs_recorded(
    recipe: Path, repository: Repository, tmp_path: Path, site: Site, console: Console, lost: str
) -> None:
    update(recipe, site, console)
    made = build_inputs(recipe / "configs/rl.yaml", tmp_path / "inputs", site, console)
    repository.task("t9", {"task.toml": '[metadata]\nfamily = "f9"\n'})
    repository.commit()
    newer = update(recipe, site, console)
    shutil.rmtree(site.harbor_cache / "tasks" if lost == "tasks" else site.cache)
    again = read_inputs(tmp_path / "inputs", site, recipe / "configs", console)
    assert digest_of(again) == digest_of(made)
    if lost == "tasks":
        # The lock of the entry is the newer one still.
        assert update(recipe, site, console) == newer
        assert build_inputs(recipe / "configs/rl.yaml", tmp_path / "new", site, console).entries["tasks"].lock is not None


def test_verify_makes_inputs_again_from_what_they_recorded(
    recipe: Path, repository: Repository, tmp_path: Path, site: Site, console: Console, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PLATOON_NODE_SCRATCH", str(tmp_path / "scratch"))
    update(recipe, site, console)
    results = tmp_path / "results"
    units = read_recipe(recipe / "recipe.yaml").units
    for unit, config in units.items():
        build_inputs(recipe / config, inputs_of(results, unit), site, console)
    repository.task("t0", {"instruction.md": "Another.\n"})
    repository.commit()
    before = {path: path.read_bytes() for path in (site.harbor_cache / "locks").rglob("*.json")}
    assert verify(read_recipe(recipe / "recipe.yaml"), recipe, results, [], site=site, console=console) is None
    assert {path: path.read_bytes() for path in (site.harbor_cache / "locks").rglob("*.json")} == before


def test_a_lock_alone(recipe: Path, repository: Repository, tmp_path: Path, site: Site, console: Console) -> None:
    update(recipe, site, console)
    made = build_inputs(recipe / "configs/rl.yaml", tmp_path / "one", site, console)
    lock = made.entries["tasks"].lock
    assert lock is not None
    lock.write(recipe / "mine.lock.json")
    path = recipe / "configs/rl.yaml"
    text = path.read_text().replace(f"dataset: git+{repository.url}@main", "lock: ../mine.lock.json")
    path.write_text(text.replace("    index: [{metadata: [family]}]\n", ""))
    found = build_inputs(path, tmp_path / "two", site, console)
    assert digest_of(found) == lock.digest
    assert found.entries["tasks"].splits == made.entries["tasks"].splits
    other = Site(cache=tmp_path / "other")
    with pytest.raises(
        ConfigError, match=r"4 of its 4 tasks are not in the cache \S+ \(--site or PLATOON_SITE names another\), t0 first"
    ):
        build_inputs(path, tmp_path / "three", other, console)
    (recipe / "mine.lock.json").unlink()
    with pytest.raises(ConfigError, match=r"service_kwargs\.lock: no such file"):
        build_inputs(path, tmp_path / "four", site, console)


def test_a_check_reads_what_a_dataset_is_asked_for_with(
    recipe: Path, repository: Repository, tmp_path: Path, site: Site, console: Console
) -> None:
    """Without the network: overlays, allowlists and registry files; what is elsewhere is not looked at."""
    path = recipe / "configs/rl.yaml"
    repository.path.rename(tmp_path / "gone")
    assert check_config(path, site, console) == "train"
    text = path.read_text()
    (recipe / "over").mkdir()
    (recipe / "over/overlay.toml").write_text("[[edit]]\nfile = 'x'\npattern = '('\n")
    path.write_text(text.replace("    provider: process\n", "    provider: process\n    overlays: [../over]\n"))
    with pytest.raises(ConfigError, match=r"environments\.0\.service_kwargs\.overlays\.0: .*must be a regular expression"):
        check_config(path, site, console)
    (recipe / "registry.json").write_text("[]")
    path.write_text(text.replace(f"git+{repository.url}@main", "harbor://bench@1.0\n    registry: ../registry.json"))
    with pytest.raises(ConfigError, match="has no dataset bench"):
        check_config(path, site, console)
