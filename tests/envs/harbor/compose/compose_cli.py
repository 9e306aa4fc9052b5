"""Docker's own compose as the oracle: what `config` makes of a case with the layers that Harbor puts below and above it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from platoon.envs.harbor.compose.document import Number, parse_document
from platoon.envs.harbor.compose.edits import apply_edits, over_harbors
from platoon.envs.harbor.format import COMPOSE_FILE
from tests.envs.harbor.compose.corpus import Case

LOGS = {"verifier": "/host/verifier", "agent": "/host/agent", "artifacts": "/host/artifacts"}


def compose_command() -> list[str] | None:
    """The command line of compose 2 here: docker's plugin, or the program beside it; None without either."""
    for command in (["docker", "compose"], ["docker-compose"]):
        if shutil.which(command[0]) is not None:
            found = subprocess.run([*command, "version", "--short"], capture_output=True, text=True, check=False)
            if found.returncode == 0 and found.stdout.strip().lstrip("v").split(".")[0] not in ("", "1"):
                return command
    return None


def config(command: list[str], case: Case, directory: Path) -> Mapping[str, Any]:
    """The project as compose reads it, `$` as they mean. Raises AssertionError with its error."""
    environment = directory / "environment"
    layers = [_layer(directory, "resources", _resources(case)), _layer(directory, "base", _base(case))]
    line = [*command, "-p", "p", "--project-directory", str(environment)]
    for path in (*layers, _edited(case, directory), _layer(directory, "mounts", _mounts())):
        line += ["-f", str(path)]
    found = subprocess.run(
        [*line, "config", "--format", "json"], capture_output=True, text=True, check=False, env=variables(case, environment)
    )
    assert found.returncode == 0, found.stderr
    project: Mapping[str, Any] = _undollared(json.loads(found.stdout))
    return project


def variables(case: Case, environment: Path) -> dict[str, str]:
    """The environment Harbor gives compose, as a fetch has it: the host's listed variables, the task's, Harbor's own on top."""
    host = case.header.get("host", {})
    table = case.toml.environment
    listed = {name: value for name, value in host.items() if name in case.header.get("listed", ())}
    found = {"PATH": os.environ["PATH"], "HOME": str(environment.parent), **listed}
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


def _mounts() -> dict[str, Any]:
    return {"services": {"main": {"volumes": [f"{path}:/logs/{name}" for name, path in LOGS.items()]}}}


def _layer(directory: Path, name: str, value: Any) -> Path:
    path = directory.parent / f"{name}.json"
    path.write_text(json.dumps(value), encoding="utf-8")
    return path


def _edited(case: Case, directory: Path) -> Path:
    """The task's file, or what the overlay's entries make of it: compose knows none."""
    path = directory / COMPOSE_FILE
    overlays = case.overlays(directory.parent / "overlay")
    if not any(overlay.compose for overlay in overlays):
        return path
    return _layer(
        directory, "edited", _plain(apply_edits(over_harbors(parse_document(path.read_bytes(), COMPOSE_FILE)), overlays).tree)
    )


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_plain(item) for item in value]
    return value.value if isinstance(value, Number) else value


def _undollared(value: Any) -> Any:
    if isinstance(value, dict):
        return {_undollared(key): _undollared(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_undollared(item) for item in value]
    return value.replace("$$", "$") if isinstance(value, str) else value
