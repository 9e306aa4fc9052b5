"""Configurations that a recipe names, and a cache that a site names: faults of theirs are told where they are named."""

from __future__ import annotations

import errno
from collections.abc import Callable
from pathlib import Path

import pytest

from platoon import exits
from platoon.envs.harbor.sources.git_command import GitError
from platoon.errors import ConfigError, PlatoonError
from platoon.pipeline.datasets import cache_writes
from platoon.pipeline.recipe import open_recipe

pytestmark = pytest.mark.unit

MakeRecipe = Callable[..., Path]
Run = Callable[..., tuple[int, str]]
CONFIGS = {
    "/dev/null": "/dev/null: must hold a mapping",
    "configs/r1.yaml": "no such file: configs/r1.yaml (did you mean configs/rl.yaml?)",
    "configs/list.yaml": "{root}/configs/list.yaml: must hold a mapping",
    "configs/none.yaml": "{root}/configs/none.yaml: ",
    "data": "is a folder: data",
}


@pytest.mark.parametrize("config", CONFIGS)
def test_a_configuration_that_is_none_is_told_with_the_key_that_names_it(config: str, make_recipe: MakeRecipe, run: Run) -> None:
    root = make_recipe()
    for name, text in {"list": "[1]", "none": "seed: 1"}.items():
        (root / f"configs/{name}.yaml").write_text(text)
    recipe = root / "recipe.yaml"
    recipe.write_text(f"runs: {{a: {{config: configs/rl.yaml}}, b: {{config: {config}}}}}\n")
    code, text = run("config", "validate", recipe)
    told = f"{recipe}: runs.b.config: {CONFIGS[config].format(root=root)}"
    assert (code, text.startswith(f"platoon: {told}")) == (exits.CONFIG, True), text
    with pytest.raises(ConfigError) as refused:
        open_recipe(recipe)
    assert str(refused.value).startswith(told)


def test_faults_in_a_configuration_are_told_at_their_own_keys(make_recipe: MakeRecipe, run: Run) -> None:
    root = make_recipe()
    config = root / "configs/rl.yaml"
    config.write_text(config.read_text().replace("batch_size", "batchsize"))
    code, text = run("config", "validate", root / "recipe.yaml")
    assert (code, f"platoon: {config}: train.batchsize: unknown key" in text) == (exits.CONFIG, True), text


@pytest.mark.parametrize("command", ["lock", "train", "fetch", "chat"])
@pytest.mark.parametrize("place", ["file/cache", "/proc/platoon"])
def test_a_cache_that_cannot_be_written_is_refused(
    command: str, place: str, make_recipe: MakeRecipe, run: Run, tmp_path: Path
) -> None:
    root = make_recipe()
    Path("file").touch()
    Path("site.yaml").write_text(f"cache: {place}\nruns: runs\n")
    commands = {
        "lock": ("config", "validate", root / "configs/rl.yaml", "--tasks"),
        "train": ("train", root / "configs/rl.yaml"),
        "fetch": ("harbor", "fetch", root / "configs/rl.yaml"),
        "chat": ("train", root / "configs/sft.yaml"),
    }
    code, text = run(*commands[command])
    assert code == exits.CONFIG, text
    assert f"platoon: {tmp_path / place}" in text and ": cache: cannot be written: " in text
    assert not Path("runs").exists()


def test_a_file_that_fails_elsewhere_is_no_fault_of_the_cache(tmp_path: Path) -> None:
    for name in (tmp_path / "elsewhere", tmp_path / "cache/gone"):
        with pytest.raises(FileNotFoundError), cache_writes(tmp_path / "cache"):
            name.read_bytes()


@pytest.mark.parametrize(
    "error", [OSError(errno.ENOSPC, "No space left on device"), GitError("url", "fatal: No space left on device")]
)
def test_a_full_cache_is_told_with_the_way_out(tmp_path: Path, error: Exception) -> None:
    told = r"No space left on device \(make room there, or set cache: in the site file"
    with pytest.raises(PlatoonError, match=told), cache_writes(tmp_path):
        raise error
