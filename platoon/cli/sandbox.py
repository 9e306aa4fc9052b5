"""`platoon sandbox`: what runs left behind in sandboxes."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import click

from platoon.cli.screen import tell
from platoon.config.text import counted


@click.group("sandbox")
def sandbox() -> None:
    """Sandboxes of runs: end what a dead run left."""


@sandbox.command("reap")
@click.argument("run_dir", type=click.Path(path_type=Path, file_okay=False))
@click.option("--provider", default="process", show_default=True, help="Whose sandboxes to look for.")
@click.option(
    "--option", "options", multiple=True, metavar="KEY=VALUE", help="An option of the provider, such as root=/scratch/me."
)
def reap(run_dir: Path, provider: str, options: tuple[str, ...]) -> None:
    """End and delete the sandboxes that a dead run left.

    Those of RUN_DIR whose owner is gone: a run that lives keeps its own. RUN_DIR itself may be gone: its sandboxes bear its name.
    """
    from platoon.errors import ConfigError, Problem
    from platoon.sandbox.base import SandboxLeft
    from platoon.sandbox.reaping import reap_run

    reaped = asyncio.run(reap_run(run_dir, provider, _parse(options)))
    tell(f"{counted(reaped.count, 'sandbox', 'sandboxes')} of {run_dir} ended")
    if reaped.failure:
        raise SandboxLeft(reaped.failure)
    if not reaped.count and not run_dir.is_dir():
        advice = "name the directory as `platoon train` told it at its end"
        raise ConfigError(Problem("no such run directory, and no sandbox bears its name", file=str(run_dir), advice=advice))


def _parse(options: tuple[str, ...]) -> dict[str, Any]:
    parsed = {}
    for option in options:
        key, separator, value = option.partition("=")
        if not separator or not key:
            raise click.BadParameter(f"{option!r} is not KEY=VALUE", param_hint="--option")
        parsed[key] = value
    return parsed
