"""`host_network` rules of overlays: which variables give a service its ports, token and address on a network it shares."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from platoon.envs.harbor.compose.errors import ComposeError
from platoon.envs.harbor.compose.reading import Draft, Reading
from platoon.envs.harbor.overlays import HostNetworkRule


def ruled_names(service: str, rules: Mapping[str, HostNetworkRule]) -> frozenset[str]:
    """The variables that rules set in a service: its own, and every token, which all services of the stack get.

    The file must not interpolate them there: they would be read when the task is fetched.
    """
    own = rules.get(service, HostNetworkRule())
    tokens = {variable for rule in rules.values() for variable in rule.token}
    return frozenset({variable for variable, _ in own.listen} | set(own.bind) | tokens)


def host_network_rules(rules: Mapping[str, HostNetworkRule], drafts: Mapping[str, Draft], reading: Reading) -> dict[str, Any]:
    """The rules by service, `listen` as variable to port. A listed variable takes the TCP port at its place in the file's order."""
    found: dict[str, Any] = {}
    for name, rule in sorted(rules.items()):
        ports = [port.port for port in drafts[name].ports if port.protocol == "tcp"] if name in drafts else []
        with reading.findings.at(name, "host_network"):
            found[name] = {"listen": _listen(rule, ports), "token": list(rule.token), "bind": list(rule.bind)}
    return found


def _listen(rule: HostNetworkRule, ports: list[int]) -> dict[str, int]:
    found: dict[str, int] = {}
    for index, (variable, named) in enumerate(rule.listen):
        if named is None and index >= len(ports):
            raise ComposeError(f"listen has {variable}, and the service declares {len(ports)} TCP ports")
        port = ports[index] if named is None else named
        if port not in ports:
            raise ComposeError(f"listen gives {variable} the port {port}, which the service does not declare")
        found[variable] = port
    return found
