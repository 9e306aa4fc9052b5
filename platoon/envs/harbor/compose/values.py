"""Scalars of a compose file in the types its keys mean: text, switches, numbers, sizes, durations, command lines, names.

A typed key casts text as compose does (`privileged: "yes"` is true), and refuses what compose would change on the way.
"""

from __future__ import annotations

import math
import re
from typing import Any

from platoon.config.text import clip
from platoon.envs.harbor.compose.document import Number
from platoon.envs.harbor.compose.errors import ComposeError
from platoon.envs.harbor.compose.text import Part, Text, join, pieces, to_json

MEBIBYTE = 1024 * 1024
WORD_LIMIT = 10_000
_TRUE = frozenset({"true", "y", "yes", "on"})
_FALSE = frozenset({"false", "n", "no", "off"})
_SIZE = re.compile(r"\+?([0-9]+\.?[0-9]*|\.[0-9]+) ?(?:([kmgtp])(?:i?b)?|b)?", re.IGNORECASE | re.ASCII)
_POWER = {"": 0, "k": 1, "m": 2, "g": 3, "t": 4, "p": 5}
_DURATION = re.compile(r"([0-9]+(?:\.[0-9]*)?|\.[0-9]+)(ns|us|µs|ms|s|m|h|d|w)")
_UNIT_S = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0, "w": 604800.0}
# What compose keeps them in: 64 bits of nanoseconds, of bytes, of anything whole.
LONGEST_S = (2**63 - 1) / 10**9
WHOLE_LIMIT = 2**63
DURATION_CHARACTERS = 100
_BLANKS = " \t\r\n"
_SHELL = ";&|<>`()"
SHELL_ADVICE = "write it as a list, or as sh -c '…'"
SERVICE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*")


def kind_of(value: Any) -> str:
    """What a value is, for refusals."""
    kinds: dict[type, str] = {dict: "a mapping", list: "a list", bool: "a switch", Number: "a number", type(None): "nothing"}
    return kinds.get(type(value), "text")


def text(value: Any) -> Text:
    """A value as text. A plain number whose decimal form is not its text is refused: compose would hand on another text."""
    if isinstance(value, Number):
        if value.decimal != value.text:
            raise ComposeError(f"{value.text[:40]} is a number that compose writes as {value.decimal} (quote it)")
        return value.text
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str | tuple):
        return value
    raise ComposeError(f"is text, got {kind_of(value)}")


def only_text(value: Any) -> Text:
    """Text where compose takes nothing else: a number or a switch must be quoted."""
    if not isinstance(value, str | tuple):
        raise ComposeError(f"is text, got {kind_of(value)} (quote it)")
    return value


def known(value: Any, *, what: str = "it") -> str:
    """Text without parts: what a plan must know."""
    found = text(value)
    if not isinstance(found, str):
        raise ComposeError(f"{what} must be known when the task is fetched, got {to_json(found)}")
    return found


def switch(value: Any) -> bool:
    if isinstance(value, bool):
        return value
    word = known(value).lower() if not isinstance(value, Number) else ""
    if word in _TRUE or word in _FALSE:
        return word in _TRUE
    raise ComposeError("is true or false")


def whole_number(value: Any) -> int:
    if isinstance(value, Number):
        if isinstance(value.value, int) and -WHOLE_LIMIT <= value.value < WHOLE_LIMIT:
            return value.value
    elif isinstance(value, str) and re.fullmatch(r"[-+]?[0-9]{1,18}", value):
        return int(value)
    raise ComposeError(f"is a whole number, got {_shown(value)}")


def number(value: Any) -> float:
    if isinstance(value, Number):
        return float(value.value)
    if isinstance(value, str):
        try:
            # No blanks, which Python takes and compose does not.
            found = float(value) if value.isascii() and not set(value) & set(" \t\n\r\f\v") else math.nan
        except ValueError:
            found = math.nan
        if math.isfinite(found):
            return found
    raise ComposeError(f"is a number, got {_shown(value)}")


def size_bytes(value: Any) -> int:
    """Bytes of `64m`, `1g`, `512kb`, or of a bare number."""
    if isinstance(value, Number) and isinstance(value.value, int) and value.value >= 0:
        size = value.value
    else:
        found = _SIZE.fullmatch(known(value)) if not isinstance(value, Number) else None
        if found is None or len(found[1]) > 30:
            raise ComposeError(f"is a size such as 64m or 1g, got {_shown(value)}")
        size = int(float(found[1]) * 1024 ** _POWER[(found[2] or "").lower()])
    if size >= WHOLE_LIMIT:
        raise ComposeError(f"is a size of at most {WHOLE_LIMIT - 1} bytes, got {_shown(value)}")
    return size


