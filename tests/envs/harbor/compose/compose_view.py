"""One view of a service: as a plan has it, and as compose tells it. Its keys are the fields of a `ServicePlan` and a few beside."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from platoon.envs.harbor.compose import PlannedTask
from platoon.envs.harbor.compose.stack_plan import Bind, Init, ServicePlan
from platoon.envs.harbor.compose.text import HostPart, resolve
from tests.envs.harbor.compose.compose_cli import LOGS, variables
from tests.envs.harbor.compose.corpus import Case

# What a plan holds of a service beside its fields.
BESIDE = frozenset({"privileged", "gpus"})
UNITS_S = {"h": 3600.0, "m": 60.0, "s": 1.0, "ms": 1e-3, "µs": 1e-6, "ns": 1e-9}
MEBIBYTE = 1024 * 1024
IDLE = ["sh", "-c", "sleep infinity"]


def expected(case: Case, planned: PlannedTask, name: str, directory: Path) -> dict[str, Any]:
    """A service of a plan in compose's terms; `init` is told as the entrypoint and the command that make it."""
    assert planned.plan is not None
    main = name == "main"
    service = planned.plan.main if main else planned.plan.services[name]
    privileges = planned.plan.privileges.get(name, {})
    host = {**case.header.get("host", {}), **variables(case, directory / "environment")}

    def text(value: Any) -> str:
        return value if isinstance(value, str) else resolve(value, host, lambda part: _part(part, directory))

    def words(value: Any) -> list[str] | None:
        return None if value is None else [text(word) for word in value]

    init = service.init or Init(None, tuple(IDLE)) if main else service
    binds = [(bind.target, _source(bind, host, directory), bind.read_only) for bind in service.binds]
    return {
        "image": _image(planned.image if main else service.image.get("build", service.image), directory),
        "entrypoint": words(init.entrypoint),
        "command": words(init.command),
        "workdir": service.workdir,
        "user": service.user,
        "env": {key: text(value) for key, value in service.env.items()},
        "aliases": sorted({*service.aliases} - {name}),
        "ports": sorted({(port.port, port.protocol) for port in service.ports}),
        "volumes": _sorted((mount.target, mount.name, mount.read_only, mount.copy) for mount in service.volumes),
        "binds": _sorted([*binds, *((f"/logs/{log}", path, False) for log, path in LOGS.items() if main)]),
        "tmpfs": _sorted((mount.target, mount.size_mb, mount.mode) for mount in service.tmpfs),
        "files": _sorted((file.target, text(file.content), file.mode) for file in service.files),
        "healthcheck": _health(service, words),
        "depends_on": {other: (wait.condition, wait.required) for other, wait in service.depends_on.items()},
        "shm_mb": service.shm_mb,
        "ulimits": {key: (limits["soft"], limits["hard"]) for key, limits in service.ulimits.items()},
        "cpus": service.cpus,
        "memory_mb": service.memory_mb,
        "stop_signal": service.stop_signal,
        "stop_grace_s": service.stop_grace_s,
        "hostname": service.hostname,
        "read_only": service.read_only,
        "network": service.network,
        "cap_add": sorted({*service.cap_add, *privileges.get("cap_add", ())}),
        "cap_drop": sorted(service.cap_drop),
        "no_new_privileges": service.no_new_privileges,
        "privileged": privileges.get("privileged", False),
        "gpus": planned.gpus if main else 0,
    }


