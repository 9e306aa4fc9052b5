"""What a terminal shows after a text was written to it: enough of one for carriage returns, clearing and colours."""

from __future__ import annotations

import re

TOKEN = re.compile(r"\x1b\[(?P<arguments>[0-9;?]*)(?P<command>[A-Za-z])|(?P<character>[\s\S])")


def shown(text: str, columns: int = 120) -> list[str]:
    """The rows of a terminal that never scrolls away. Raises ValueError for a sequence that nothing here writes."""
    rows: list[list[str]] = [[]]
    column = 0
    for token in TOKEN.finditer(text):
        character, command = token["character"], token["command"]
        if command == "K" and token["arguments"] in ("", "0"):
            del rows[-1][column:]
        elif command is not None and command != "m":
            raise ValueError(f"unexpected sequence {token[0]!r}")
        elif character == "\r":
            column = 0
        elif character == "\n":
            # The terminal driver writes a carriage return before it.
            rows.append([])
            column = 0
        elif character is not None:
            if column == columns:
                rows.append([])
                column = 0
            row = rows[-1]
            row += " " * (column - len(row))
            row[column : column + 1] = [character]
            column += 1
    return ["".join(row).rstrip() for row in rows]
