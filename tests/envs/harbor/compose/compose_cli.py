"""Docker's own compose as the oracle: what `config` makes of a case with Harbor's layers, and the same view of a plan."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from platoon.envs.harbor.compose.stack_plan import ServicePlan
from platoon.envs.harbor.compose.text import HostPart, resolve
from tests.envs.harbor.compose.corpus import Case

LOGS = {"verifier": "/host/verifier", "agent": "/host/agent", "artifacts": "/host/artifacts"}
UNITS_S = {"h": 3600.0, "m": 60.0, "s": 1.0, "ms": 1e-3, "µs": 1e-6, "ns": 1e-9}


def compose_command() -> list[str] | None:
    """The command line of compose 2 here: docker's plugin, or the program beside it; None without either."""
    for command in (["docker", "compose"], ["docker-compose"]):
        if shutil.which(command[0]) is not None:
            found = subprocess.run([*command, "version", "--short"], capture_output=True, text=True, check=False)
            if found.returncode == 0 and found.stdout.strip().lstrip("v").split(".")[0] not in ("", "1"):
                return command
    return None


def config(command: list[str], case: Case, directory: Path) -> Mapping[str, Any]:
    """The services as compose reads them. Raises AssertionError with its error."""
    environment = directory / "environment"
    layers = {"base.json": _base(case), "resources.json": _resources(case)}
    files = []
    for name, value in (("resources.json", layers["resources.json"]), ("base.json", layers["base.json"])):
        (directory.parent / name).write_text(json.dumps(value), encoding="utf-8")
        files += ["-f", str(directory.parent / name)]
    line = [*command, "-p", "p", "--project-directory", str(environment), *files, "-f", str(environment / "docker-compose.yaml")]
    found = subprocess.run(
        [*line, "config", "--format", "json"], capture_output=True, text=True, check=False, env=variables(case, environment)
    )
    assert found.returncode == 0, found.stderr
    services: Mapping[str, Any] = json.loads(found.stdout)["services"]
    return services


def variables(case: Case, environment: Path) -> dict[str, str]:
    """The environment Harbor gives compose: the host's, the task's, and Harbor's own on top."""
    host = case.header.get("host", {})
    table = case.toml.environment
    found = {"PATH": os.environ["PATH"], "HOME": str(environment.parent), **host}
    for name, value in table.env.items():
        text = value.removeprefix("${").removesuffix("}")
        key, _, default = text.partition(":-")
        found[name] = host.get(key, default) if value.startswith("${") else value
    found |= {"CONTEXT_DIR": str(environment)}
    found |= {"MAIN_IMAGE_NAME": "main-image"} if table.docker_image is None else {"PREBUILT_IMAGE_NAME": table.docker_image}
    if table.cpus is not None:
        found["CPUS"] = f"{table.cpus:g}"
    if table.memory_mb is not None:
        found["MEMORY"] = f"{table.memory_mb}M"
    for name, key in (("verifier", "VERIFIER_LOGS"), ("agent", "AGENT_LOGS"), ("artifacts", "ARTIFACTS")):
        found |= {f"HOST_{key}_PATH": LOGS[name], f"ENV_{key}_PATH": f"/logs/{name}"}
    return found


def expected(case: Case, service: ServicePlan, name: str, directory: Path) -> dict[str, Any]:
    """A service of a plan in compose's terms."""
    host = variables(case, directory / "environment")

    def text(value: Any) -> str:
        return value if isinstance(value, str) else resolve(value, host, lambda part: _part(part, directory))

    init = service.init
    words = (init.entrypoint, init.command) if init is not None else (service.entrypoint, service.command)
    command = ["sh", "-c", "sleep infinity"] if name == "main" and init is None else words[1]
    return {
        "environment": {key: text(value) for key, value in service.env.items()},
        "command": None if command is None else [text(word) for word in command],
        "entrypoint": None if words[0] is None else [text(word) for word in words[0]],
        "working_dir": service.workdir,
        "hostname": service.hostname,
        "user": service.user,
        "ports": sorted({(port.port, port.protocol) for port in service.ports}),
        "volumes": sorted(
            [(mount.target, "volume", mount.name, mount.read_only) for mount in service.volumes]
            + [(bind.target, "bind", _source(bind, host, directory), bind.read_only) for bind in service.binds]
            + [(mount.target, "tmpfs", None, False) for mount in service.tmpfs],
            key=str,
        ),
        "depends_on": {other: (wait.condition, wait.required) for other, wait in service.depends_on.items()},
        "healthcheck": _health(service.healthcheck, text),
        "cpus": service.cpus,
        "memory_mb": service.memory_mb,
        "shm_mb": service.shm_mb,
        "stop_signal": service.stop_signal,
        "ulimits": {key: (limits["soft"], limits["hard"]) for key, limits in service.ulimits.items()},
    }


