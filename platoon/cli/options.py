"""Options that several commands share."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

Command = TypeVar("Command", bound=Callable[..., Any])

FILE = click.Path(path_type=Path)


def common(command: Command) -> Command:
    """`--site` and `--log-file`."""
    command = click.option("--log-file", type=FILE, help="Plain lines of progress are appended here.")(command)
    return click.option("--site", "site_path", type=FILE, help="Site file; else PLATOON_SITE, else the user's.")(command)


def out(help_text: str) -> Callable[[Command], Command]:
    """A required `--out`."""
    return click.option("--out", required=True, type=FILE, help=help_text)
