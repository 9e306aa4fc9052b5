"""What instructions set in an image's configuration: CMD, ENTRYPOINT, HEALTHCHECK, EXPOSE, VOLUME, STOPSIGNAL."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from platoon.images.dockerfile.parse import Instruction, json_words, operands, split_flags
from platoon.images.dockerfile.scope import Scope
from platoon.images.dockerfile.words import BadWordError, deferred_text, expand

DEFAULT_SHELL = ["/bin/sh", "-c"]
_DURATION = re.compile(r"(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:ns|us|µs|ms|s|m|h)")
_UNIT_S = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}
_TIMES = {"interval": "interval_s", "timeout": "timeout_s", "start-period": "start_period_s", "start-interval": "start_interval_s"}


def duration_s(text: str) -> float:
    """Seconds of a Go duration such as `1m30s`. Raises ValueError."""
    pieces = _DURATION.findall(text)
    if not pieces or "".join(pieces) != text:
        raise ValueError(f"a duration is such as 30s or 1m30s, got {text[:40]}")
    total = 0.0
    for piece in pieces:
        unit = piece.lstrip("0123456789.")
        total += float(piece.removesuffix(unit)) * _UNIT_S[unit]
    return round(total, 9)


def image_settings(
    inherited: Iterable[tuple[Instruction, Scope]], own: Iterable[tuple[Instruction, Scope]], escape: str
) -> dict[str, Any]:
    """What the `own` instructions set, after `inherited` ones of the same stage. cmd None: an ENTRYPOINT cleared the base's CMD.

    Text forms run in the SHELL in effect. Raises BadWordError for an instruction that is malformed.
    """
    shell = list(DEFAULT_SHELL)
    has_command = False
    for instruction, _ in inherited:
        if instruction.keyword == "SHELL":
            shell = _shell(instruction)
        has_command |= instruction.keyword == "CMD"
    found: dict[str, Any] = {}
    for instruction, scope in own:
        keyword = instruction.keyword
        if keyword == "SHELL":
            shell = _shell(instruction)
        elif keyword == "CMD":
            found["cmd"] = _command(instruction.arguments, shell)
            has_command = True
        elif keyword == "ENTRYPOINT":
            found["entrypoint"] = _command(instruction.arguments, shell)
            if not has_command:
                found["cmd"] = None
        elif keyword == "HEALTHCHECK":
            found["healthcheck"] = _healthcheck(instruction, shell, escape)
        elif keyword == "EXPOSE":
            ports = [_port(_expanded(word, scope, escape)) for word in operands(instruction.arguments, escape)]
            found["exposed_ports"] = sorted({*found.get("exposed_ports", ()), *ports})
        elif keyword == "VOLUME":
            paths = [_expanded(word, scope, escape) for word in operands(instruction.arguments, escape)]
            found["volumes"] = sorted({*found.get("volumes", ()), *paths})
        elif keyword == "STOPSIGNAL":
            found["stop_signal"] = _expanded(instruction.arguments, scope, escape)
    return found


def _shell(instruction: Instruction) -> list[str]:
    words = json_words(instruction.arguments)
    if not words:
        raise BadWordError('SHELL has the form SHELL ["program", "argument"]')
    return words


def _command(arguments: str, shell: list[str]) -> list[str]:
    words = json_words(arguments)
    return words if words is not None else [*shell, arguments]


def _healthcheck(instruction: Instruction, shell: list[str], escape: str) -> dict[str, Any]:
    flags, rest = split_flags(instruction, escape)
    kind, _, command = rest.partition(" ")
    if kind.upper() == "NONE":
        return {"test": ["NONE"]}
    if kind.upper() != "CMD" or not command.strip():
        raise BadWordError("HEALTHCHECK has the form HEALTHCHECK CMD command, or NONE")
    words = json_words(command.strip())
    text = ["CMD-SHELL", command.strip()] if shell == DEFAULT_SHELL else ["CMD", *shell, command.strip()]
    found: dict[str, Any] = {"test": ["CMD", *words] if words is not None else text}
    for name, value in flags.items():
        if name == "retries":
            if not value.isdecimal():
                raise BadWordError(f"--retries is a whole number, got {value[:20]}")
            found["retries"] = int(value)
        elif name in _TIMES:
            try:
                found[_TIMES[name]] = duration_s(value)
            except ValueError as error:
                raise BadWordError(f"--{name}: {error}") from None
        else:
            raise BadWordError(f"HEALTHCHECK has no option --{name}")
    return found


def _port(text: str) -> str:
    return text if "/" in text else f"{text}/tcp"


def _expanded(word: str, scope: Scope, escape: str) -> str:
    """A word with what is known filled in; one with an unknown variable stays as a session expands it."""
    value = expand(word, escape, scope.lookup)
    return value if value is not None else deferred_text(word, escape)
