"""A recipe where a configuration is wanted, and a configuration where a recipe is."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from platoon import exits
from platoon.cli.main import main
from platoon.errors import ConfigError
from platoon.pipeline.recipe import open_recipe

pytestmark = pytest.mark.unit


@pytest.mark.parametrize(
    "command",
    [
        ("train",),
        ("eval",),
        ("rollout", "--task", "t"),
        ("harbor", "fetch"),
        ("harbor", "lock"),
        ("harbor", "verify"),
        ("config", "show"),
    ],
    ids=" ".join,
)
def test_a_recipe_is_told_with_what_takes_it(
    command: tuple[str, ...],
    make_recipe: Callable[..., Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    recipe = make_recipe() / "recipe.yaml"
    (tmp_path / "site.yaml").write_text("cache: cache\nruns: runs\n")
    monkeypatch.setenv("PLATOON_SITE", str(tmp_path / "site.yaml"))
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(SystemExit) as stop:
        main([*command, str(recipe)])
    told = capsys.readouterr().err
    assert stop.value.code == exits.CONFIG
    assert f"{recipe}: is a recipe, which `snakemake --profile local train --config recipe={recipe}` takes" in told
    assert f"name one of its configurations here: {recipe.parent}/configs/sft.yaml, {recipe.parent}/configs/rl.yaml" in told
    assert sorted(tmp_path.rglob("*")) == before


@pytest.mark.parametrize("text", ["runs: 7\n", "runs: {a: 7}\n", "evaluations: {a: {}}\n"])
def test_a_recipe_at_fault_is_told_as_a_recipe_too(text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "recipe.yaml").write_text(text)
    with pytest.raises(SystemExit) as stop:
        main(["config", "show", str(tmp_path / "recipe.yaml")])
    assert stop.value.code == exits.CONFIG
    assert "is a recipe" in capsys.readouterr().err


def test_a_configuration_is_no_recipe(make_recipe: Callable[..., Path]) -> None:
    root = make_recipe()
    (root / "rl.yaml").write_text("train: {}\n")
    with pytest.raises(ConfigError) as refusal:
        open_recipe(root / "rl.yaml")
    assert (
        str(refusal.value) == f"{root}/rl.yaml: is a configuration of kind train, not a recipe (did you mean {root}/recipe.yaml?)"
    )
