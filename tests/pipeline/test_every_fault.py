"""`config validate` tells all faults of a configuration in one report: none hides another."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from platoon import exits
from tests.pipeline.conftest import RECIPE
from tests.pipeline.edits import edit

pytestmark = pytest.mark.unit

MakeRecipe = Callable[..., Path]

EVERYWHERE = [
    ("chat_template", "chat_template, renderer_kwargs: {colour: 1}", "train.renderer_kwargs.colour", "unknown key"),
    ("local/small", "local/smal", "train.model_name", "the embedded service has no base model 'local/smal'"),
    ("local/small", "local/small, context_window_length: 1000000", "train.context_window_length", "takes at most"),
    (
        "max_training_steps: 3}",
        "max_training_steps: 3}\npolicies: {p: {model_name: p}}\nagents: {policy: p}",
        "policies.p.model_name",
        "'p'",
    ),
    ("data/tasks", "configs", "environments.0.service_kwargs.dataset", "holds no task"),
]
OTHERS = [
    ("batch_size: 2", "batchsize: 2", "train.batchsize"),
    ("group_size: 4", "group_size: x", "train.workflow_config.group_size"),
    ("provider: process", "provider: proces", "environments.0.service_kwargs.provider"),
    ("tasks\n  service", "tasks\n  colour: 1\n  service", "environments.0.colour"),
]


@pytest.mark.parametrize("other", OTHERS)
@pytest.mark.parametrize(("old", "new", "key", "rule"), EVERYWHERE)
def test_no_fault_hides_another(
    make_recipe: MakeRecipe, run: Callable[..., tuple[int, str]], old: str, new: str, key: str, rule: str, other: tuple[str, ...]
) -> None:
    """What is sampled and what is played is judged whatever else is wrong, alone and where a faulty recipe names it."""
    root = make_recipe()
    place = root / ("configs/rl.yaml" if key.startswith("environments") else "configs/base.yaml")
    edit(place, old, new)
    edit(root / "configs/rl.yaml", *other[:2])
    for named in ("configs/rl.yaml", "recipe.yaml"):
        code, text = run("config", "validate", root / named)
        assert code == exits.CONFIG
        assert text.count(f"{place}: {key}: ") == 1 and rule in text, text
        assert text.count(f"{root / 'configs/rl.yaml'}: {other[2]}: ") == 1, text
        (root / "recipe.yaml").write_text(RECIPE.replace("from: warm", "from: worm"))


def test_a_model_and_its_renderer_are_judged_each_by_itself(make_recipe: MakeRecipe, run: Callable[..., tuple[int, str]]) -> None:
    """Where one of them is missing or no name at all, and where both are wrong; what nobody can judge is told of once."""
    root = make_recipe()
    base = root / "configs/base.yaml"
    for model in ("model_name: local/x, ", "model_name: 7, ", ""):
        base.write_text(f"train: {{{model}renderer_name: chat_template, renderer_kwargs: {{colour: 1}}, max_training_steps: 3}}\n")
        base.write_text(base.read_text() + "tinker_base_url: local\n")
        code, text = run("config", "validate", root / "configs/rl.yaml")
        assert (code, text.count(f"{base}: train.model_name: ")) == (exits.CONFIG, 1), text
        assert f"{base}: train.renderer_kwargs.colour: unknown key" in text
    base.write_text("train: {model_name: m, renderer_name: chat_template, max_training_steps: 3}\ntinker_base_url: locl\n")
    code, text = run("config", "validate", root / "configs/rl.yaml")
    assert "tinker_base_url: must be `local`" in text and "model_name" not in text, "what it is called depends on where it is"
