"""`ports` and `expose`: the ports a service declares. Published host ports are not opened."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from platoon.envs.harbor.compose import values
from platoon.envs.harbor.compose.document import Number
from platoon.envs.harbor.compose.errors import ComposeError
from platoon.envs.harbor.compose.reading import Draft, Reading
from platoon.envs.harbor.compose.stack_plan import Port

RANGE_LIMIT = 64
_RANGE = re.compile(r"([0-9]{1,5})(?:-([0-9]{1,5}))?")
_LONG = frozenset({"target", "published", "host_ip", "protocol", "mode", "name", "app_protocol"})


def read_ports(key: str, value: Any, draft: Draft, reading: Reading) -> None:
    found = set(draft.ports)
    order = list(draft.ports)
    for item in values.sequence(value):
        with reading.findings.at(f"{draft.name}.{key}"):
            for port in _long(item) if isinstance(item, dict) else _short(_text(item), published=key == "ports"):
                if port not in found:
                    found.add(port)
                    order.append(port)
    draft.plan["ports"] = tuple(order)


def _text(item: Any) -> str:
    if isinstance(item, Number):
        if item.decimal != item.text:
            raise ComposeError(f"{item.text[:30]} is a number that compose writes as {item.decimal} (quote it)")
        return item.text
    return values.known(item)


def _long(item: dict[str, Any]) -> Iterator[Port]:
    if unknown := sorted(set(item) - _LONG):
        raise ComposeError(f"a port has no {unknown[0][:40]}")
    if item.get("target") is None:
        raise ComposeError("a port needs a target")
    yield from _ports(str(values.whole_number(item["target"])), values.known(item.get("protocol") or "tcp"))


def _short(text: str, *, published: bool) -> Iterator[Port]:
    """`[[ip:]published:]target[/protocol]`, or without `published` (`expose`) the target alone."""
    rest, _, protocol = text.partition("/")
    host, _, target = rest.rpartition(":")
    if host and not published:
        raise ComposeError(f"a port is exposed as TARGET[/PROTOCOL], got {text[:60]}")
    ports = list(_ports(target, protocol or "tcp"))
    if host:
        host_port = host.rpartition(":")[2]
        address = host[: -len(host_port) - 1] if ":" in host else ""
        if not re.fullmatch(r"(?:\[[0-9A-Fa-f:.]+\]|[0-9.]*)", address):
            raise ComposeError(f"{address[:40]} is no address")
        if host_port:
            first, last = _range(host_port)
            if last - first + 1 != len(ports) and len(ports) != 1:
                raise ComposeError(f"the ranges of {text[:60]} differ in length")
    yield from ports


def _ports(target: str, protocol: str) -> Iterator[Port]:
    if protocol not in ("tcp", "udp"):
        raise ComposeError(f"a protocol is tcp or udp, got {protocol[:20]}")
    first, last = _range(target)
    if last - first >= RANGE_LIMIT:
        raise ComposeError(f"a range has at most {RANGE_LIMIT} ports, got {target}")
    yield from (Port(port, protocol) for port in range(first, last + 1))


def _range(text: str) -> tuple[int, int]:
    found = _RANGE.fullmatch(text)
    first, last = (int(found[1]), int(found[2] or found[1])) if found else (0, 0)
    if not 0 < first <= last < 65536:
        raise ComposeError(f"a port is a number up to 65535, got {text[:40] or 'nothing'}")
    return first, last
