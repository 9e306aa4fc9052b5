"""Results for people on standard output: text is never broken or marked up, tables fold at a terminal's width and nowhere else."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import Console

# Wider than any row: what is piped is for tools that work by lines.
PIPED_WIDTH = 1000


def screen() -> Console:
    """The console for tables."""
    from rich.console import Console

    # There is none where the caller closed it.
    on_terminal = sys.stdout is not None and sys.stdout.isatty()
    return Console(highlight=False, markup=False, width=None if on_terminal else PIPED_WIDTH)


def say(console: Console, text: str) -> None:
    """One line, however long."""
    console.print(text, soft_wrap=True)


def cell(text: str) -> Any:
    """Text of a table as it is, on one line, with what does not print spelt out."""
    from rich.text import Text

    from platoon.config.text import printable

    return Text(printable(text))
