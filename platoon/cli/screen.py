"""What commands print: results on standard output, where text is never broken or marked up and tables fold at a terminal's width
and nowhere else, and lines beside them on standard error."""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import Console

# Wider than any row: what is piped is for tools that work by lines.
PIPED_WIDTH = 1000
STANDARD_ERROR = 2


def screen() -> Console:
    """The console for tables."""
    from rich.console import Console

    return Console(highlight=False, markup=False, width=None if sys.stdout.isatty() else PIPED_WIDTH)


def warn(text: str) -> None:
    """A line on standard error. Where that is closed or full it is lost, and changes nothing else."""
    import click

    with suppress(OSError):
        click.echo(text, err=True)


def open_streams() -> None:
    """Gives a standard stream that the caller closed to nobody: else the next file that is opened would take its number, and what
    this process and its children tell would go into that."""
    while (descriptor := os.open(os.devnull, os.O_RDWR)) <= STANDARD_ERROR:
        os.set_inheritable(descriptor, True)
    os.close(descriptor)
    for name in ("stdin", "stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, Path(os.devnull).open("r" if name == "stdin" else "w"))  # noqa: SIM115  because it stays


def say(console: Console, text: str) -> None:
    """One line, however long."""
    console.print(text, soft_wrap=True)


def cell(text: str) -> Any:
    """Text of a table as it is, on one line, with what does not print spelt out."""
    from rich.text import Text

    from platoon.config.text import printable

    return Text(printable(text))
