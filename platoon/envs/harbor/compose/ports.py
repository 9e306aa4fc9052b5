"""`ports` and `expose`: the ports a service declares. Published host ports are not opened."""

from __future__ import annotations

import re
from ipaddress import ip_address
from typing import Any

from platoon.config.text import clip
from platoon.envs.harbor.compose import values
from platoon.envs.harbor.compose.document import Number
from platoon.envs.harbor.compose.errors import ComposeError
from platoon.envs.harbor.compose.reading import Draft, Reading, admitted
from platoon.envs.harbor.compose.stack_plan import Port

RANGE_LIMIT = 64
# Port numbers and their protocol.
_Ports = tuple[range, str]
_RANGE = re.compile(r"([0-9]{1,5})(?:-([0-9]{1,5}))?")


def read_ports(key: str, value: Any, draft: Draft, reading: Reading) -> None:
    found = dict.fromkeys(draft.ports)
    for item in values.sequence(value):
        with reading.findings.at(f"{draft.name}.{key}"):
            long = key == "ports" and isinstance(item, dict)
            numbers, protocol = _long(item, draft, reading) if long else _short(_text(item), published=key == "ports")
            if len(numbers) > RANGE_LIMIT:
                raise ComposeError(f"a range has at most {RANGE_LIMIT} ports, got {numbers[0]}-{numbers[-1]}")
            found.update(dict.fromkeys(Port(number, protocol) for number in numbers))
    draft.plan["ports"] = tuple(found)


def check_port(item: Any) -> None:
    """What compose's reader asks of a port in its short form, whether the service runs or not."""
    if isinstance(item, str):
        _short(item, published=True)


def _text(item: Any) -> str:
    if isinstance(item, Number):
        if item.decimal != item.text:
            raise ComposeError(f"{item.text[:30]} is a number that compose writes as {item.decimal} (quote it)")
        return item.text
    return values.known(item)


def _long(item: dict[str, Any], draft: Draft, reading: Reading) -> _Ports:
    settings = dict(admitted(item, "services.*.ports[]", f"{draft.name}.ports", draft.role, reading.findings))
    if settings.get("target") is None:
        raise ComposeError("a port needs a target")
    if settings.get("host_ip") is not None:
        _check_address(values.known(settings["host_ip"]))
    if published := _text(settings.get("published") or ""):
        _range(published)
    return _ports(str(values.whole_number(settings["target"])), values.known(settings.get("protocol") or "tcp"))


def _short(text: str, *, published: bool) -> _Ports:
    """`[[ip:]published:]target[/protocol]`, or without `published` (`expose`) the target alone."""
    rest, _, protocol = text.partition("/")
    host, _, target = rest.rpartition(":")
    if host and not published:
        raise ComposeError(f"a port is exposed as TARGET[/PROTOCOL], got {text[:60]}")
    ports = _ports(target, protocol or "tcp")
    if host:
        host_port = host.rpartition(":")[2]
        address = host[: -len(host_port) - 1] if ":" in host else ""
        if address:
            _check_address(address[1:-1] if re.fullmatch(r"\[.*\]", address) else address)
        if host_port:
            first, last = _range(host_port)
            if len(ports[0]) not in (1, last - first + 1):
                raise ComposeError(f"the ranges of {text[:60]} differ in length")
    return ports


def _check_address(text: str) -> None:
    try:
        ip_address(text.replace("%", " "))  # a zone is no part of an address
    except ValueError:
        raise ComposeError(f"{clip(text, 40) or 'nothing'} is no address") from None


def _ports(target: str, protocol: str) -> _Ports:
    protocol = protocol.lower()
    if protocol not in ("tcp", "udp"):
        raise ComposeError(f"a protocol is tcp or udp, got {protocol[:20]}")
    first, last = _range(target)
    return range(first, last + 1), protocol


def _range(text: str) -> tuple[int, int]:
    found = _RANGE.fullmatch(text)
    first, last = (int(found[1]), int(found[2] or found[1])) if found else (0, 0)
    if not 0 < first <= last < 65536:
        raise ComposeError(f"a port is a number up to 65535, got {text[:40] or 'nothing'}")
    return first, last
