"""Patterns of `${N#p}`, `${N%p}` and `${N/p/x}`, as BuildKit's shell words have them.

`*` is any text and `?` any character; there are no classes. A backslash stands before a `*`, `?` or backslash that is meant itself,
and before a `}` or `/` that would end the pattern.

    trimmed("3.12.1", ".*", at_end=True, longest=True)  ->  "3"
    replaced("a.b.c", ".", "_", every=True)  ->  "a_b_c"
"""

from __future__ import annotations

import re

# Length of the value times that of the pattern, each step of which is tried at most a few times.
TRIES_LIMIT = 16 * 1024


class BadPatternError(ValueError):
    """A pattern that is none, or too much to match."""


def trimmed(value: str, pattern: str, *, at_end: bool, longest: bool) -> str:
    """A value without the shortest or longest beginning (or end) that the pattern matches. Raises BadPatternError."""
    segments = _segments(value, pattern)
    if at_end:
        segments = [segment[::-1] for segment in reversed(segments)]
        value = value[::-1]
    found = re.match("".join(segments[0]) + _rest(segments, longest=longest), value)
    kept = value if found is None else value[found.end() :]
    return kept[::-1] if at_end else kept


def replaced(value: str, pattern: str, replacement: str, *, every: bool) -> str:
    """A value with the first longest match of a pattern (or all of them) replaced. Raises BadPatternError."""
    if every and "$" in replacement:
        raise BadPatternError("a $ in what // puts in is not known here")
    segments = _segments(value, pattern)
    # What comes before the match is part of the expression: no start is tried again once the rest has failed behind the first.
    expression = re.compile(f"(?>(.*?){''.join(segments[0])}){_rest(segments, longest=True)}")
    out: list[str] = []
    copied = position = 0
    while position <= len(value) and (found := expression.match(value, position)) is not None:
        start, end = found.end(1), found.end()
        # An empty match right behind another is none.
        if end > copied or start == 0:
            out += [value[copied:start], replacement]
            copied = end
        if not every:
            break
        position = max(end, start + 1)
    return "".join([*out, value[copied:]])


def _rest(segments: list[list[str]], *, longest: bool) -> str:
    """What follows the first segment. No star is tried twice: the earliest place for what follows it leaves most to the others."""
    stars = [".*?"] * (len(segments) - 1)
    if longest and stars:
        stars[-1] = ".*"
    return "".join(f"(?>{star}{''.join(segment)})" for star, segment in zip(stars, segments[1:], strict=True))


def _segments(value: str, pattern: str) -> list[list[str]]:
    """What stands between the stars of a pattern for a value, an expression a character."""
    if len(value) * len(pattern) > TRIES_LIMIT:
        raise BadPatternError(f"a value of {len(value)} characters is too long for a pattern of {len(pattern)}")
    if "\n" in value:
        raise BadPatternError("a pattern takes no value of several lines here")
    segments: list[list[str]] = [[]]
    for piece in re.findall(r"\\.?|.", pattern, re.DOTALL):
        if piece == "*":
            segments.append([])
        elif piece == "?":
            segments[-1].append(".")
        elif piece.startswith("\\") and piece[1:] not in {"*", "?", "\\", "}", "/"}:
            raise BadPatternError(f"{piece} is no escape of a pattern")
        else:
            segments[-1].append(re.escape(piece[-1]))
    return segments
