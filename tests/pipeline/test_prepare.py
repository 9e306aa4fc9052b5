"""`platoon prepare`: the shipped workflow from any folder, step lines, honest exit codes."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from platoon import exits
from platoon.errors import ConfigError
from platoon.host.console import Console
from platoon.pipeline import prepare as workflow
from platoon.pipeline.layout import INPUT_FILES
from platoon.pipeline.prepare import command
from platoon.pipeline.recipe import Recipe

pytestmark = [pytest.mark.process, pytest.mark.timeout(300)]

MakeRecipe = Callable[..., Path]


@pytest.fixture
def prepare(tmp_path: Path, checkout: Path) -> Callable[..., tuple[int, list[str]]]:
    """Runs `platoon prepare` in an empty folder; exit code and lines."""
    folder = tmp_path / "somewhere else"
    folder.mkdir()
    (tmp_path / "site.yaml").write_text("cache: cache\n")
    env = {**os.environ, "PLATOON_SITE": str(tmp_path / "site.yaml"), "PYTHONPATH": str(checkout)}

    def call(*arguments: object) -> tuple[int, list[str]]:
        argv = [sys.executable, "-m", "platoon", "prepare", *map(str, arguments)]
        done = subprocess.run(
            argv, check=False, cwd=folder, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=120
        )
        return done.returncode, done.stdout.splitlines()

    return call


def test_a_recipe_from_another_folder(
    make_recipe: MakeRecipe, prepare: Callable[..., tuple[int, list[str]]], tmp_path: Path
) -> None:
    """Everything, then nothing; a touched file reruns nothing, a changed task what depends on it, a broken one is a refusal."""
    root = make_recipe()
    compose = root / "data/tasks/t2/environment/docker-compose.yaml"
    compose.parent.mkdir(exist_ok=True)
    compose.write_text("services: {main: {}, db: {image: redis}}\n")
    code, lines = prepare(root / "recipe.yaml")
    assert code == 0, lines
    assert any(line.startswith("warning: tasks: a run with t2 stops: it is a stack of several containers") for line in lines)
    assert {"resolve warm", "resolve main", "map the images of main"} <= set(lines)
    assert lines[-1] == f"ready: {root}/recipe.yaml"
    results = tmp_path / "somewhere else/results"
    assert sorted(str(path.relative_to(results)) for path in results.rglob("*") if path.is_file()) == sorted(
        f"{unit}/inputs/{name}" for unit in ("warm", "main") for name in INPUT_FILES
    )
    task = root / "data/tasks/t1/instruction.md"
    os.utime(task)
    assert prepare(root / "recipe.yaml") == (0, [f"ready: {root}/recipe.yaml, nothing to do"])
    task.write_text("Do another thing.\n")
    code, lines = prepare(root / "recipe.yaml", "--dry-run")
    assert code == exits.FAILED
    assert "would lock the datasets of main" in lines and not any("all inputs are there" in line for line in lines)
    assert not any("warm" in line for line in lines)
    (root / "data/tasks/t1/tests/test.sh").unlink()
    before = (results / "main/inputs/plan.json").read_bytes()
    code, lines = prepare(root / "recipe.yaml")
    assert code == exits.CONFIG
    assert any("../data/tasks/t1: tests/test.sh: a task needs tests" in line for line in lines)
    assert (results / "main/inputs/plan.json").read_bytes() == before


def test_a_dry_run_by_any_name_plans_and_what_makes_nothing_is_told_alone(
    make_recipe: MakeRecipe, prepare: Callable[..., tuple[int, list[str]]], tmp_path: Path
) -> None:
    """Of what is not there yet, none is asked for."""
    recipe = make_recipe() / "recipe.yaml"
    for spelling in ("--dryrun", "-pn"):
        code, lines = prepare(recipe, spelling)
        assert (code, lines[-1]) == (exits.FAILED, "not ready: 8 steps to do"), lines
        assert "would resolve main" in lines
    for option, told in (("--unlock", "Unlocked working directory."), ("--list", "prepare ("), ("--summary", "output_file\t")):
        code, lines = prepare(recipe, option)
        assert code == exits.DONE and any(line.startswith(told) for line in lines), lines
        assert not any(line.startswith(("ready", "not ready")) for line in lines)
    assert not (tmp_path / "somewhere else/results").exists()


@pytest.mark.parametrize(
    "settings", [[], ["--config", "results=mine"], ["--configfile", "settings.yaml"], ["--profile", "./profile"]]
)
def test_a_recipe_is_ready_when_no_task_would_be_refused(
    settings: list[str], make_recipe: MakeRecipe, prepare: Callable[..., tuple[int, list[str]]], tmp_path: Path
) -> None:
    """Asked each time, wherever the workflow was told that results lie, and in a dry run that has nothing to do."""
    root = make_recipe()
    folder = tmp_path / "somewhere else"
    (folder / "settings.yaml").write_text("results: other\n")
    (folder / "profile").mkdir()
    (folder / "profile/profile.yaml").write_text("cores: 1\nconfigfile: [settings.yaml]\n")
    stack = root / "data/tasks/t1/environment/docker-compose.yaml"
    stack.write_text("services:\n  main: {image: busybox}\n  store: {image: redis}\n")
    for options in ([],) if settings else ([], [], ["--dry-run"]):
        code, lines = prepare(root / "recipe.yaml", *options, *settings)
        assert code == exits.CONFIG, lines
        assert lines[-2] == f"not ready: {root}/recipe.yaml"
        refused = (
            "../data/tasks: task t1: it is a stack of several containers, which no session starts (exclude_tasks leaves it out"
        )
        assert lines[-1].startswith(f"platoon: {root}/configs/rl.yaml: {refused}"), lines
    if not settings:
        stack.unlink()
        assert prepare(root / "recipe.yaml")[0] == 0


@pytest.mark.parametrize("form", [["--config", "results=mine"], ["--config=results=mine"], ["-C", "results=mine", "--quiet"]])
def test_settings_of_the_workflow_do_not_take_the_recipes_place(form: list[str], tmp_path: Path) -> None:
    argv = command(tmp_path / "r.yaml", site=None, profile="local", dry_run=False, extra=form)
    assert argv.count("--config") == 1 and "-C" not in argv
    place = argv.index("--config")
    assert argv[place + 1 : place + 3] == ["results=mine", f"recipe={tmp_path / 'r.yaml'}"]


def test_a_dry_run_fetches_nothing_that_the_cache_lost(
    make_recipe: MakeRecipe, prepare: Callable[..., tuple[int, list[str]]], tmp_path: Path
) -> None:
    """It tells that it would; the run fetches and says where to."""
    recipe = make_recipe() / "recipe.yaml"
    assert prepare(recipe)[0] == 0
    cache = tmp_path / "cache"
    shutil.rmtree(cache)
    for _ in range(2):
        code, lines = prepare(recipe, "-n")
        assert code == exits.FAILED and not cache.exists(), lines
        told = [f"would fetch again what the cache in {cache} lacks of configs/{name}.yaml" for name in ("sft", "rl")]
        assert lines == [*told, "not ready: 2 steps to do"]
    code, lines = prepare(recipe)
    assert code == 0 and f"the cache in {cache} lacks data of these inputs: fetching it again" in lines
    assert prepare(recipe, "-n") == (0, [f"ready: {recipe}, nothing to do"])


def test_another_recipe_in_the_settings_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="the recipe is the command's argument"):
        command(tmp_path / "r.yaml", site=None, profile="local", dry_run=False, extra=["--config", "recipe=other.yaml"])


def test_faults_of_configurations_are_told_before_anything_runs(
    make_recipe: MakeRecipe, prepare: Callable[..., tuple[int, list[str]]], tmp_path: Path
) -> None:
    root = make_recipe()
    (root / "configs/rl.yaml").write_text("trian: {}\ntrain: {}\n")
    code, lines = prepare(root / "recipe.yaml")
    assert code == exits.CONFIG
    assert any("trian: unknown key (did you mean train" in line for line in lines)
    assert list((tmp_path / "somewhere else").iterdir()) == []


def test_one_configuration(make_recipe: MakeRecipe, prepare: Callable[..., tuple[int, list[str]]], tmp_path: Path) -> None:
    config = make_recipe() / "configs/rl.yaml"
    code, lines = prepare(config)
    assert code == 0, lines
    made = Path("results/outside", *config.parts[1:-1], "rl.yaml.inputs")
    assert lines[-1] == f"ready: {made}"
    assert (tmp_path / "somewhere else" / made / "image_map.json").is_file()


def test_profiles(make_recipe: MakeRecipe, prepare: Callable[..., tuple[int, list[str]]]) -> None:
    code, lines = prepare(make_recipe() / "recipe.yaml", "--profile", "nowhere")
    assert code == exits.CONFIG
    assert "no profile is called nowhere (known here: " in lines[-1]


@pytest.mark.parametrize("ending", [SystemExit(exits.TERMINATED), KeyboardInterrupt()], ids=["TERM", "INT"])
def test_a_signalled_command_waits_for_its_workflow(ending: BaseException, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Which is asked to end, and ends its steps first."""
    text = """
import pathlib, signal, sys, time
def end(*_):
    print("x" * 200_000, flush=True)
    time.sleep(0.6)
    pathlib.Path("ended").touch()
    sys.exit(1)
signal.signal(signal.SIGTERM, end)
print("2026-01-01 00:00:00 make it", flush=True)
time.sleep(20)
"""

    class Signalled(Console):
        def say(self, text: str) -> None:
            told.append(text)
            if text == "make it":
                raise ending

    told: list[str] = []
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(workflow, "command", lambda *_, **__: [sys.executable, "-c", text])
    recipe = Recipe.model_validate({"runs": {"main": {"config": "rl.yaml"}}})
    with pytest.raises(type(ending)) as stop:
        workflow.prepare(Path("r.yaml"), recipe, site=None, profile="local", dry_run=False, extra=(), console=Signalled())
    assert stop.value is ending and told == ["make it", "steps under way end first"]
    assert Path("ended").exists()
