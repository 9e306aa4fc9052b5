"""Wildcards of COPY and ADD: which files of a context a source takes, by the rules of Go's `filepath.Match`.

`*` and `?` stop at `/`, `[…]` is a class with ranges, `^` in it negates, a backslash escapes. A pattern names files and directories
of as many parts as it has itself, and a directory that it names is taken whole.

    files_matching("*.x", ("a.x", "b", "c.x/d"))  ->  ("a.x", "c.x/d")
"""

from __future__ import annotations

import re
from collections.abc import Sequence

# No path is longer.
PATTERN_CHARACTERS = 4096


def files_matching(pattern: str, files: Sequence[str]) -> tuple[str, ...]:
    """The files that a pattern takes, all of them where it is malformed or too long. pattern: relative, without `.` and `..`."""
    try:
        expression = re.compile(_expression(pattern.rstrip("/")), re.DOTALL)
    except ValueError:
        return tuple(files)
    parts = pattern.rstrip("/").count("/") + 1
    known: dict[str, bool] = {}

    def takes(file: str) -> bool:
        named = "/".join(file.split("/", parts)[:parts])
        if named not in known:
            known[named] = expression.fullmatch(named) is not None
        return known[named]

    return tuple(file for file in files if takes(file))


def _expression(pattern: str) -> str:
    """A regular expression that never tries a star twice. Raises ValueError for what is no pattern."""
    if len(pattern) > PATTERN_CHARACTERS:
        raise ValueError
    first, *others = _segments(pattern)
    if not others:
        return "".join(first)
    # A star that stops at the first place where what follows it matches leaves most to the others.
    middle = (f"(?>[^/]*?{''.join(segment)})" for segment in others[:-1])
    return f"{''.join(first)}{''.join(middle)}[^/]*{''.join(others[-1])}"


def _segments(pattern: str) -> list[list[str]]:
    """What stands between the stars, an expression a character."""
    segments: list[list[str]] = [[]]
    position = 0
    while position < len(pattern):
        character = pattern[position]
        if character == "*":
            segments.append([])
            position += 1
        elif character == "?":
            segments[-1].append("[^/]")
            position += 1
        elif character == "[":
            expression, position = _class(pattern, position + 1)
            segments[-1].append(expression)
        else:
            literal, position = _literal(pattern, position)
            segments[-1].append(re.escape(literal))
    return segments


def _class(pattern: str, position: int) -> tuple[str, int]:
    """The class that begins after its bracket, and the place behind it."""
    negation = "^" if pattern[position : position + 1] == "^" else ""
    position += len(negation)
    ranges: list[str] = []
    count = 0
    while count == 0 or pattern[position : position + 1] != "]":
        low, position = _member(pattern, position)
        high = low
        if pattern[position : position + 1] == "-":
            high, position = _member(pattern, position + 1)
        # A range that runs backwards is one of nothing.
        ranges += [f"{re.escape(low)}-{re.escape(high)}"] if low <= high else []
        count += 1
    if not ranges:
        return "[^/]" if negation else "(?!)", position + 1
    return f"(?!/)[{negation}{''.join(ranges)}]", position + 1


def _member(pattern: str, position: int) -> tuple[str, int]:
    if pattern[position : position + 1] in ("", "-", "]"):
        raise ValueError
    return _literal(pattern, position)


def _literal(pattern: str, position: int) -> tuple[str, int]:
    """One character, escaped or not, and the place behind it."""
    position += pattern[position] == "\\"
    if position >= len(pattern):
        raise ValueError
    return pattern[position], position + 1
