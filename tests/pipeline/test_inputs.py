"""The inputs of a run: the same bytes everywhere, made whole or not at all, made again byte for byte."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from platoon import exits
from platoon.artifacts.digests import content_hash
from platoon.errors import ConfigError, NotPreparedError
from platoon.host.console import Console
from platoon.pipeline.inputs import build_inputs, opened_inputs, read_inputs
from platoon.pipeline.layout import DEFAULT_RECIPE, INPUT_FILES, inputs_of
from platoon.pipeline.recipe import read_recipe
from platoon.pipeline.verify import compare, verify
from platoon.site import Site

pytestmark = pytest.mark.unit

OTHER_CHAT = '{"messages": [{"role": "assistant", "content": "another"}]}\n'

MakeRecipe = Callable[..., Path]

# One program, so that locale, time zone, umask and hash seed are those of its start.
SCRIPT = """
import os, sys
from pathlib import Path
from platoon.host.console import Console
from platoon.pipeline.inputs import build_inputs
from platoon.site import Site
root, out, umask = Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3], 8)
os.umask(umask)
for name in ("sft", "rl"):
    build_inputs(root / "configs" / f"{name}.yaml", out / name, Site(cache=out / "cache"), Console(open(os.devnull, "w")))
"""


def files_of(root: Path) -> dict[str, bytes]:
    return {str(path.relative_to(root)): path.read_bytes() for path in sorted(root.rglob("*")) if path.is_file()}


def test_same_bytes_from_two_clones_umasks_locales_and_time_zones(make_recipe: MakeRecipe, tmp_path: Path) -> None:
    """Two clones at different paths, umask 022 and 077, LC_ALL C and UTF-8, two time zones, files written in another order."""
    found = []
    for place, umask, locale, zone, seed in (("a", "022", "C", "UTC", "1"), ("b/deep", "077", "C.UTF-8", "Asia/Tokyo", "2")):
        root = make_recipe(place)
        if place != "a":
            # Another order of creation, and with it of directory entries.
            for path in sorted(root.glob("data/tasks/*"), reverse=True):
                path.rename(tmp_path / "aside")
                (tmp_path / "aside").rename(path)
        out = tmp_path / f"out-{umask}"
        env = {**os.environ, "LC_ALL": locale, "TZ": zone, "PYTHONHASHSEED": seed, "HOME": str(out)}
        subprocess.run([sys.executable, "-c", SCRIPT, str(root), str(out), umask], env=env, check=True, timeout=60)
        found.append({name: files_of(out / name) for name in ("sft", "rl")})
    assert found[0] == found[1]
    assert set(found[0]["rl"]) == set(INPUT_FILES)
    text = b"".join(data for unit in found[0].values() for data in unit.values())
    assert str(tmp_path).encode() not in text


def test_what_a_run_reads(make_recipe: MakeRecipe, tmp_path: Path, site: Site, console: Console) -> None:
    root = make_recipe()
    inputs = build_inputs(root / "configs/rl.yaml", tmp_path / "inputs", site, console)
    entry = inputs.entries["tasks"]
    assert entry.lock is not None
    assert len(entry.lock.tasks) == 6
    assert sorted(entry.task_ids("train") + entry.task_ids("eval")) == [f"t{number}" for number in range(6)]
    assert entry.task_ids("eval")
    row = entry.lock.by_name["t0"]
    assert content_hash(entry.cache.task(row.digest)) == row.digest
    assert inputs.values["environments"][0]["service_kwargs"]["dataset"] == "../data/tasks"
    assert inputs.image_map["providers"] == {
        "process": {"images": {"none": {"image": "local", "builder": "alias", "sha256": None}}}
    }
    assert set(inputs.digests) == set(INPUT_FILES)
    assert (inputs.directory / "config.yaml").stat().st_mode & 0o777 == 0o444
    again = read_inputs(inputs.directory, site, root / "configs")
    assert again == inputs
    chat = build_inputs(root / "configs/sft.yaml", tmp_path / "sft", site, console).chat
    assert chat["../data/chat.jsonl"].read_bytes() == (root / "data/chat.jsonl").read_bytes()


def test_a_changed_task_changes_the_lock_and_nothing_else(
    make_recipe: MakeRecipe, tmp_path: Path, site: Site, console: Console
) -> None:
    root = make_recipe()
    before = build_inputs(root / "configs/rl.yaml", tmp_path / "one", site, console)
    os.utime(root / "data/tasks/t1/instruction.md", (1, 1))
    touched = build_inputs(root / "configs/rl.yaml", tmp_path / "two", site, console)
    assert touched.digests == before.digests
    (root / "data/tasks/t1/instruction.md").write_text("Do other things.\n")
    after = build_inputs(root / "configs/rl.yaml", tmp_path / "three", site, console)
    assert [name for name in INPUT_FILES if after.digests[name] != before.digests[name]] == ["datasets.lock.json"]
    # The older inputs still name what the cache holds.
    assert read_inputs(tmp_path / "one", site, root / "configs") == before


def test_equal_bytes_keep_their_time(make_recipe: MakeRecipe, tmp_path: Path, site: Site, console: Console) -> None:
    root = make_recipe()
    build_inputs(root / "configs/rl.yaml", tmp_path / "inputs", site, console)
    os.utime(tmp_path / "inputs/plan.json", (1000, 1000))
    build_inputs(root / "configs/rl.yaml", tmp_path / "inputs", site, console)
    assert (tmp_path / "inputs/plan.json").stat().st_mtime == 1000


def test_what_is_missing_names_prepare(make_recipe: MakeRecipe, tmp_path: Path, site: Site, console: Console) -> None:
    root = make_recipe()
    inputs = build_inputs(root / "configs/rl.yaml", tmp_path / "inputs", site, console)
    with pytest.raises(NotPreparedError, match="run platoon prepare") as refusal:
        read_inputs(inputs.directory, Site(cache=tmp_path / "other"))
    assert f"in the cache {tmp_path / 'other/harbor'} (--site or PLATOON_SITE names another)" in str(refusal.value)
    (inputs.directory / "plan.json").unlink()
    with pytest.raises(NotPreparedError, match=r"plan\.json: is missing"):
        read_inputs(inputs.directory, site, root / "configs")
    sft = build_inputs(root / "configs/sft.yaml", tmp_path / "sft", site, console)
    next(iter(sft.chat.values())).unlink()
    with pytest.raises(NotPreparedError, match=r"chat\.jsonl is not in the cache"):
        read_inputs(sft.directory, site)


@pytest.mark.parametrize("name", ["rl", "sft"])
def test_a_cache_that_was_emptied_is_filled_again(
    make_recipe: MakeRecipe, tmp_path: Path, site: Site, console: Console, name: str
) -> None:
    root = make_recipe()
    config = root / f"configs/{name}.yaml"
    inputs = build_inputs(config, tmp_path / "inputs", site, console)
    shutil.rmtree(site.cache)
    assert read_inputs(inputs.directory, site, config.parent, console) == inputs
    task = next(iter((site.harbor_cache / "tasks").iterdir())) if name == "rl" else next((site.cache / "chat").rglob("*.jsonl"))
    shutil.rmtree(task) if task.is_dir() else task.unlink()
    assert read_inputs(inputs.directory, site, config.parent, console) == inputs
    assert task.exists()
    shutil.rmtree(site.cache)
    (root / "data/tasks/t0/instruction.md").write_text("Another.\n")
    (root / "data/chat.jsonl").write_text(OTHER_CHAT)
    with pytest.raises(NotPreparedError, match="the data is no longer what was locked"):
        read_inputs(inputs.directory, site, config.parent, console)


@pytest.mark.parametrize("ready", [False, True])
def test_inputs_are_opened_by_the_command_of_their_kind(
    make_recipe: MakeRecipe, tmp_path: Path, site: Site, console: Console, *, ready: bool
) -> None:
    config = make_recipe() / "configs/rl.yaml"
    made = build_inputs(config, tmp_path / "inputs", site, console)
    folder = made.directory if ready else None
    with opened_inputs("train", config, (), folder, site=site, console=console) as found:
        assert (found.values, found.digests) == (made.values, made.digests)
    with (
        pytest.raises(ConfigError, match=r"rl\.yaml: is read by platoon train, not by platoon eval \(use platoon train\)"),
        opened_inputs("evaluation", config, (), folder, site=site, console=console),
    ):
        pass
    with (
        pytest.raises(ConfigError, match=r"trainer=sft: resolved inputs take no overrides \(give them to platoon resolve\)"),
        opened_inputs("train", config, ("trainer=sft",), made.directory, site=site, console=console),
    ):
        pass


def test_a_lock_that_was_exchanged_in_the_cache_is_noticed(
    make_recipe: MakeRecipe, tmp_path: Path, site: Site, console: Console
) -> None:
    root = make_recipe()
    inputs = build_inputs(root / "configs/rl.yaml", tmp_path / "inputs", site, console)
    entry = inputs.entries["tasks"]
    assert entry.lock is not None
    path = entry.cache.lock_by_digest(entry.lock.digest)
    path.chmod(0o644)
    path.write_bytes(path.read_bytes().replace(b'"of":6', b'"of":7'))
    with pytest.raises(NotPreparedError, match="is not the lock its name says"):
        read_inputs(inputs.directory, site, root / "configs")
    path.write_bytes(path.read_bytes().replace(b'"of":7', b'"of":5'))
    with pytest.raises(
        NotPreparedError, match=r"the lock of tasks .*: selection\.of: must be at least the selected 6, got 5 \(run plat"
    ):
        read_inputs(inputs.directory, site, root / "configs")


@pytest.mark.parametrize("damage", ["task", "config", "chat"])
def test_verify_names_the_first_difference(
    make_recipe: MakeRecipe, tmp_path: Path, site: Site, console: Console, damage: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PLATOON_NODE_SCRATCH", str(tmp_path / "scratch"))
    root = make_recipe()
    recipe = read_recipe(root / "recipe.yaml")
    results = tmp_path / "results"
    for unit, config in recipe.units.items():
        build_inputs(root / config, inputs_of(results, unit), site, console)
    assert verify(recipe, root, results, [], site=site, console=console) is None
    if damage == "task":
        (root / "data/tasks/t3/tests/test.sh").write_text("#!/bin/bash\nfalse\n")
    elif damage == "chat":
        with (root / "data/chat.jsonl").open("a") as file:
            file.write(OTHER_CHAT)
    else:
        (root / "configs/base.yaml").write_text((root / "configs/base.yaml").read_text().replace("steps: 3", "steps: 4"))
    found = verify(recipe, root, results, [], site=site, console=console)
    assert found is not None
    expected = {
        "task": ("main", "datasets.lock.json", '"lock_digest": "sha256:'),
        "chat": ("warm", "datasets.lock.json", '"digest": "sha256:'),
        "config": ("warm", "config.yaml", '"max_training_steps": 4'),
    }[damage]
    assert (found.unit, found.file) == expected[:2]
    assert expected[2] in str(found.rebuilt)
    assert f"{found.unit}/inputs/{found.file}:{found.line}: published " in str(found)
    assert not list((tmp_path / "scratch").iterdir())


def test_compare_tells_lines_that_only_one_has() -> None:
    found = compare("u", "f", b"a\nb\n", b"a\n")
    assert found is not None
    assert (found.line, found.published, found.rebuilt) == (2, "b\n", None)
    assert compare("u", "f", b"\xff", b"\xff") is None
    assert "no line" in str(found)


def test_verify_refuses_what_is_not_there(make_recipe: MakeRecipe, tmp_path: Path, site: Site, console: Console) -> None:
    root = make_recipe()
    recipe = read_recipe(root / "recipe.yaml")
    with pytest.raises(ConfigError, match="known here: warm, main"):
        verify(recipe, root, tmp_path, ["nobody"], site=site, console=console)
    with pytest.raises(NotPreparedError, match=r"is missing .*--results DIR"):
        verify(recipe, root, tmp_path, ["main"], site=site, console=console)


def test_verify_takes_the_workflows_recipe_where_none_is_named(
    make_recipe: MakeRecipe, tmp_path: Path, site: Site, console: Console, run: Callable[..., tuple[int, str]]
) -> None:
    code, told = run("verify", "main")
    assert (code, f"{DEFAULT_RECIPE}: no such recipe" in told) == (exits.CONFIG, True), told
    DEFAULT_RECIPE.parent.parent.mkdir()
    make_recipe().rename(DEFAULT_RECIPE.parent)
    for unit, config in read_recipe(DEFAULT_RECIPE).units.items():
        build_inputs(DEFAULT_RECIPE.parent / config, inputs_of(tmp_path / "results", unit), site, console)
    for named, verified in (
        ((), "warm, main"),
        (("main",), "main"),
        (("main", "warm"), "main, warm"),
        ((DEFAULT_RECIPE,), "warm, main"),
        ((DEFAULT_RECIPE, "main"), "main"),
        (("main", "--recipe", DEFAULT_RECIPE), "main"),
    ):
        code, told = run("verify", *named)
        assert (code, told.splitlines()[-1]) == (0, f"verified: {verified}"), told
    code, told = run("verify", "mian")
    assert (code, "no run or evaluation is called mian (known here: warm, main)" in told) == (exits.CONFIG, True), told


def test_site_options_stay_out_of_inputs(make_recipe: MakeRecipe, tmp_path: Path, console: Console) -> None:
    root = make_recipe()
    text = (root / "configs/rl.yaml").read_text().replace("    provider: process\n", "")
    (root / "configs/rl.yaml").write_text(text + "log_path: /somewhere\n")
    site = Site(cache=tmp_path / "cache", provider="process", provider_options={"scratch_root": "/secret/place"})
    inputs = build_inputs(root / "configs/rl.yaml", tmp_path / "inputs", site, console)
    written = (tmp_path / "inputs/config.yaml").read_text()
    assert "secret" not in written
    assert "somewhere" not in written
    assert json.loads(written)["config"]["environments"][0]["service_kwargs"]["provider"] == "process"
    assert inputs.entries["tasks"].options.provider_options == {"scratch_root": "/secret/place"}
