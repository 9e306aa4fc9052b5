"""CPUs, memory, GPUs, shared memory and limits of a service."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from platoon.envs.harbor.compose import values
from platoon.envs.harbor.compose.errors import ComposeError
from platoon.envs.harbor.compose.reading import Draft, Reading, admitted

# More than any machine has; the engine counts billionths of one in 64 bits.
CPUS_LIMIT = 1_000_000
UNLIMITED = -1


def read_limit(key: str, value: Any, draft: Draft) -> None:
    """`cpus`, `mem_limit` and `shm_size`; 0 is no limit."""
    if key == "cpus":
        draft.plan["cpus"] = _cpus(value)
    else:
        draft.plan["memory_mb" if key == "mem_limit" else "shm_mb"] = values.size_mb(value)


def read_deploy(value: Any, draft: Draft, reading: Reading) -> None:
    place, findings = f"{draft.name}.deploy", reading.findings
    for key, item in admitted(values.mapping(value), "services.*.deploy", place, draft.role, findings):
        with findings.at(place, key):
            if key == "replicas":
                read_scale(item)
            elif key == "resources" and item is not None:
                for part, inner in admitted(
                    values.mapping(item), "services.*.deploy.resources", f"{place}.resources", draft.role, findings
                ):
                    where = f"{place}.resources.{part}"
                    prefix = f"services.*.deploy.resources.{part}"
                    for name, setting in admitted(values.mapping(inner or {}), prefix, where, draft.role, findings):
                        with findings.at(where, name):
                            _resource(name, setting, draft, reading)


def read_scale(value: Any) -> None:
    if value is not None and values.whole_number(value) != 1:
        raise ComposeError("a stack runs each service once")


def read_gpus(value: Any, draft: Draft, reading: Reading) -> None:
    draft.gpus = 1 if value == "all" else _devices("gpus", value, draft, reading)


def read_ulimits(value: Any, draft: Draft, reading: Reading) -> None:
    found: dict[str, dict[str, int]] = {}
    for name, limit in values.mapping(value).items():
        with reading.findings.at(draft.name, "ulimits", name):
            soft = hard = limit
            if isinstance(limit, dict):
                place = f"{draft.name}.ulimits.{name}"
                both = dict(admitted(limit, "services.*.ulimits.*", place, draft.role, reading.findings))
                if len(both) != 2:
                    raise ComposeError("has soft and hard")
                soft, hard = both["soft"], both["hard"]
            soft, hard = values.whole_number(soft), values.whole_number(hard)
            if min(soft, hard) < UNLIMITED:
                raise ComposeError(f"a limit is at least 0, or {UNLIMITED} for none, got {min(soft, hard)}")
            if hard != UNLIMITED and not UNLIMITED < soft <= hard:
                raise ComposeError(f"the soft limit is at most the hard one, got {soft} and {hard}")
            found[name] = {"soft": soft, "hard": hard}
    draft.plan["ulimits"] = found


def _cpus(value: Any) -> float | None:
    cpus = values.number(value)
    if not 0 <= cpus <= CPUS_LIMIT:
        raise ComposeError(f"is a number from 0 to {CPUS_LIMIT}, got {cpus:g}")
    return cpus or None


def _resource(name: str, value: Any, draft: Draft, reading: Reading) -> None:
    if value is None:
        return
    if name == "devices":
        draft.gpus = _devices("deploy.resources.reservations.devices", value, draft, reading)
        return
    key, found = ("cpus", _cpus(value)) if name == "cpus" else ("memory_mb", values.size_mb(value))
    field = "cpus" if key == "cpus" else "mem_limit"
    set_before = draft.plan.get(key)
    if set_before is not None and set_before != found:
        raise ComposeError(f"differs from {field}, and compose takes one limit")
    if draft.role == "main" and set_before is None:
        task = reading.environment.cpus if key == "cpus" else reading.environment.memory_mb
        if task is not None and task != found:
            raise ComposeError(f"differs from task.toml's {key}, which Harbor gives as {field} (set {field} instead)")
    draft.plan[key] = found


def _devices(key: str, value: Any, draft: Draft, reading: Reading) -> int:
    """How many GPUs the device requests of a key ask for."""
    prefix, place = f"services.*.{key}[]", f"{draft.name}.{key}"
    requests = [admitted(values.mapping(item), prefix, place, draft.role, reading.findings) for item in values.sequence(value)]
    return sum(_device(dict(request)) for request in requests)


def _device(device: Mapping[str, Any]) -> int:
    """How many GPUs a device request asks for; `all` is one, since a task runs with a number."""
    capabilities = device.get("capabilities", ["gpu"])
    if not isinstance(capabilities, list) or "gpu" not in capabilities:
        raise ComposeError("only GPUs are reserved: capabilities is [gpu]")
    values.unique(capabilities)
    if device.get("device_ids") is not None:
        values.unique(values.sequence(device["device_ids"]))
        return len(device["device_ids"])
    count = device.get("count")
    if count in (None, "all"):
        return 1
    if (found := values.whole_number(count)) < 0:
        raise ComposeError(f"a device's count is at least 0, or all, got {found}")
    return found
