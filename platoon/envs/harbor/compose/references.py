"""References to services in texts: found once, at plan time, with a boundary rule, so that nothing is replaced by accident later.

`service:port` counts where the service declares the port and the name is not part of a longer one (`db:5432` is none in
`mydb:54321`); `localhost:port` counts in the texts of the service that declares it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from platoon.envs.harbor.compose.stack_plan import Healthcheck, Init, ServicePlan
from platoon.envs.harbor.compose.text import HostPart, Part, RefPart, SelfPart, Text, join, pieces

FILE_LIMIT_BYTES = 4 * 1024 * 1024
SCAN_LIMIT_BYTES = 256 * 1024 * 1024
REFERENCE_LIMIT = 1000
_BINARY_PROBE_BYTES = 8000
LOCAL = "localhost"
# No name holds a colon, so what stands before one is a name as a whole, or none.
_ANY_NAME = re.compile(r"(?<![A-Za-z0-9_.-])([A-Za-z0-9][A-Za-z0-9_.-]*+):([0-9]{1,5})(?![0-9])")
_LOCAL_PORT = re.compile(rf"(?<![A-Za-z0-9_.-]){LOCAL}:([0-9]{{1,5}})(?![0-9])")


@dataclass(frozen=True)
class Reference:
    """A service named with a port in a place that the host-network fallback does not rewrite. line: 1-based."""

    file: str
    line: int
    service: str
    port: int

    def to_dict(self) -> dict[str, Any]:
        return {"file": self.file, "line": self.line, "service": self.service, "port": self.port}


@dataclass(frozen=True)
class Names:
    """What counts as a reference: each name (services' own and aliases) with its service and the ports that service declares."""

    services: Mapping[str, tuple[str, frozenset[int]]]

    @property
    def is_empty(self) -> bool:
        return not any(ports for _, ports in self.services.values())

    def matches(self, text: str) -> Iterator[tuple[re.Match[str], RefPart]]:
        """Where a text names a service at a port of it. The cost is that of the text, however many names there are."""
        if self.is_empty:
            return
        for match in _ANY_NAME.finditer(text):
            service, ports = self.services.get(match[1], ("", frozenset()))
            if int(match[2]) in ports:
                yield match, RefPart(service, int(match[2]))


def tokenised(plan: ServicePlan, names: Names, own_ports: frozenset[int]) -> ServicePlan:
    """The plan with the references in environment values, commands and healthchecks as parts."""

    def mark(text: Text) -> Text:
        return _marked(text, names, own_ports)

    def words(found: tuple[Text, ...] | None) -> tuple[Text, ...] | None:
        return None if found is None else tuple(mark(word) for word in found)

    init, check = plan.init, plan.healthcheck
    if init is not None:
        init = Init(words(init.entrypoint), tuple(mark(word) for word in init.command))
    if check is not None:
        check = Healthcheck(**{**check.__dict__, "test": words(check.test)})
    return replace(
        plan,
        env={name: mark(value) for name, value in plan.env.items()},
        entrypoint=words(plan.entrypoint),
        command=words(plan.command),
        init=init,
        healthcheck=check,
    )


@dataclass(frozen=True)
class Scanned:
    """What a scan found. cut: what of the task it left out for its size, a sentence each."""

    references: tuple[Reference, ...] = ()
    cut: tuple[str, ...] = ()


def scan(directory: Path, files: Sequence[str], names: Names, contents: Sequence[tuple[str, Text]]) -> Scanned:
    """The references in files of the task and in texts of the plan that nothing rewrites, bounded; binary files are left out.

    contents: such texts of the plan, each with the place it stands at.
    """
    if names.is_empty:
        return Scanned()
    found: dict[Reference, None] = {}
    cut: list[str] = []
    budget, is_over = SCAN_LIMIT_BYTES, False
    for file in files:
        if len(found) > REFERENCE_LIMIT:
            break
        if budget <= 0:
            is_over = True
            break
        data, is_whole = _text_of(directory / file, min(budget, FILE_LIMIT_BYTES))
        budget -= len(data)
        found.update(dict.fromkeys(_references(file, data, names)))
        is_over = not is_whole and budget <= 0
        if not is_whole and not is_over:
            cut.append(f"{file}: only its first {FILE_LIMIT_BYTES} bytes are searched for names of services")
    for place, text in contents:
        found.update(dict.fromkeys(_references(place, _literal(text), names)))
    if is_over:
        cut.append(f"only the first {SCAN_LIMIT_BYTES} bytes of its files are searched for names of services")
    if len(found) > REFERENCE_LIMIT:
        cut.append(f"only the first {REFERENCE_LIMIT} places that name services are kept")
    return Scanned(tuple(found)[:REFERENCE_LIMIT], tuple(cut))


def _marked(text: Text, names: Names, own_ports: frozenset[int]) -> Text:
    found: list[str | Part] = []
    for piece in pieces(text):
        if isinstance(piece, HostPart):
            unset, empty, word = (text and _marked(text, names, own_ports) for text in (piece.unset, piece.empty, piece.set))
            found.append(replace(piece, unset=unset, empty=empty, set=word))
            continue
        if not isinstance(piece, str):
            found.append(piece)
            continue
        position = 0
        for start, end, part in _matches(piece, names, own_ports):
            found += [piece[position:start], part]
            position = end
        found.append(piece[position:])
    return join(*found)


def _matches(text: str, names: Names, own_ports: frozenset[int]) -> list[tuple[int, int, RefPart | SelfPart]]:
    spans: list[tuple[int, int, RefPart | SelfPart]] = [(*match.span(), part) for match, part in names.matches(text)]
    for match in _LOCAL_PORT.finditer(text) if own_ports else ():
        if int(match[1]) in own_ports:
            spans.append((*match.span(), SelfPart(int(match[1]))))
    return sorted(spans, key=lambda span: span[0])


def _references(place: str, text: str, names: Names) -> Iterator[Reference]:
    line, position = 1, 0
    for match, part in names.matches(text):
        line += text.count("\n", position, match.start())
        position = match.start()
        yield Reference(place, line, part.service, part.port)


def _literal(text: Text) -> str:
    """What a text says by itself, words for unset variables too; a part leaves a gap, at which a name ends."""
    found = []
    for piece in pieces(text):
        if isinstance(piece, str):
            found.append(piece)
        elif isinstance(piece, HostPart):
            found += [_literal(word) for word in (piece.unset, piece.empty, piece.set) if word is not None]
    return "\0".join(found)


def _text_of(path: Path, limit_bytes: int) -> tuple[str, bool]:
    """The beginning of a file, nothing of a binary one, and whether that is all there is to read."""
    try:
        with path.open("rb") as file:
            data = file.read(limit_bytes + 1)
    except OSError:
        return "", True
    if b"\0" in data[:_BINARY_PROBE_BYTES]:
        return "", True
    return data[:limit_bytes].decode("utf-8", "replace"), len(data) <= limit_bytes
