"""Faults of configurations: one report that names file, key and rule, exit 78, nothing half-written."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner

from platoon import exits
from platoon.errors import ConfigError
from platoon.pipeline.recipe import open_recipe
from platoon.pipeline.sources import Sources, read_sources
from tests.pipeline.edits import edit, evaluation, inputs

pytestmark = pytest.mark.unit

MakeRecipe = Callable[..., Path]


def test_a_sandbox_provider_that_there_is_not(make_recipe: MakeRecipe, run: Callable[..., tuple[int, str]]) -> None:
    """An entry without a provider, on a site without one, means `docker`; no rollout would start, so nothing is fetched either."""
    root = make_recipe()
    config = root / "configs/rl.yaml"
    edit(config, "    provider: process\n", "")
    told = (
        f"{config}: environments.0.service_kwargs.provider: no sandbox provider is called 'docker'; there is: process "
        "(set `provider: process` there or in the site file)"
    )
    for command in (("config", "validate", config), ("rollout", config, "--task", "t0")):
        code, text = run(*command)
        assert (code, told in text) == (exits.CONFIG, True), text
    for command in (("resolve", config, "--out", "results/config.yaml"), ("harbor", "fetch", config)):
        code, text = run(*command)
        assert (code, told in text) == (exits.CONFIG, True), text
    assert not Path("cache").exists() and not Path("results").exists()
    Path("site.yaml").write_text("cache: cache\nprovider: process\n")
    assert run("config", "validate", config)[0] == 0


def test_a_sandbox_provider_that_is_misspelt(make_recipe: MakeRecipe, run: Callable[..., tuple[int, str]]) -> None:
    """In a configuration, in the site file, and in resolved inputs that were edited by hand or made by another version."""
    root = make_recipe()
    config = root / "configs/rl.yaml"
    assert inputs(root, run)[0] == 0
    told = "no sandbox provider is called 'proces'; there is: process (did you mean process?)"
    Path("results/config.yaml").chmod(0o644)
    edit(Path("results/config.yaml"), '"provider": "process"', '"provider": "proces"')
    locked = ("--datasets", "results/datasets.lock.json", "--out", "x.json")
    for command in (
        ("lock", "results/config.yaml", "--base", root / "configs", "--out", "x.json"),
        ("plan", "results/config.yaml", *locked),
    ):
        code, text = run(*command)
        assert (code, f"environments.0.service_kwargs.provider: {told}" in text) == (exits.CONFIG, True), text
    edit(config, "provider: process", "provider: proces")
    for command in (("config", "validate", config), ("harbor", "fetch", config), ("resolve", config, "--out", "x.json")):
        code, text = run(*command)
        assert (code, f"{config}: environments.0.service_kwargs.provider: {told}" in text) == (exits.CONFIG, True), text
    edit(config, "    provider: proces\n", "")
    Path("site.yaml").write_text("cache: cache\nprovider: proces\n")
    code, text = run("harbor", "fetch", config)
    assert (code, f"site.yaml: provider: {told}" in text) == (exits.CONFIG, True), text
    assert not Path("x.json").exists()


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"split": "evl"}, "'evl'; there is: train, eval (did you mean eval?)"),
        ({"split": "x", "splits": {"b": ["t1"], "a": ["t2"]}}, "'x'; there is: a, b (name one of them)"),
        ({"splits": {"held": ["t1"]}}, "'eval'; there is: held (name one of them)"),
    ],
)
def test_a_split_that_there_is_not(
    changes: dict[str, object], told: str, make_recipe: MakeRecipe, run: Callable[..., tuple[int, str]]
) -> None:
    """Known before anything is fetched, and before the training that an evaluation waits for."""
    config = evaluation(make_recipe(), **changes)
    for command in (("config", "validate", config), ("resolve", config, "--out", "x.json")):
        code, text = run(*command)
        want = f"{config}: split: no split of environments.0 is called {told}"
        assert (code, want in text.replace('"', "'")) == (exits.CONFIG, True), text
    assert not Path("x.json").exists()


@pytest.mark.parametrize("changes", [{}, {"split": "train"}, {"split": "a", "splits": {"b": ["t1"], "a": ["t2"]}}])
def test_a_split_that_there_is(changes: dict[str, object], make_recipe: MakeRecipe, run: Callable[..., tuple[int, str]]) -> None:
    code, text = run("config", "validate", evaluation(make_recipe(), **changes))
    assert code == exits.DONE, text


def test_entries_that_would_write_the_same_lock(make_recipe: MakeRecipe, run: Callable[..., tuple[int, str]]) -> None:
    config = make_recipe() / "configs/rl.yaml"
    values = yaml.safe_load(config.read_text())
    (entry,) = values["environments"]
    entry["service_kwargs"]["lock"] = "l.lock.json"
    other = {**entry["service_kwargs"], "select": {"name": "t1"}}
    values["environments"] = [{**entry, "name": "first"}, {**entry, "name": "second", "service_kwargs": other}]
    config.write_text(yaml.safe_dump(values))
    for command in (("config", "validate", config), ("resolve", config, "--out", "x.json"), ("harbor", "fetch", config)):
        code, text = run(*command)
        assert code == exits.CONFIG
        assert f"{config}: environments.1.service_kwargs.lock: environments first and second ask for different tasks" in text


def test_faults_of_every_kind_are_in_one_report(make_recipe: MakeRecipe, run: Callable[..., tuple[int, str]]) -> None:
    """Unknown keys hide no wrong name, and a wrong run no missing file."""
    root = make_recipe()
    config = root / "configs/rl.yaml"
    edit(config, "batch_size: 2, workflow_config: {group_size", "batchsize: 2, loss_fn: cipso, workflow_config: {groupsize")
    edit(config, "harness: platoon-bash", "harness: platoon-bsh")
    edit(config, "provider: process", "provider: proces")
    code, text = run("config", "validate", config)
    keys = ["train.batchsize", "train.loss_fn", "train.workflow_config.groupsize"]
    keys += ["environments.0.harness", "environments.0.service_kwargs.provider"]
    assert code == exits.CONFIG
    assert [text.count(f"{config}: {key}: ") for key in keys] == [1] * len(keys), text
    recipe = root / "recipe.yaml"
    recipe.write_text("runs: {main: {config: configs/r1.yaml}}\nevaluations: {after: {of: man, config: configs/rl.yaml}}\n")
    code, text = run("config", "validate", recipe)
    assert (code, "evaluations.after.of: no run is called man (did you mean main?)" in text) == (exits.CONFIG, True), text
    assert f"{recipe}: runs.main.config: no such file: configs/r1.yaml (did you mean configs/rl.yaml?)" in text


@pytest.mark.parametrize(
    ("named", "told"),
    [
        ("clone/recipe", "clone/recipe: is a folder (its recipe is clone/recipe/recipe.yaml)"),
        ("clone/recipe/data", "clone/recipe/data: is a folder without a recipe.yaml (did you mean clone/recipe/recipe.yaml?)"),
        ("clone/recipes/recipe.yaml", "clone/recipes/recipe.yaml: no such recipe (did you mean clone/recipe/recipe.yaml?)"),
        ("clone/x", "clone/x: no such recipe (known here: clone/recipe/recipe.yaml)"),
        ("x", "x: no such recipe"),
        (
            "clone/recipe/recipe.yaml",
            "clone/recipe/recipe.yaml: runs.main.config: no such file: configs/r1.yaml (did you mean configs/rl.yaml?)",
        ),
    ],
)
def test_a_recipe_that_the_workflow_cannot_open(
    make_recipe: MakeRecipe, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, named: str, told: str
) -> None:
    edit(make_recipe() / "recipe.yaml", "configs/rl.yaml", "configs/r1.yaml")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ConfigError) as refused:
        open_recipe(Path(named))
    assert str(refused.value) == told


def test_unknown_key(make_recipe: MakeRecipe, run: Callable[..., tuple[int, str]]) -> None:
    root = make_recipe()
    edit(root / "configs/rl.yaml", "batch_size", "batchsize")
    code, text = inputs(root, run)
    assert code == exits.CONFIG
    assert f"{root}/configs/rl.yaml: train.batchsize: unknown key (did you mean batch_size?)" in text
    assert not Path("results").exists()


def test_wrong_type(make_recipe: MakeRecipe, run: Callable[..., tuple[int, str]]) -> None:
    root = make_recipe()
    edit(root / "configs/rl.yaml", "batch_size: 2", "batch_size: two")
    code, text = inputs(root, run)
    assert code == exits.CONFIG
    assert f'{root}/configs/rl.yaml: train.batch_size: must be a whole number, got "two"' in text


def test_two_at_once_in_two_files_and_in_the_options_of_a_dataset(
    make_recipe: MakeRecipe, run: Callable[..., tuple[int, str]]
) -> None:
    root = make_recipe()
    edit(root / "configs/base.yaml", "max_training_steps: 3", "max_training_steps: -1")
    edit(root / "configs/rl.yaml", "provider: process", "provdier: process")
    edit(root / "configs/rl.yaml", "../data/tasks", "../data/nowhere")
    code, text = inputs(root, run)
    assert code == exits.CONFIG
    assert f"{root}/configs/base.yaml: train.max_training_steps: must be at least 1, got -1" in text
    assert f"{root}/configs/rl.yaml: environments.0.service_kwargs.provdier: unknown key (did you mean provider?)" in text
    assert f"{root}/configs/rl.yaml: environments.0.service_kwargs.dataset: no such file or directory: ../data/nowhere" in text
    assert text.count("platoon: ") == 1


@pytest.mark.parametrize(
    ("trainer", "options", "told"),
    [
        ("sft", "{data: ../data/chat.jsonl, colour: 1}", "trainer_options.colour: unknown key"),
        ("sft", "{data: ../data/chat.jsonl, max_length: 1}", "trainer_options.max_length: must be at least 2, got 1"),
        ("sft", "{data: []}", "trainer_options.data: "),
        ("sft", "{}", "trainer_options.data: "),
        ("rl", "{data: ../data/chat.jsonl}", "trainer_options: trainer rl takes no options"),
    ],
)
def test_options_that_a_trainer_does_not_take(
    trainer: str, options: str, told: str, make_recipe: MakeRecipe, run: Callable[..., tuple[int, str]]
) -> None:
    config = make_recipe() / f"configs/{trainer}.yaml"
    text = config.read_text().replace("trainer_options: {data: ../data/chat.jsonl}\n", "")
    config.write_text(f"{text}trainer_options: {options}\n")
    code, text = run("config", "validate", config)
    assert (code, f"{config}: {told}" in text) == (exits.CONFIG, True), text


def test_validate_reports_all_files_at_once(make_recipe: MakeRecipe, run: Callable[..., tuple[int, str]]) -> None:
    root = make_recipe()
    edit(root / "configs/sft.yaml", "trainer: sft", "trainer: stf")
    edit(root / "configs/rl.yaml", "harness:", "harnes:")
    (root / "other.yaml").write_text("x: 1\n")
    code, text = run("config", "validate", root / "recipe.yaml", root / "other.yaml")
    assert code == exits.CONFIG
    assert "trainer: must be one of" in text
    assert "unknown key (did you mean harness?)" in text
    assert "neither a training configuration" in text


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("runs: {}", "runs:"),
        ("runs: {Main: {config: a}}", "runs.Main"),
        ("runs: {eval-x: {config: a}}", "runs.eval-x: a run's name does not start with eval-"),
        ("runs: {a: {config: a, from: b}}", "runs.a.from: no run is called b"),
        ("runs: {a: {config: a, from: b}, b: {config: a, from: a}}", "runs.b.from: starts from itself"),
        ("runs: {a: {config: a}}\nevaluations: {e: {of: c, config: x}}", "evaluations.e.of: no run is called c"),
        ("runs: {a: {confg: a}}", "runs.a.confg: unknown key (did you mean config?)"),
        ("runs: {a: {config: a, parent: a}}", "runs.a.parent: unknown key"),
        ("runs: {a: {config: configs/base.yaml}}\nevaluations: {e: {of: a, config: none.yaml}}", "no such file: none.yaml"),
        ("runs: [a]", "runs: must be a mapping, got"),
    ],
)
def test_recipes(make_recipe: MakeRecipe, run: Callable[..., tuple[int, str]], text: str, words: str) -> None:
    root = make_recipe()
    (root / "recipe.yaml").write_text(text)
    code, told = run("config", "validate", root / "recipe.yaml")
    assert code == exits.CONFIG
    assert words in told


def test_hostile_names_of_files_are_told_on_one_line(make_recipe: MakeRecipe, run: Callable[..., tuple[int, str]]) -> None:
    root = make_recipe()
    (root / "data/tasks/t0/environment/a\nb").write_text("x")
    Path(os.fsdecode(os.fsencode(root) + b"/data/tasks/t1/tests/\xff.txt")).write_text("x")
    code, text = inputs(root, run)
    assert code == exits.CONFIG
    assert "t0: environment/a\\nb: a name is UTF-8 on one line" in text
    assert "t1: tests/\\xff.txt" in text


def test_files_the_workflow_watches(make_recipe: MakeRecipe) -> None:
    root = make_recipe()
    rl = str(root / "configs/rl.yaml")
    assert read_sources(rl).config == (rl, str(root / "configs/base.yaml"))
    found = read_sources(rl).data
    assert len(found) == 24
    assert str(root / "data/tasks/t0/tests/test.sh") in found
    assert read_sources(root / "configs/sft.yaml").data == (str(root / "data/chat.jsonl"),)
    (root / "configs/rl.yaml").write_text("extends: [gone.yaml, rl.yaml]\nenvironments: 3\n")
    assert read_sources(rl) == Sources((rl,), ())
    (root / "configs/base.yaml").write_text("{")
    (root / "configs/rl.yaml").write_text("extends: [base.yaml, base.yaml]\n")
    assert read_sources(rl) == Sources((rl, str(root / "configs/base.yaml")), ()), "one at fault is watched: it will be mended"
    assert read_sources(root / "gone.yaml") == Sources((), ())


def test_commands_tell_how_they_are_used() -> None:
    from platoon.cli.main import COMMANDS, platoon

    runner = CliRunner()
    assert all(name in runner.invoke(platoon, ["--help"]).output for name in COMMANDS)
    for name in ("resolve", "lock", "plan", "image-map", "summary", "verify", "prepare", "config", "harbor"):
        result = runner.invoke(platoon, [name, "--help"])
        assert result.exit_code == 0, result.output


@pytest.mark.parametrize(
    ("harness", "key", "rule"),
    [
        ("nope", "harness", "'nope' names no harness"),
        ("os:system", "harness", "'os:system' is no harness"),
        ("no.such:thing", "harness", "does not import"),
        ("platoon-bash\n  harness_options: {colour: 1}", "harness_options.colour", ""),
        ("platoon-bash\n  eval_overrides: {harness_options: {colour: 1}}", "harness_options.colour", ""),
        ("gone/harness.toml", "harness", "no such file or directory: gone/harness.toml"),
    ],
)
def test_a_harness_that_could_play_nothing(
    make_recipe: MakeRecipe, run: Callable[..., tuple[int, str]], harness: str, key: str, rule: str
) -> None:
    root = make_recipe()
    edit(root / "configs/rl.yaml", "harness: platoon-bash", f"harness: {harness}")
    code, text = run("config", "validate", root / "configs/rl.yaml")
    assert code == exits.CONFIG
    assert f"{root / 'configs/rl.yaml'}: environments.0.{key}: " in text
    assert rule in text


def test_the_spec_of_a_harness_lies_beside_the_file_that_names_it(
    make_recipe: MakeRecipe, run: Callable[..., tuple[int, str]]
) -> None:
    import shutil

    import platoon.harness

    root = make_recipe()
    shutil.copytree(Path(platoon.harness.__file__).parent / "builtin/platoon_bash", root / "configs/h")
    edit(root / "configs/rl.yaml", "harness: platoon-bash", "harness: h/harness.toml")
    assert run("config", "validate", root / "configs/rl.yaml")[0] == exits.DONE
    assert str(root / "configs/h/harness.toml") in read_sources(root / "configs/rl.yaml").data


@pytest.mark.parametrize("command", [("config", "validate"), ("prepare",)])
@pytest.mark.parametrize(
    ("make", "named", "told"),
    [
        (os.mkfifo, "fifo.yaml", "is no regular file: fifo.yaml"),
        (os.mkdir, "fifo.yaml", "is a folder: fifo.yaml"),
        (lambda path: path.symlink_to("fifo.yaml"), "fifo.yaml", "cannot be read (Too many levels of symbolic links): fifo.yaml"),
        (lambda path: None, "fifo.yaml", "no such file: fifo.yaml"),
        (lambda path: None, "configs", "is a folder: configs (did you mean configs/rl.yaml?)"),
        (lambda path: None, "./recipe.yaml", "train --config recipe={}` takes (name a configuration here)"),
    ],
)
def test_what_a_recipe_names_that_is_no_configuration(
    make_recipe: MakeRecipe,
    run: Callable[..., tuple[int, str]],
    make: Callable[[Path], None],
    named: str,
    told: str,
    command: tuple[str, ...],
) -> None:
    root = make_recipe()
    make(root / "fifo.yaml")
    recipe = root / "recipe.yaml"
    recipe.write_text(f"runs:\n  main: {{config: {named}}}\n")
    code, text = run(*command, recipe)
    assert code == exits.CONFIG and f"{recipe}: runs.main.config: " in text, text
    assert told.format(root / named) in text and "did you mean fifo.yaml" not in text, text