def size_mb(value: Any) -> int | None:
    """MiB, rounded up; None for 0, which is no limit."""
    return math.ceil(size_bytes(value) / MEBIBYTE) or None


def duration_s(value: Any) -> float:
    """Seconds of `1m30s`, `10s`, `500ms`, or of `0`."""
    if not isinstance(value, str):
        raise ComposeError(f"is a duration such as 30s, got {_shown(value)}")
    if value == "0":
        return 0.0
    found = _DURATION.findall(value) if len(value) <= DURATION_CHARACTERS else []
    if not found or "".join(count + unit for count, unit in found) != value:
        raise ComposeError(f"is a duration such as 30s or 1m30s, got {_shown(value)}")
    seconds = sum(float(count) * _UNIT_S[unit] for count, unit in found)
    if seconds > LONGEST_S:
        raise ComposeError(f"is a duration of at most {int(LONGEST_S)} seconds, got {_shown(value)}")
    return round(seconds, 9)


def command_line(value: Any) -> tuple[Text, ...] | None:
    """`command` or `entrypoint`: a list as it is, text split into words as compose splits it, without a shell; None for null."""
    if value is None:
        return None
    if isinstance(value, list):
        return tuple(only_text(item) for item in value)
    if isinstance(value, dict):
        raise ComposeError("is text or a list of text, got a mapping")
    return tuple(shell_words(only_text(value)))


def shell_words(line: Text) -> list[Text]:
    """Words at blanks outside quotes. What a shell would read, compose cuts off or refuses, so it is refused."""
    splitter = _Splitter()
    for piece in pieces(line):
        for character in piece if isinstance(piece, str) else (piece,):
            splitter.take(character)
    return splitter.end()


class _Splitter:
    """Words under construction. started: a word has begun, be it empty."""

    def __init__(self) -> None:
        self._words: list[Text] = []
        self._word: list[str | Part] = []
        self._quote, self._escaped, self._started = "", False, False

    def take(self, character: str | Part) -> None:
        if not isinstance(character, str) or self._escaped:
            self._escaped = False
        elif character == "\\" and self._quote != "'":
            self._escaped = True
            return
        elif character == self._quote:
            self._quote = ""
            return
        elif not self._quote:
            if character in "'\"":
                self._quote, self._started = character, True
                return
            if character in _BLANKS:
                self._finish()
                return
            if character in _SHELL:
                raise ComposeError(f"no shell reads it, and it has {character} outside quotes ({SHELL_ADVICE})")
        self._word.append(character)
        self._started = True

    def end(self) -> list[Text]:
        if self._quote or self._escaped:
            raise ComposeError("has an open quote, or ends in a backslash")
        self._finish()
        return self._words

    def _finish(self) -> None:
        if self._started:
            self._words.append(join(*self._word))
            self._word, self._started = [], False
        if len(self._words) > WORD_LIMIT:
            raise ComposeError(f"has more than {WORD_LIMIT} words")


def container_path(value: Any) -> str:
    """An absolute path of a container, normalised, without `..`."""
    path = known(value)
    if not path.startswith("/") or "\0" in path or "\n" in path:
        raise ComposeError(f"is an absolute path on one line, got {_shown(path)}")
    parts = [part for part in path.split("/") if part not in ("", ".")]
    if ".." in parts:
        raise ComposeError(f"a path has no '..', got {_shown(path)}")
    return "/" + "/".join(parts)


def name(value: Any) -> str:
    found = known(value)
    if not SERVICE_NAME.fullmatch(found):
        raise ComposeError(f"a name is letters, digits, '_', '.' and '-', got {_shown(found)}")
    return found


def mapping(value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise ComposeError(f"is a mapping, got {kind_of(value)}")
    return value


def names(value: Any) -> list[str]:
    """A list of names, each once."""
    found = [name(item) for item in sequence(value)]
    unique(found)
    return found


def unique(items: list[Any]) -> None:
    """Raises ComposeError for an item that a list has twice, where compose takes each once."""
    seen: set[str] = set()
    for item in items:
        # Not the item itself: what a list holds may be a list.
        if (key := repr(item)) in seen:
            raise ComposeError(f"has {_shown(item)} twice")
        seen.add(key)


def sequence(value: Any) -> list[Any]:
    if not isinstance(value, list):
        raise ComposeError(f"is a list, got {kind_of(value)}")
    return value


def _shown(value: Any) -> str:
    shown = value.text if isinstance(value, Number) else str(to_json(value)) if isinstance(value, str | tuple) else kind_of(value)
    return clip(shown) or "nothing"