def observed(case: Case, project: Mapping[str, Any], name: str) -> dict[str, Any]:
    """The same of a service as compose gives it."""
    services = project["services"]
    service, main = services[name], name == "main"
    limits = service.get("deploy", {}).get("resources", {}).get("limits", {})
    cpus, memory = service.get("cpus") or limits.get("cpus"), service.get("mem_limit") or limits.get("memory")
    files = list(_files(project, service))
    binds = [(mount["target"], mount["source"], mount.get("read_only", False)) for mount in _mounts(service, "bind")]
    grace = service.get("stop_grace_period")
    found = {
        "image": _observed_image(service),
        "entrypoint": service.get("entrypoint"),
        "command": service.get("command"),
        "workdir": service.get("working_dir"),
        "user": service.get("user"),
        "env": service.get("environment") or {},
        "aliases": sorted(_names(services, name) - {name}),
        "ports": sorted(_ports(service)),
        "volumes": _sorted(
            (mount["target"], mount.get("source"), mount.get("read_only", False), not mount.get("volume", {}).get("nocopy", False))
            for mount in _mounts(service, "volume")
        ),
        "binds": _sorted([*binds, *((target, item["file"], True) for target, item, _ in files if "file" in item)]),
        "tmpfs": _sorted(_tmpfs(service)),
        "files": _sorted((target, item["content"], mode) for target, item, mode in files if "content" in item),
        "healthcheck": _observed_health(service.get("healthcheck") or {}),
        # A wait for a service that a profile leaves out is none.
        "depends_on": {
            key: (wait["condition"], wait["required"]) for key, wait in service.get("depends_on", {}).items() if key in services
        },
        "shm_mb": _mb(service.get("shm_size")),
        "ulimits": {
            key: (value, value) if isinstance(value, int) else (value["soft"], value["hard"])
            for key, value in service.get("ulimits", {}).items()
        },
        "cpus": float(cpus) if cpus else None,
        "memory_mb": _mb(memory),
        "stop_signal": service.get("stop_signal"),
        "stop_grace_s": None if grace is None else _seconds(grace),
        "hostname": service.get("hostname"),
        "read_only": service.get("read_only", False),
        "network": "none" if service.get("network_mode") == "none" else None,
        "cap_add": _capabilities(service, "cap_add"),
        "cap_drop": _capabilities(service, "cap_drop"),
        "no_new_privileges": any(
            re.fullmatch("no-new-privileges([:=]true)?", option) is not None for option in service.get("security_opt", ())
        ),
        "privileged": service.get("privileged", False),
        "gpus": _gpus(service, (case.toml.environment.gpus or 0) if main else 0),
    }
    # The sandbox is main's, with what it was started with; none of these weakens it.
    return {**found, "stop_signal": None, "stop_grace_s": None, "cap_drop": [], "no_new_privileges": False} if main else found


def external(project: Mapping[str, Any], name: str) -> dict[str, Any]:
    """What an external service has of a plan: what others see of it."""
    services = project["services"]
    return {"ports": sorted(_ports(services[name])), "aliases": sorted(_names(services, name) - {name})}


