"""What instructions set in an image's configuration: CMD, ENTRYPOINT, HEALTHCHECK, EXPOSE, VOLUME, STOPSIGNAL."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from platoon.images.dockerfile.parse import Instruction, fields, json_words, operands, split_flags, split_keyword
from platoon.images.dockerfile.scope import Scope
from platoon.images.dockerfile.words import BadWordError, deferred_text

DEFAULT_SHELL = ["/bin/sh", "-c"]
# What the builder keeps them in: nanoseconds of 64 bits, and 32 bits.
LONGEST_S = (2**63 - 1) // 10**9
SHORTEST_S = 1e-3
MOST_RETRIES = 2**31 - 1
DURATION_CHARACTERS = 100
_DURATION = re.compile(r"(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:ns|us|µs|ms|s|m|h)")
_UNIT_S = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}
_TIMES = {"interval": "interval_s", "timeout": "timeout_s", "start-period": "start_period_s", "start-interval": "start_interval_s"}


class BadInstructionError(ValueError):
    """An instruction that is malformed. line: 1-based line of the file."""

    def __init__(self, why: str, line: int) -> None:
        self.line = line
        super().__init__(why)


def duration_s(text: str) -> float:
    """Seconds of a Go duration such as `1m30s`, at least a millisecond, or of nothing. Raises ValueError."""
    if text == "0":
        return 0.0
    pieces = _DURATION.findall(text) if len(text) <= DURATION_CHARACTERS else []
    if not pieces or "".join(pieces) != text:
        raise ValueError(f"a duration is such as 30s or 1m30s, got {text[:40]}")
    total = 0.0
    for piece in pieces:
        unit = piece.lstrip("0123456789.")
        total += float(piece.removesuffix(unit)) * _UNIT_S[unit]
    if 0 < total < SHORTEST_S:
        raise ValueError(f"a duration is at least 1ms, got {text[:40]}")
    if total > LONGEST_S:
        raise ValueError(f"a duration is at most {LONGEST_S} seconds, got {text[:40]}")
    return round(total, 9)


def image_settings(
    inherited: Iterable[tuple[Instruction, Scope]], own: Iterable[tuple[Instruction, Scope]], escape: str
) -> dict[str, Any]:
    """What the `own` instructions set, after `inherited` ones of the same stage. cmd None: an ENTRYPOINT cleared the base's CMD.

    Text forms run in the SHELL in effect. Raises BadInstructionError for an instruction that is malformed.
    """
    settings = _Settings(escape)
    for instruction, scope in inherited:
        with _at(instruction):
            if instruction.keyword == "SHELL":
                settings.take(instruction, scope)
            settings.has_command |= instruction.keyword == "CMD"
    for instruction, scope in own:
        with _at(instruction):
            settings.take(instruction, scope)
    return {key: sorted(value) if isinstance(value, set) else value for key, value in settings.found.items()}


@contextmanager
def _at(instruction: Instruction) -> Iterator[None]:
    try:
        yield
    except BadWordError as error:
        raise BadInstructionError(str(error), instruction.line) from None


@dataclass
class _Settings:
    """What was set so far. has_command: the stage itself has a CMD."""

    escape: str
    shell: list[str] = field(default_factory=lambda: list(DEFAULT_SHELL))
    has_command: bool = False
    found: dict[str, Any] = field(default_factory=dict)

    def take(self, instruction: Instruction, scope: Scope) -> None:
        keyword, found = instruction.keyword, self.found
        if keyword == "SHELL":
            self.shell = _shell(instruction)
        elif keyword == "CMD":
            found["cmd"] = _command(instruction.arguments, self.shell)
            self.has_command = True
        elif keyword == "ENTRYPOINT":
            found["entrypoint"] = _command(instruction.arguments, self.shell)
            if not self.has_command:
                found["cmd"] = None
        elif keyword == "HEALTHCHECK":
            found["healthcheck"] = _healthcheck(instruction, self.shell)
        elif keyword == "EXPOSE":
            self._add("exposed_ports", [_port(word) for word in self._expanded(fields(instruction.arguments), scope)])
        elif keyword == "VOLUME":
            self._add("volumes", self._expanded(operands(instruction.arguments), scope))
        elif keyword == "STOPSIGNAL":
            found["stop_signal"] = _expanded(instruction.arguments, scope, self.escape)

    def _expanded(self, words: Iterable[str], scope: Scope) -> list[str]:
        return [_expanded(word, scope, self.escape) for word in words]

    def _add(self, key: str, words: Iterable[str]) -> None:
        self.found.setdefault(key, set()).update(words)


def _shell(instruction: Instruction) -> list[str]:
    words = json_words(instruction.arguments)
    if not words:
        raise BadWordError('SHELL has the form SHELL ["program", "argument"]')
    return words


def _command(arguments: str, shell: list[str]) -> list[str]:
    words = json_words(arguments)
    return words if words is not None else [*shell, arguments]


def _healthcheck(instruction: Instruction, shell: list[str]) -> dict[str, Any]:
    flags, rest = split_flags(instruction)
    kind, command = split_keyword(rest)
    if kind.upper() == "NONE":
        if command:
            raise BadWordError("HEALTHCHECK NONE takes nothing else")
        return {"test": ["NONE"]}
    if kind.upper() != "CMD" or not command:
        raise BadWordError("HEALTHCHECK has the form HEALTHCHECK CMD command, or NONE")
    words = json_words(command)
    if words == []:
        raise BadWordError("HEALTHCHECK CMD needs a command")
    text = ["CMD-SHELL", command] if shell == DEFAULT_SHELL else ["CMD", *shell, command]
    found: dict[str, Any] = {"test": ["CMD", *words] if words is not None else text}
    for name, value in flags.items():
        if not value:
            continue
        if name == "retries":
            if not re.fullmatch(r"[0-9]{1,10}", value) or int(value) > MOST_RETRIES:
                raise BadWordError(f"--retries is a whole number of at most {MOST_RETRIES}, got {value[:20]}")
            found["retries"] = int(value)
        else:
            try:
                found[_TIMES[name]] = duration_s(value)
            except ValueError as error:
                raise BadWordError(f"--{name}: {error}") from None
    return found


def _port(text: str) -> str:
    return text if "/" in text else f"{text}/tcp"


def _expanded(word: str, scope: Scope, escape: str) -> str:
    """A word with what is known filled in; one with an unknown variable stays as a session expands it."""
    value = scope.expand(word, escape)
    return value if value is not None else deferred_text(word, escape)
