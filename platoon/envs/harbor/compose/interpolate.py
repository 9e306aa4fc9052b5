"""Interpolation of one scalar as compose does it: `$NAME`, `${NAME}`, `:-`, `-`, `:?`, `?`, `:+`, `+`, words within words, `$$`.

Applied to the parsed tree, never to its text, so that a value cannot become YAML. `$$` is undone once, here, and nowhere again. A
`$` that begins no variable stays, as in compose; one that ends a text is refused, since a name was lost there. Braces within a
word are matched, and a word that compose would cut elsewhere is refused.

    interpolate("{{{ ${FOO:-foo} }}}", variables, Use())  ->  "{{{ foo }}}"
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Protocol

from platoon.config.text import clip
from platoon.envs.harbor.compose.errors import ComposeError
from platoon.envs.harbor.compose.text import HostPart, Text, join

NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
WORD_DEPTH_LIMIT = 20
RESULT_LIMIT = 1024 * 1024
# Of all texts of one file: each may take in a variable as long as a text can be.
# Of files of variables, each as often as a service takes it.
FILES_LIMIT = 1024 * 1024
TOTAL_LIMIT = 4 * 1024 * 1024
_OPERATOR = re.compile(r":?[-?+]")
DOLLAR_ADVICE = "write $$ for a dollar"


@dataclass(frozen=True)
class Host:
    """A variable that only a session knows. name: of the host. always: whoever opens the session fails where it is unset.

    default: what the task's own template gives where the host has none.
    """

    name: str
    always: bool = False
    default: str | None = None


class Variables(Protocol):
    """What names stand for: text, a host variable, or None for an unset name."""

    def lookup(self, name: str) -> Text | Host | None: ...


@dataclass
class Budget:
    """How many characters the texts of one file may still become. file_characters: of the files of variables it takes."""

    left: int = TOTAL_LIMIT
    file_characters: int = FILES_LIMIT


@dataclass
class Use:
    """What one interpolation used. blank: unset names may stand for nothing. unset: names that did. budget: of the whole file."""

    blank: bool = False
    unset: list[str] = field(default_factory=list)
    budget: Budget = field(default_factory=Budget)


def interpolate(text: str, variables: Variables, use: Use, *, depth: int = 0) -> Text:
    """The text with its variables replaced. Raises ComposeError."""
    if "$" not in text:
        return text
    if depth > WORD_DEPTH_LIMIT:
        raise ComposeError(f"defaults are nested deeper than {WORD_DEPTH_LIMIT} levels")
    found: list[Text | HostPart] = []
    size = 0
    for piece in _pieces(text, variables, use, depth):
        literals = (piece,) if isinstance(piece, str) else piece if isinstance(piece, tuple) else ()
        size += 1 + sum(len(item) for item in literals if isinstance(item, str))
        if size > RESULT_LIMIT:
            raise ComposeError(f"becomes longer than {RESULT_LIMIT} characters")
        found.append(piece)
    if not depth:
        use.budget.left -= size
        if use.budget.left < 0:
            raise ComposeError(f"makes the file's texts longer than {TOTAL_LIMIT} characters in all")
    return join(*found)


def _pieces(text: str, variables: Variables, use: Use, depth: int) -> Iterator[Text | HostPart]:
    position = 0
    while (dollar := text.find("$", position)) >= 0:
        yield text[position:dollar]
        following = text[dollar + 1 : dollar + 2]
        if not following:
            raise ComposeError(f"ends in a $ that begins no variable ({DOLLAR_ADVICE})")
        if following == "$":
            yield "$"
            position = dollar + 2
        elif following == "{":
            end = _closing(text, dollar)
            yield _braced(text[dollar + 2 : end], variables, use, depth)
            position = end + 1
        elif (name := NAME.match(text, dollar + 1)) is not None:
            yield _value(name[0], "", "", variables, use, depth=depth)
            position = name.end()
        else:
            yield "$"
            position = dollar + 1
    yield text[position:]


def _braced(inside: str, variables: Variables, use: Use, depth: int) -> Text | HostPart:
    name = NAME.match(inside)
    if name is None:
        raise ComposeError(f"${{{_shown(inside)}}} is no variable ({DOLLAR_ADVICE})")
    if name.end() == len(inside):
        return _value(name[0], "", "", variables, use, depth=depth)
    operator = _OPERATOR.match(inside, name.end())
    if operator is None:
        raise ComposeError(f"${{{_shown(inside)}}} is no variable ({DOLLAR_ADVICE})")
    return _value(name[0], operator[0], inside[operator.end() :], variables, use, depth=depth)


def _value(name: str, operator: str, word: str, variables: Variables, use: Use, *, depth: int) -> Text | HostPart:
    value = variables.lookup(name)
    # A word that is not needed is read all the same: compose refuses what is wrong in it. It may name unset variables.
    needed = _needs_word(operator, value)
    inner = use if needed else Use(blank=True)
    replacement = interpolate(word, variables, inner, depth=depth + 1) if operator else ""
    if isinstance(value, Host):
        return _host(value, operator, replacement)
    if not operator and value is not None:
        return value
    if not operator:
        if not use.blank:
            raise ComposeError(
                f"{name} is not set (give it a default, ${{{name}:-…}}, or list it in compose_host_env of an overlay)"
            )
        use.unset.append(name)
        return ""
    if operator.endswith("?"):
        if value is None or (operator == ":?" and value == ""):
            raise ComposeError(f"{name} is required{': ' if replacement else ''}{_shown(replacement)}")
        return value
    if operator.endswith("+"):
        return replacement if needed else ""
    return replacement if needed else value or ""


def _needs_word(operator: str, value: Text | Host | None) -> bool:
    if isinstance(value, Host) or not operator:
        return True
    holds = value is not None and not (operator.startswith(":") and value == "")
    return holds if operator.endswith("+") else not holds


def _host(host: Host, operator: str, word: Text) -> Text | HostPart:
    """A host variable under an operator, which is decided when the session opens."""
    name, default = host.name, host.default
    if not host.always:
        return {
            "": HostPart(name),
            "-": HostPart(name, unset=word),
            ":-": HostPart(name, unset=word, empty=word),
            "?": HostPart(name),
            ":?": HostPart(name, nonempty=True),
            "+": HostPart(name, unset="", set=word),
            ":+": HostPart(name, unset="", empty="", set=word),
        }[operator]
    filled = default if default else None
    if operator == ":-":
        return HostPart(name, unset=None if default is None else filled or word, empty=word)
    if operator == ":?":
        return HostPart(name, unset=filled, nonempty=True)
    if operator == "+":
        return word
    if operator == ":+":
        return HostPart(name, unset=None if default is None else (word if filled else ""), empty="", set=word)
    return HostPart(name, unset=default)


def _closing(text: str, dollar: int) -> int:
    """Where the brace opened at `dollar + 1` closes. Raises ComposeError where it never does, or where compose cuts elsewhere."""
    depth = 0
    for position in range(dollar + 1, len(text)):
        if text[position] == "{":
            depth += 1
        elif text[position] == "}":
            depth -= 1
            if depth == 0:
                break
    else:
        raise ComposeError(f"{_shown(text[dollar:])} has an open brace ({DOLLAR_ADVICE})")
    if "\n" in text[dollar:position]:
        raise ComposeError(f"{_shown(text[dollar : position + 1])} is no variable: it spans lines ({DOLLAR_ADVICE})")
    if position != _cut_by_compose(text, dollar):
        raise ComposeError(
            f"the braces in {_shown(text[dollar:])} are matched differently by compose (put the default into a variable of its own)"
        )
    return position


def _cut_by_compose(text: str, dollar: int) -> int:
    """Where compose 2.40 ends the variable: it skips the character after each brace that opens, and falls back to the last one."""
    line_end = text.find("\n", dollar)
    last = text.rfind("}", dollar, line_end if line_end >= 0 else len(text))
    depth, position = 0, dollar
    while position <= last:
        if text[position] == "}":
            depth -= 1
            if depth == 0:
                return position
        if text[position] == "{":
            depth += 1
            position += 1
        position += 1
    return last


def _shown(text: Text) -> str:
    shown = text if isinstance(text, str) else "…"
    return clip(shown)
