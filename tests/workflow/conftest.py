"""A clone of the checkout as a user has it, and the tiny recipe trained in it once for all tests of the folder."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from platoon.host.locks import file_lock

RECIPE = "tests/recipes/tiny/recipe.yaml"
# What the run of `trained` wrote into its pipes.
FIRST_OUTPUT = "first_output.txt"


@dataclass(frozen=True)
class Clone:
    """A checkout of its own, with the compiled core copied in."""

    root: Path

    def environment(self, **more: str) -> dict[str, str]:
        """`platoon` and Snakemake come from the interpreter of the tests, the package from the clone."""
        return {**os.environ, "PYTHONPATH": str(self.root), "OMP_NUM_THREADS": "1", **more}

    def run(self, *command: str, timeout_s: float = 300, **env: str) -> subprocess.CompletedProcess[str]:
        """Runs a command in the clone to its end."""
        variables = self.environment(**env)
        return subprocess.run(command, cwd=self.root, env=variables, capture_output=True, text=True, timeout=timeout_s, check=False)

    def start(self, *command: str, stream: int = subprocess.PIPE, **env: str) -> subprocess.Popen[str]:
        """Starts a command in the clone, in a session of its own; stream: where output and errors go."""
        variables = self.environment(**env)
        errors = subprocess.STDOUT if stream == subprocess.PIPE else stream
        return subprocess.Popen(
            command, cwd=self.root, env=variables, stdout=stream, stderr=errors, text=True, start_new_session=True
        )

    def snakemake(
        self,
        *options: str,
        targets: tuple[str, ...] = ("train",),
        recipe: str = RECIPE,
        interpreter: str = sys.executable,
        **env: str,
    ) -> subprocess.CompletedProcess[str]:
        command = [interpreter, "-m", "snakemake", "--profile", "local", "--config", f"recipe={recipe}", *options, "--", *targets]
        return self.run(*command, **env)

    def platoon(self, *arguments: str, **env: str) -> subprocess.CompletedProcess[str]:
        return self.run(sys.executable, "-m", "platoon", *arguments, **env)


def clone_of(checkout: Path, target: Path) -> Clone:
    """What `git clone` gives, plus files not committed yet, so that the tests see the working tree."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"], cwd=checkout, capture_output=True, check=True
    )
    for name in filter(None, listed.stdout.decode().split("\0")):
        source, place = checkout / name, target / name
        if source.is_symlink() or source.exists():
            place.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source, place, follow_symlinks=False)
    # The compiled core, and what Python compiled: modules keep their times, so a clone need not compile them again.
    for made in [*(checkout / "platoon").glob("_native*.so"), *(checkout / "platoon").rglob("__pycache__/*.pyc")]:
        place = target / made.relative_to(checkout)
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(made, place)
    return Clone(target)


@pytest.fixture
def clone(checkout: Path, tmp_path: Path) -> Clone:
    """A fresh clone."""
    return clone_of(checkout, tmp_path / "clone")


@pytest.fixture(scope="session")
def trained(checkout: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Clone]:
    """A clone in which the tiny recipe has been trained. Tests that change it put it back.

    Of the workers of one session the first trains, and each has a copy: a folder of results can be moved.
    """
    base = tmp_path_factory.getbasetemp()
    shared = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "trained"
    with file_lock(shared.with_name("trained.lock"), timeout_s=300, what="the training that tests share"):
        if not (shared / FIRST_OUTPUT).exists():
            done = clone_of(checkout, shared).snakemake()
            assert done.returncode == 0, done.stdout + done.stderr
            (shared / FIRST_OUTPUT).write_text(done.stdout + done.stderr)
    own = tmp_path_factory.mktemp("trained") / "clone"
    shutil.copytree(shared, own, symlinks=True)
    yield Clone(own)
