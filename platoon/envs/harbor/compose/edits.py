"""`[[compose]]` entries of overlays, applied to a compose file's tree before it is interpolated."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from platoon.config.text import printable
from platoon.envs.harbor.compose.document import Number, Tree
from platoon.envs.harbor.compose.errors import ComposeError
from platoon.envs.harbor.compose.merge import merge_services
from platoon.envs.harbor.format import COMPOSE_FILE, TaskRefused
from platoon.envs.harbor.overlays import ComposeEdit, HostNetworkRule, Overlay


@dataclass(frozen=True)
class Edited:
    """tree: the file's. externals: services that a node service serves, with the entry that says so. rules: by service."""

    tree: Tree
    externals: Mapping[str, ComposeEdit] = field(default_factory=dict)
    rules: Mapping[str, HostNetworkRule] = field(default_factory=dict)


def over_harbors(tree: Tree) -> Tree:
    """The file laid over Harbor's own, whose main it need not name. Raises ComposeError for what is no file of services."""
    services = tree.get("services", {}) if isinstance(tree, dict) else None
    if not isinstance(tree, dict) or not isinstance(services, dict):
        raise ComposeError("names no services", COMPOSE_FILE)
    return {**tree, "services": {**services, "main": services.get("main", {})}}


def apply_edits(tree: Tree, overlays: Sequence[Overlay]) -> Edited:
    """The tree with every entry applied, in order.

    Raises TaskRefused (`overlay`) with the first fault of each service: what follows in a service may follow from it.
    """
    entries = [(overlay, edit) for overlay in overlays for edit in overlay.compose]
    services = tree.get("services") if isinstance(tree, dict) else None
    if not entries or not isinstance(tree, dict):
        if entries:
            raise TaskRefused("overlay", _fault(*entries[0], "the task has no compose file"))
        return Edited(tree)
    edited: dict[str, Any] = dict(services) if isinstance(services, dict) else {}
    externals: dict[str, ComposeEdit] = {}
    rules: dict[str, HostNetworkRule] = {}
    faults: dict[str, str] = {}
    for overlay, edit in entries:
        if edit.service in faults:
            continue
        try:
            edited[edit.service] = _edited(edited, edit)
        except ComposeError as error:
            faults[edit.service] = _fault(overlay, edit, error.why)
        if edit.external is not None:
            externals[edit.service] = edit
        if edit.host_network is not None:
            rules[edit.service] = edit.host_network
    if faults:
        raise TaskRefused("overlay", *faults.values())
    return Edited({**tree, "services": edited}, externals, rules)


def _edited(services: Mapping[str, Any], edit: ComposeEdit) -> dict[str, Any]:
    """The service of an entry as it makes it. Raises ComposeError."""
    if edit.service not in services:
        raise ComposeError("the compose file has no such service")
    service = services[edit.service]
    if service is not None and not isinstance(service, dict):
        raise ComposeError("the service is no mapping")
    changed = dict(service or {})
    for key in edit.unset:
        changed = _without(changed, key.split(".") if key not in changed else [key], key)
    for key, value in edit.replace.items():
        if key not in changed:
            raise ComposeError(f"the service has no {printable(key)} to replace (set adds it)")
        changed[key] = tree_of(value)
    try:
        changed = merge_services(changed, {key: tree_of(value) for key, value in edit.set.items()})
    except ComposeError as error:
        raise ComposeError(f"set: {error.why}") from None
    if edit.external is not None and edit.service == "main":
        raise ComposeError("main is never external")
    return changed


def _without(value: dict[str, Any], path: Sequence[str], key: str) -> dict[str, Any]:
    if path[0] not in value:
        raise ComposeError(f"the service has no {printable(key)} to unset")
    if len(path) == 1:
        return {name: item for name, item in value.items() if name != path[0]}
    inner = value[path[0]]
    if not isinstance(inner, dict):
        raise ComposeError(f"the service has no {printable(key)} to unset")
    return {**value, path[0]: _without(inner, path[1:], key)}


def tree_of(value: Any) -> Tree:
    """A value of TOML or JSON as a tree; its numbers are finite."""
    if isinstance(value, Mapping):
        return {str(key): tree_of(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [tree_of(item) for item in value]
    if isinstance(value, bool) or value is None or isinstance(value, str):
        return value
    if isinstance(value, int | float):
        return Number(value, Number(value, "").decimal)
    raise TypeError(f"{type(value).__name__} is no value of a compose file")


def _fault(overlay: Overlay, edit: ComposeEdit, why: str) -> str:
    return f"{printable(overlay.name)}: [[compose]] {printable(edit.service)}: {why}"
