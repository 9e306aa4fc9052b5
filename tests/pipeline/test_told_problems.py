"""How the command line tells problems: each with the file that sets its key, several as an even list."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from platoon import exits
from platoon.cli.problems import MOST_TOLD, of_configuration, told
from platoon.errors import ConfigError, NotPreparedError, PlatoonError, Problem
from tests.pipeline.edits import edit, evaluation

pytestmark = pytest.mark.unit

MakeRecipe = Callable[..., Path]
Run = Callable[..., tuple[int, str]]


def test_one_problem_and_several() -> None:
    one, two = Problem("is required", "a", "f.yaml"), Problem("unknown key", "b")
    assert told(ConfigError(one)) == "platoon: f.yaml: a: is required"
    assert told(ConfigError([one, two])) == "platoon: 2 problems\nf.yaml: a: is required\nb: unknown key"
    lines = told(ConfigError([one] * (MOST_TOLD + 7))).splitlines()
    assert (lines[0], len(lines), lines[-1]) == (f"platoon: {MOST_TOLD + 7} problems", MOST_TOLD + 2, "and 7 more")
    assert told(PlatoonError("a step failed\nwith two lines")) == "platoon: a step failed\nwith two lines"


@pytest.mark.parametrize("overrides", [(), ("train.batch_size=100",)])
def test_a_batch_that_the_dataset_cannot_give(make_recipe: MakeRecipe, run: Run, overrides: tuple[str, ...]) -> None:
    """Found when the run is put together, of values that bear no place any more."""
    config = make_recipe() / "configs/rl.yaml"
    if not overrides:
        edit(config, "batch_size: 2", "batch_size: 100")
    code, text = run("train", config, *overrides, "--run-dir", "run")
    place = "command line" if overrides else config
    assert code == exits.CONFIG
    assert f"platoon: {place}: train.batch_size: must not exceed the 4 listed train tasks, got 100" in text


def test_faults_of_an_evaluation_before_any_service_starts(make_recipe: MakeRecipe, run: Run) -> None:
    config = evaluation(make_recipe(), split="train", inference={"model_name": "local/x", "renderer_name": "chat_template"})
    told_of = f"platoon: {config}: inference.model_name: the embedded service has no base model 'local/x'"
    for command in (("eval", config), ("rollout", config, "--task", "t1")):
        code, text = run(*command)
        assert (code, told_of in text) == (exits.CONFIG, True), text
        assert "starting" not in text and "playing" not in text
    edit(config, "local/x", "local/small")
    code, text = run("rollout", config, "--task", "t1", "--model", "local/y")
    assert (code, "platoon: --model: the embedded service has no base model 'local/y'" in text) == (exits.CONFIG, True), text


def test_what_is_of_no_key_keeps_its_words_and_its_type(make_recipe: MakeRecipe) -> None:
    config = make_recipe() / "configs/rl.yaml"
    given = [Problem("x", "--task"), Problem("x", "TINKER_API_KEY"), Problem("x"), Problem("x", "train.batch_size", "other.yaml")]
    with pytest.raises(NotPreparedError) as refused, of_configuration(config, ()):
        raise NotPreparedError([*given, Problem("y", "train.model_name", advice="z"), Problem("y", "environments.0.harness")])
    base = str(config.parent / "base.yaml")
    found = [Problem("y", "train.model_name", base, "z"), Problem("y", "environments.0.harness", str(config))]
    assert list(refused.value.problems) == [*given, *found]
    config.write_text("{")
    with pytest.raises(ConfigError) as refused, of_configuration(config, ()):
        raise ConfigError(given)
    assert list(refused.value.problems) == given