def observed(service: Mapping[str, Any], name: str, environment: Path) -> dict[str, Any]:
    """The same view of a service as compose gives it."""

    def text(value: Any) -> Any:
        return value.replace("$$", "$") if isinstance(value, str) else value

    limits = service.get("deploy", {}).get("resources", {}).get("limits", {})
    cpus, memory = service.get("cpus") or limits.get("cpus"), service.get("mem_limit") or limits.get("memory")
    ports = {(port["target"], port["protocol"]) for port in service.get("ports", ())}
    for item in service.get("expose", ()):
        target, _, protocol = item.partition("/")
        first, _, last = target.partition("-")
        ports |= {(port, protocol or "tcp") for port in range(int(first), int(last or first) + 1)}
    volumes = [
        (mount["target"].rstrip("/"), mount["type"], mount.get("source"), mount.get("read_only", False))
        for mount in service.get("volumes", ())
        if not (name == "main" and mount["target"].startswith("/logs/"))
    ]
    volumes += [(item.partition(":")[0], "tmpfs", None, False) for item in service.get("tmpfs", ())]
    user = service.get("user")
    return {
        "environment": {text(key): text(value) for key, value in (service.get("environment") or {}).items()},
        "command": None if service.get("command") is None else [text(word) for word in service["command"]],
        "entrypoint": None if service.get("entrypoint") is None else [text(word) for word in service["entrypoint"]],
        "working_dir": service.get("working_dir"),
        "hostname": service.get("hostname"),
        "user": user,
        "ports": sorted(ports),
        "volumes": sorted(volumes, key=str),
        "depends_on": {key: (wait["condition"], wait["required"]) for key, wait in service.get("depends_on", {}).items()},
        "healthcheck": _observed_health(service.get("healthcheck") or {}, text),
        "cpus": float(cpus) if cpus else None,
        "memory_mb": _mb(memory),
        "shm_mb": _mb(service.get("shm_size")),
        "stop_signal": service.get("stop_signal") if name != "main" else None,
        "ulimits": {
            key: (value, value) if isinstance(value, int) else (value["soft"], value["hard"])
            for key, value in service.get("ulimits", {}).items()
        },
    }


def _base(case: Case) -> dict[str, Any]:
    main: dict[str, Any] = {"command": ["sh", "-c", "sleep infinity"]}
    if case.toml.environment.docker_image is not None:
        main["image"] = "${PREBUILT_IMAGE_NAME}"
    else:
        main |= {"build": {"context": "${CONTEXT_DIR}"}, "pull_policy": "build"}
    return {"services": {"main": main}}


def _resources(case: Case) -> dict[str, Any]:
    table, main = case.toml.environment, dict[str, Any]()
    if table.cpus is not None:
        main["cpus"] = table.cpus
    if table.memory_mb is not None:
        main["mem_limit"] = f"{table.memory_mb}m"
    return {"services": {"main": main}}


def _part(part: Any, directory: Path) -> str:
    value = part.to_json()
    if "context" in value:
        return str(directory / "environment")
    if "logs" in value:
        return LOGS[value["logs"]]
    if "image" in value:
        return "main-image"
    return f"localhost:{value['self']}" if "self" in value else ":".join(map(str, value["ref"]))


def _source(bind: Any, host: Mapping[str, str], directory: Path) -> str:
    if bind.kind == "task":
        return str(directory / bind.source)
    if bind.kind == "logs":
        name, slash, below = bind.source.partition("/")
        return f"{LOGS[name]}{slash}{below}"
    return resolve((HostPart(bind.source),), host, str)


def _health(check: Any, text: Any) -> dict[str, Any]:
    if check is None:
        return {}
    if check.disabled:
        return {"disabled": True}
    found = {"test": None if check.test is None else [text(word) for word in check.test], "retries": check.retries}
    times = ("interval", "timeout", "start_period", "start_interval")
    return {key: value for key, value in {**found, **{key: getattr(check, f"{key}_s") for key in times}}.items() if value}


def _observed_health(check: Mapping[str, Any], text: Any) -> dict[str, Any]:
    if check.get("disable") or check.get("test") == ["NONE"]:
        return {"disabled": True}
    found = {key: _seconds(value) if isinstance(value, str) else value for key, value in check.items()}
    if "test" in found:
        found["test"] = [text(word) for word in found["test"]]
    return {key: value for key, value in found.items() if value}


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


def _mb(size: str | None) -> int | None:
    return -(-int(size) // (1024 * 1024)) if size else None
