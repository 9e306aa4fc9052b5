"""`platoon docs`: the files that are generated from the models, for who works on the project."""

from __future__ import annotations

from pathlib import Path

import click

from platoon.cli.options import FILE
from platoon.cli.screen import tell


@click.group()
def docs() -> None:
    """Generate reference pages and schemas from the models."""


@docs.command()
@click.option("--root", type=FILE, default=Path(), help="The checkout; the working directory when unset.")
def write(root: Path) -> None:
    """Write the generated files that differ."""
    from platoon.pipeline.reference import write as write_files

    for name in write_files(root):
        tell(name)
