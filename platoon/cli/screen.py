"""What commands print: results on standard output, where text is never broken or marked up and tables fold at a terminal's width
and nowhere else, and lines beside them on standard error."""

from __future__ import annotations

import io
import json
import os
import sys
from collections.abc import Collection, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from platoon.config.text import printable

if TYPE_CHECKING:
    from rich.console import Console, JustifyMethod

# Wider than any row: what is piped is for tools that work by lines.
PIPED_WIDTH = 1000
# Characters below which a column that folds cannot be read: a short digest fits.
LEAST_COLUMN = 20
STANDARD_ERROR = 2
# `sha256:` and twelve digits of 64.
DIGEST_CHARACTERS = 19


def screen() -> Console:
    """The console for tables."""
    from rich.console import Console

    return Console(highlight=False, markup=False, width=None if sys.stdout.isatty() else PIPED_WIDTH)


def warn(text: str) -> None:
    """A line on standard error. Where that is closed or full it is lost, and changes nothing else."""
    with suppress(OSError):
        _write(sys.stderr, text)


def tell(text: str) -> None:
    """A line of a result on standard output."""
    _write(sys.stdout, text)


def tell_json(value: Any) -> None:
    """A value for programs, as one line of ASCII: whatever the encoding of standard output, it is JSON."""
    tell(json.dumps(value, sort_keys=True))


def _write(stream: TextIO, text: str) -> None:
    stream.write(f"{text}\n")
    stream.flush()


def open_streams() -> None:
    """Makes the standard streams fit to be written to at any time.

    A stream that the caller closed goes to nobody: else the next file that is opened would take its number, and what this process
    and its children tell would go into that. One whose reader leaves goes to nobody from then on: who reads the first line only
    ends no work. What a stream's encoding lacks is written as a backslash and a number.
    """
    while (descriptor := os.open(os.devnull, os.O_RDWR)) <= STANDARD_ERROR:
        os.set_inheritable(descriptor, True)
    os.close(descriptor)
    for name in ("stdin", "stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, Path(os.devnull).open("r" if name == "stdin" else "w"))  # noqa: SIM115  because it stays
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        # Others are the caller's own, who put them there.
        if isinstance(stream, io.TextIOWrapper) and stream is getattr(sys, f"__{name}__"):
            setattr(sys, name, _lasting(stream))


def give_up_results() -> None:
    """Drops what standard output does not take, so that the end of the interpreter does not fail over it again."""
    try:
        sys.stdout.flush()
    except OSError:
        _send_to_nobody(sys.stdout.fileno())


class _LastingFile(io.FileIO):
    """A descriptor that goes to nobody once nobody reads it; standard error fails for no other reason either."""

    def write(self, data: Any, /) -> int:
        try:
            return super().write(data)
        except BrokenPipeError:
            _send_to_nobody(self.fileno())
        except OSError:
            if self.fileno() != STANDARD_ERROR:
                raise
        return memoryview(data).nbytes


def _lasting(stream: io.TextIOWrapper) -> io.TextIOWrapper:
    stream.flush()
    file = io.BufferedWriter(_LastingFile(stream.fileno(), "w", closefd=False))
    return io.TextIOWrapper(file, stream.encoding, "backslashreplace", line_buffering=stream.line_buffering)


def _send_to_nobody(descriptor: int) -> None:
    nobody = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nobody, descriptor)
    os.close(nobody)


def print_table(
    console: Console,
    title: str,
    rows: Sequence[Sequence[str]],
    columns: Sequence[str] = (),
    *,
    numbers: Collection[str] = (),
    ends: Collection[int] = (),
) -> None:
    """A table of cells as they are, with what does not print spelt out; where it would leave too little to a column, each row as
    lines of one field instead, without those that are empty.

    columns: the heads; without them the last cell is what the others call it. numbers: columns to the right. ends: a line comes
    after these rows.
    """
    from rich.cells import cell_len
    from rich.table import Table
    from rich.text import Text

    shown = [[printable(text) for text in row] for row in rows]
    heads = columns or [""] * max(map(len, shown), default=0)
    widths = [max(map(cell_len, cells)) for cells in zip(heads, *shown, strict=True)]
    # The first column, and the names of what the last one says, are whole; others fold.
    whole = 1 if columns else len(widths) - 1
    least = [width if place < whole else min(width, LEAST_COLUMN) for place, width in enumerate(widths)]
    if sum(least) + 3 * len(least) + 1 > console.width:
        _print_lines(console, title, shown, columns)
        return
    table = Table(title=title, title_justify="left", show_header=bool(columns))
    for place, head in enumerate(heads):
        justify: JustifyMethod = "right" if head in numbers else "left"
        table.add_column(head, justify=justify, min_width=least[place], no_wrap=place < whole, overflow="fold")
    for number, row in enumerate(shown):
        table.add_row(*map(Text, row), end_section=number in ends)
    console.print(table)


def short_digest(text: str) -> str:
    """A digest as tables show it, which `--json` prints whole; another text as it is."""
    return text[:DIGEST_CHARACTERS] if text.startswith("sha256:") else text


def _print_lines(console: Console, title: str, rows: Sequence[Sequence[str]], columns: Sequence[str]) -> None:
    say(console, title)
    for first, *others in rows:
        if columns:
            say(console, f"  {first}")
            for head, text in zip(columns[1:], others, strict=True):
                if text:
                    say(console, f"    {head}: {text}")
        else:
            names = " ".join(filter(None, (first, *others[:-1])))
            say(console, f"  {names}: {others[-1]}" if names else f"    {others[-1]}")


def say(console: Console, text: str) -> None:
    """One line, however long."""
    console.print(text, soft_wrap=True)