def _sorted(items: Iterable[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    return sorted(items, key=str)


def _image(image: Mapping[str, Any], directory: Path) -> Any:
    """A reference, or the build in compose's terms."""
    if "ref" in image:
        return image["ref"]
    found = {
        "context": posixpath.normpath(f"{directory}/{image.get('context', 'environment')}"),
        "dockerfile": image.get("dockerfile", "Dockerfile"),
    }
    return found | {key: image[key] for key in ("args", "target") if key in image}


def _observed_image(service: Mapping[str, Any]) -> Any:
    build = service.get("build")
    # The others have no effect on the image's content.
    return (
        service["image"]
        if build is None
        else {key: build[key] for key in ("context", "dockerfile", "args", "target") if key in build}
    )


def _part(part: Any, directory: Path) -> str:
    value = part.to_json()
    if "context" in value:
        return str(directory / "environment")
    if "logs" in value:
        return LOGS[value["logs"]]
    if "image" in value:
        return "main-image"
    return f"localhost:{value['self']}" if "self" in value else ":".join(map(str, value["ref"]))


def _source(bind: Bind, host: Mapping[str, str], directory: Path) -> str:
    if bind.kind == "task":
        return str(directory / bind.source)
    if bind.kind == "logs":
        name, slash, below = bind.source.partition("/")
        return f"{LOGS[name]}{slash}{below}"
    return resolve((HostPart(bind.source),), host, str)


def _health(service: ServicePlan, words: Any) -> dict[str, Any]:
    check = service.healthcheck
    if check is None:
        return {}
    if check.disabled:
        return {"disabled": True}
    times = ("interval", "timeout", "start_period", "start_interval")
    found = {"test": words(check.test), "retries": check.retries, **{key: getattr(check, f"{key}_s") for key in times}}
    return {key: value for key, value in found.items() if value}


def _observed_health(check: Mapping[str, Any]) -> dict[str, Any]:
    if check.get("disable") or check.get("test") == ["NONE"]:
        return {"disabled": True}
    found = {key: _seconds(value) if isinstance(value, str) else value for key, value in check.items()}
    return {key: value for key, value in found.items() if value}


def _mounts(service: Mapping[str, Any], kind: str) -> list[dict[str, Any]]:
    found = [mount for mount in service.get("volumes", ()) if mount["type"] == kind]
    return [{**mount, "target": mount["target"].rstrip("/")} for mount in found]


def _tmpfs(service: Mapping[str, Any]) -> list[tuple[str, int | None, int | None]]:
    found = []
    for mount in _mounts(service, "tmpfs"):
        options = mount.get("tmpfs", {})
        found.append((mount["target"], _mb(options.get("size")), options.get("mode")))
    for item in service.get("tmpfs", ()):
        target, _, text = item.partition(":")
        short = dict(option.partition("=")[::2] for option in text.split(","))
        size, mode = short.get("size"), short.get("mode")
        number = int(size.rstrip("kmg")) * 1024 ** ("kmg".find(size[-1]) + 1) if size else None
        found.append((target, _mb(number), int(mode, 8) if mode else None))
    return found


def _files(project: Mapping[str, Any], service: Mapping[str, Any]) -> Iterable[tuple[str, Mapping[str, Any], int | None]]:
    """Target, declaration and mode of configs and secrets, where compose puts them."""
    for kind, directory in (("configs", "/"), ("secrets", "/run/secrets")):
        for item in service.get(kind, ()):
            mode = item.get("mode")
            target = posixpath.join(directory, item.get("target") or item["source"])
            yield target, project[kind][item["source"]], int(mode, 8) if mode else None


def _names(services: Mapping[str, Any], name: str) -> set[str]:
    """By which others find a service, beside its own name."""
    service = services[name]
    found = {service[key] for key in ("hostname", "container_name") if key in service}
    found |= {alias for network in (service.get("networks") or {}).values() for alias in (network or {}).get("aliases", ())}
    links = [link.partition(":") for other in services.values() for link in other.get("links", ())]
    return found | {alias for linked, _, alias in links if linked == name and alias}


def _ports(service: Mapping[str, Any]) -> set[tuple[int, str]]:
    ports = {(port["target"], port["protocol"]) for port in service.get("ports", ())}
    for item in service.get("expose", ()):
        target, _, protocol = item.partition("/")
        first, _, last = target.partition("-")
        ports |= {(port, protocol or "tcp") for port in range(int(first), int(last or first) + 1)}
    return ports


def _capabilities(service: Mapping[str, Any], key: str) -> list[str]:
    return sorted({name.upper().removeprefix("CAP_") for name in service.get(key, ())})


def _gpus(service: Mapping[str, Any], otherwise: int) -> int:
    """Of every device request; `all` is one."""
    reserved = service.get("deploy", {}).get("resources", {}).get("reservations", {}).get("devices")
    requests = service.get("gpus", reserved)
    if requests is None:
        return otherwise
    return sum(len(item["device_ids"]) if "device_ids" in item else abs(item.get("count", 1)) for item in requests)


def _seconds(duration: str) -> float:
    total, number = 0.0, ""
    rest = duration
    while rest:
        digits = len(rest) - len(rest.lstrip("0123456789."))
        number, rest = rest[:digits], rest[digits:]
        unit = next(unit for unit in sorted(UNITS_S, key=len, reverse=True) if rest.startswith(unit))
        total += float(number) * UNITS_S[unit]
        rest = rest.removeprefix(unit)
    return round(total, 9)


def _mb(size: str | int | None) -> int | None:
    return -(-int(size) // MEBIBYTE) if size else None
