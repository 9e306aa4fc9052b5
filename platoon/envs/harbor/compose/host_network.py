"""`host_network` rules of overlays: which variables give a service its ports, token and address on a network it shares."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from platoon.envs.harbor.compose.errors import ComposeError
from platoon.envs.harbor.compose.reading import Draft, Reading
from platoon.envs.harbor.overlays import HostNetworkRule


def host_network_rules(rules: Mapping[str, HostNetworkRule], drafts: Mapping[str, Draft], reading: Reading) -> dict[str, Any]:
    """The rules by service, `listen` as variable to port. A listed variable takes the TCP port at its place in the file's order.

    A variable that the file interpolates where the fallback sets it becomes a problem: it would be read when the task is fetched.
    Tokens go to every service of the stack, the other variables to the service itself.
    """
    found: dict[str, Any] = {}
    for name, rule in sorted(rules.items()):
        ports = [port.port for port in drafts[name].ports if port.protocol == "tcp"] if name in drafts else []
        with reading.findings.at(name, "host_network"):
            found[name] = {"listen": _listen(rule, ports), "token": list(rule.token), "bind": list(rule.bind)}
        for service in sorted(drafts):
            if drafts[service].external:
                continue
            own = {variable for variable, _ in rule.listen} | set(rule.bind) if service == name else set()
            for key, used in sorted(_keys(service, reading).items()):
                for variable in sorted(used & (own | set(rule.token))):
                    problem = f"interpolates {variable}, which the host_network rule sets ($${variable} hands it on)"
                    reading.findings.problems.append(ComposeError(problem, f"{service}.{key}"))
    return found


def _keys(service: str, reading: Reading) -> dict[str, set[str]]:
    return {key: names for (owner, key), names in reading.used.items() if owner == service}


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
