"""A wheel by itself: in an empty environment it prepares a recipe from any folder, and adds nothing beside the package."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

pytestmark = [pytest.mark.process, pytest.mark.timeout(900)]


@pytest.fixture(scope="module")
def wheel(checkout: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built from the checkout with what is compiled already."""
    out = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", str(out), str(checkout)]
    subprocess.run(command, check=True, timeout=600)
    (built,) = out.glob("platoon-*.whl")
    return built


def test_a_wheel_adds_the_package_and_nothing_else(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    assert {name.split("/")[0] for name in names} == {"platoon", f"{wheel.name.split('-')[0]}-{wheel.name.split('-')[1]}.dist-info"}
    assert "platoon/shipped/workflow/Snakefile" in names
    assert "platoon/shipped/rules/train.smk" in names
    assert "platoon/shipped/profiles/slurm/profile.yaml" in names


def test_an_empty_environment_prepares_from_another_folder(wheel: Path, checkout: Path, tmp_path: Path) -> None:
    environment = tmp_path / "environment"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(environment)], check=True, timeout=120)
    constraints = checkout / "envs/constraints.txt"
    # Most of what is installed is never imported here: compiling all of it costs more than the rest of the test.
    install = ["install", "--quiet", "--no-compile", "--constraint", str(constraints), str(wheel)]
    subprocess.run([sys.executable, "-m", "pip", "--python", str(environment), *install], check=True, timeout=600)
    folder, home = tmp_path / "elsewhere", tmp_path / "home"
    folder.mkdir()
    home.mkdir()
    variables = {key: value for key, value in os.environ.items() if not key.startswith(("PYTHON", "PLATOON", "SNAKEMAKE"))}
    site = folder / "site.yaml"
    site.write_text("cache: cache\nruns: runs\n")
    recipe = checkout / "recipes/quickstart/recipe.yaml"
    command = [str(environment / "bin/platoon"), "prepare", str(recipe), "--site", str(site)]
    variables.update(HOME=str(home), XDG_CONFIG_HOME=str(home), PATH=f"{environment / 'bin'}:{os.environ['PATH']}")
    run = subprocess.run(command, cwd=folder, env=variables, capture_output=True, text=True, timeout=300, check=False)
    assert run.returncode == 0, run.stdout + run.stderr
    assert (folder / "results/main/inputs/image_map.json").is_file()
    assert "ready" in run.stdout + run.stderr
