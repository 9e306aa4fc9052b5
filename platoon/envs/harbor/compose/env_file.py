"""`env_file` and `.env`: one grammar, compose's, without the readings it has by accident.

- A line is `NAME=value`, `export NAME=value` or `NAME: value`; blank lines and lines that begin with `#` are nothing. `NAME` alone
  takes the variable of that name. A name is of letters, digits, `_`, `.` and `-`.
- An unquoted value ends at the line or at blanks before `#`; blanks around it are cut, blanks within stay.
- A value in double quotes may span lines; `\\n \\r \\t \\a \\b \\f \\v \\\\ \\" \\$` are escapes, any other backslash stays.
- A value in single quotes may span lines; nothing in it is replaced but `\\'`.
- After a closing quote only blanks and a comment may follow.
- Variables are replaced as in the compose file, in unquoted and double-quoted values; where neither the task nor Harbor gives a
  name, the service's `environment` counts, then earlier lines and files.
- `format: raw`: a line is `NAME=value` as it stands, without quotes, comments after values, or variables.

Every error names file and line.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from platoon.envs.harbor.compose.errors import ComposeError
from platoon.envs.harbor.compose.interpolate import Budget, Host, Use, Variables, interpolate
from platoon.envs.harbor.compose.text import Text

SIZE_LIMIT_BYTES = 256 * 1024
_NAME = re.compile(r"[A-Za-z0-9_.-]+")
_START = re.compile(r"[ \t]*(?:export[ \t]+)?([^\s=:]+)[ \t]*([=:]?)[ \t]*")
_COMMENT = re.compile(r"(?:^|[ \t])#.*")
_ESCAPES = {"n": "\n", "r": "\r", "t": "\t", "a": "\a", "b": "\b", "f": "\f", "v": "\v", "\\": "\\", '"': '"'}


@dataclass(frozen=True)
class Entry:
    """One assignment as read. value: None for a name alone; expands: whether its variables are replaced."""

    name: str
    value: str | None
    expands: bool
    line: int


@dataclass
class Layered:
    """Variables, the service's own environment below them, and the files read so far at the bottom."""

    outer: Variables
    service: Mapping[str, Text]
    inner: dict[str, Text | Host]

    def lookup(self, name: str) -> Text | Host | None:
        value = self.outer.lookup(name)
        if value is None:
            value = self.service.get(name)
        return value if value is not None else self.inner.get(name)


def read_entries(text: str, file: str, *, raw: bool = False) -> Iterator[Entry]:
    """The assignments of a file's text. Raises ComposeError naming file and line."""
    lines = text.removeprefix("\ufeff").replace("\r\n", "\n").split("\n")
    position = 0
    while position < len(lines):
        line, number = lines[position], position + 1
        position += 1
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        try:
            if raw:
                yield _raw_entry(line, number)
                continue
            start = _START.match(line)
            if start is None or not _NAME.fullmatch(start[1]) or (not start[2] and start.end() != len(line)):
                raise ComposeError("a line is NAME=value")
            rest = line[start.end() :]
            if not start[2]:
                yield Entry(start[1], None, False, number)
            elif rest[:1] in ("'", '"') and rest:
                value, position = _quoted(rest, lines, position)
                yield Entry(start[1], value, rest[0] == '"', number)
            else:
                # A value that begins with # right after the sign is text, as compose has it.
                value = rest if rest.startswith("#") else _COMMENT.sub("", rest)
                yield Entry(start[1], value.strip(), True, number)
        except ComposeError as error:
            raise ComposeError(f"{file}:{number}: {error.why}") from None


def parse_env_file(
    text: str,
    file: str,
    variables: Variables,
    *,
    raw: bool,
    service: Mapping[str, Text],
    before: Mapping[str, Text | Host],
    budget: Budget,
) -> dict[str, Text | Host | None]:
    """Names and values of a file; a value is None where a name alone is set nowhere.

    service: the service's own environment. before: what earlier files gave. budget: of all that is read with it.
    """
    layered = Layered(variables, service, dict(before))
    found: dict[str, Text | Host | None] = {}
    for entry in read_entries(text, file, raw=raw):
        value: Text | Host | None
        try:
            if entry.value is None:
                value = variables.lookup(entry.name)
            elif entry.expands:
                value = interpolate(entry.value, layered, Use(blank=True, budget=budget))
            else:
                value = entry.value
        except ComposeError as error:
            raise ComposeError(f"{file}:{entry.line}: {error.why}", error.place) from None
        found[entry.name] = value
        if value is not None:
            layered.inner[entry.name] = value
    return found


def _raw_entry(line: str, number: int) -> Entry:
    name, equals, value = line.lstrip().partition("=")
    if not _NAME.fullmatch(name):
        raise ComposeError("a line is NAME=value, without blanks around the sign")
    return Entry(name, value if equals else None, False, number)


def _quoted(rest: str, lines: list[str], position: int) -> tuple[str, int]:
    """The value that a quote opens, and the line after it."""
    quote, out, text, index = rest[0], [], rest, 1
    while True:
        while index < len(text):
            character = text[index]
            following = text[index + 1 : index + 2]
            if character == "\\" and following == quote:
                out.append(quote)
                index += 2
            elif character == "\\" and quote == '"' and following:
                out.append(_escaped(following))
                index += 2
            elif character == quote:
                if text[index + 1 :].strip() and not re.fullmatch(r"[ \t]*#.*", text[index + 1 :]):
                    raise ComposeError("only a comment may follow a closing quote")
                return "".join(out), position
            else:
                out.append(character)
                index += 1
        if position >= len(lines):
            raise ComposeError("the quote it opens has no end")
        out.append("\n")
        text, index = lines[position], 0
        position += 1


def _escaped(character: str) -> str:
    if character == "$":
        # Undone with the other `$$` when variables are replaced.
        return "$$"
    if character == "0":
        raise ComposeError("the escape \\0 is read differently by each tool")
    return _ESCAPES.get(character, f"\\{character}")
