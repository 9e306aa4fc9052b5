"""`platoon prepare` of a configuration alone: refused as `config validate` refuses it, in a folder of its own."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from platoon import exits
from platoon.pipeline.layout import INPUT_FILES, inputs_of_config
from tests.pipeline.edits import edit, evaluation

pytestmark = pytest.mark.unit

MakeRecipe = Callable[..., Path]
Run = Callable[..., tuple[int, str]]


@pytest.mark.parametrize(
    ("old", "new", "key"),
    [
        ("local/small", "local/smal", "model_name"),
        ("chat_template", "chat_template, renderer_kwargs: {colour: 1}", "renderer_kwargs.colour"),
        ("max_training_steps", "context_window_length: 1, max_training_steps", "context_window_length"),
    ],
)
def test_what_validate_refuses_is_never_ready(make_recipe: MakeRecipe, run: Run, old: str, new: str, key: str) -> None:
    root = make_recipe()
    edit(root / "configs/base.yaml", old, new)
    for named in ("configs/rl.yaml", "configs/sft.yaml", "recipe.yaml"):
        refused = run("config", "validate", root / named)
        assert refused[0] == exits.CONFIG and f"{root / 'configs/base.yaml'}: train.{key}: " in refused[1]
        assert run("prepare", root / named) == refused
    assert not Path("results").exists()


def _with_mcp_servers(root: Path, *tasks: str) -> None:
    for task in tasks:
        file = root / "data/tasks" / task / "task.toml"
        file.write_text(file.read_text() + '[[environment.mcp_servers]]\nname = "clock"\nurl = "http://127.0.0.1:1/mcp"\n')


def test_ready_means_that_no_task_would_be_refused(make_recipe: MakeRecipe, run: Run) -> None:
    """Each task that is played is asked as a run asks it; one that a run holds out it is warned of, and an evaluation refused."""
    root = make_recipe()
    evaluated = evaluation(root, splits={"train": ["t0", "t2"], "eval": ["t1", "t4"]})
    config = root / "configs/rl.yaml"
    holdout = "    index: [{metadata: [family]}]\n    holdout: {fraction: 0.3, group_by: family}"
    edit(config, holdout, "    splits: ../data/splits.json")
    edit(config, "batch_size: 2", "batch_size: 1")
    _with_mcp_servers(root, "t2", "t4")
    Path("site.yaml").write_text("cache: cache\nruns: runs\n")
    why = "it gives agents MCP servers, which sessions do not offer (exclude_tasks leaves it out)"
    for path, command, task in ((config, "train", "t2"), (evaluated, "eval", "t4")):
        code, text = run("prepare", path)
        assert code == exits.CONFIG and "ready: " not in text
        assert text.splitlines()[-1].endswith(f"data/tasks: task {task}: {why}")
        refused = run(command, path)
        assert (refused[0], refused[1].splitlines()[-1]) == (code, text.splitlines()[-1])
        if path == config:
            edit(path, "  service_kwargs:", f"  exclude_tasks: [{task}]\n  service_kwargs:")
        else:
            edit(path, '"service_kwargs":', f'"exclude_tasks": ["{task}"], "service_kwargs":')
    code, text = run("prepare", config)
    assert code == exits.DONE and "\nready: " in text
    assert f"warning: tasks: a run with t4 stops: {why}" in text.splitlines()
    assert run("prepare", evaluated)[0] == exits.DONE


def test_ready_means_that_the_tasks_fill_a_batch(make_recipe: MakeRecipe, run: Run) -> None:
    """As a run asks them to, which refuses them before it makes its directory."""
    config = make_recipe() / "configs/rl.yaml"
    Path("site.yaml").write_text("cache: cache\nruns: runs\n")
    edit(config, "batch_size: 2", "batch_size: 64")
    refused = "train.batch_size: must not exceed the 4 listed train tasks, got 64"
    for command in ("prepare", "train"):
        code, text = run(command, config)
        assert code == exits.CONFIG and text.splitlines()[-1].endswith(refused), text
    assert not Path("runs").exists()
    edit(config, "batch_size: 64", "batch_size: 4")
    assert run("prepare", config)[0] == exits.DONE


def test_configurations_of_one_name_share_no_folder(make_recipe: MakeRecipe, run: Run) -> None:
    """Nor does one with a unit of a recipe, here the run `rl`: each has its own folder, the same at the next time."""
    root = make_recipe()
    config = root / "configs/rl.yaml"
    other = root / "others/rl.yaml"
    other.parent.mkdir()
    other.write_text(config.read_text().replace("batch_size: 2", "batch_size: 1").replace("base.yaml", "../configs/base.yaml"))
    unit = Path("results/rl/inputs/config.yaml")
    unit.parent.mkdir(parents=True)
    unit.write_text("of a recipe")
    made = {}
    for path in (config, other, evaluation(root), config):
        code, text = run("prepare", path)
        assert code == exits.DONE, text
        folder = Path(text.splitlines()[-1].split("ready: ")[1])
        assert folder == inputs_of_config(Path("results"), path)
        assert sorted(file.name for file in folder.iterdir()) == sorted(INPUT_FILES)
        made[path] = json.loads((folder / "config.yaml").read_text())["config"]
    assert [made[path]["train"]["batch_size"] for path in (config, other)] == [2, 1]
    assert unit.read_text() == "of a recipe"


def test_the_folder_of_a_configuration(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """However it is named; below the working directory it lies in as it does there."""
    here = tmp_path / "here"
    here.mkdir()
    monkeypatch.chdir(here)
    results = Path("results")
    for named in ("a/rl.yaml", "./a/../a/rl.yaml", str(here / "a/rl.yaml")):
        assert inputs_of_config(results, Path(named)) == results / "a/rl.yaml.inputs"
    outside = results / "outside" / tmp_path.relative_to("/") / "rl.yaml.inputs"
    assert inputs_of_config(results, Path("../rl.yaml")) == outside
    assert inputs_of_config(results, Path("rl")) == results / "rl.inputs", "no unit has a dot in its name"


@pytest.mark.parametrize(
    ("files", "told"),
    [
        ({"environment/docker-compose.yaml": "services: {main: {}, db: {image: redis}}\n"}, "it is a stack of several containers"),
        ({"environment/docker-compose.yaml": "services: {main: {cap_drop: [ALL]}}\n"}, "its compose file sets up main"),
        ({"environment/Dockerfile": "FROM debian:12\nRUN true\nCOPY a /a\n", "environment/a": ""}, "its Dockerfile ends in steps"),
        (
            {"task.toml": 'metadata.family = "f0"\n[[environment.mcp_servers]]\nname = "m"\nurl = "http://x"\n'},
            "it gives agents MCP servers",
        ),
        (
            {"task.toml": 'metadata.family = "f0"\n[verifier]\nenvironment_mode = "separate"\n'},
            "its tests run in a sandbox of their own",
        ),
    ],
)
def test_tasks_that_no_session_opens_are_told_before_a_run(
    make_recipe: MakeRecipe, run: Run, files: dict[str, str], told: str
) -> None:
    root = make_recipe()
    for name, text in files.items():
        for task in ("t1", "t2"):
            (root / "data/tasks" / task / name).parent.mkdir(exist_ok=True)
            (root / "data/tasks" / task / name).write_text(text)
    config = root / "configs/rl.yaml"
    warning = f"warning: tasks: a run with t1, t2 stops: {told}"
    for command, ended in ((("harbor", "fetch"), exits.DONE), (("prepare",), exits.CONFIG)):
        code, text = run(*command, config)
        assert code == ended, text
        assert any(line.startswith(warning) for line in text.splitlines()), text
    edit(config, "service: harbor", "service: harbor\n  exclude_tasks: [t1]")
    assert f"a run with t2 stops: {told}" in run("prepare", config)[1]
