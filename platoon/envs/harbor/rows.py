"""One row of a lock from one task directory: flags, image, input files, and the first refusal that applies, in a fixed order."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from platoon.artifacts.digests import HashedTask, input_digests
from platoon.config.yaml import read_yaml
from platoon.envs.harbor.format import COMPOSE_FILE, UNREAD_COMPOSE_FILES, HarborTask, TaskRefused, read_task, read_toml
from platoon.envs.harbor.lock import LockRow
from platoon.envs.harbor.options import HarborOptions, Refuse
from platoon.envs.harbor.source import SourceTask
from platoon.envs.harbor.task_toml import TaskToml
from platoon.errors import ConfigError

NOT_INPUTS = frozenset(
    f"environment/{name}" for name in ("Dockerfile", ".dockerignore", "docker-compose.yaml", *UNREAD_COMPOSE_FILES)
)
BYTES_PER_MB = 1024 * 1024


def build_row(task: SourceTask, directory: Path, contents: HashedTask, index: Mapping[str, Any], options: HarborOptions) -> LockRow:
    """The row of a task. Never raises for what the task holds: that is `refused`."""
    flags: dict[str, Any] = {}
    image: dict[str, Any] = {}
    refused: str | None = None
    inputs: dict[str, str] | None = {}
    try:
        toml = read_toml(directory)
        stack = _stack(directory)
        flags = _flags(toml, directory, stack)
        for refusal in _early_refusals(toml, stack, options.refuse):
            raise refusal
        loaded = read_task(directory)
        image = _image(loaded)
        if loaded.uploads_environment:
            files = [file for file in contents.files if file.path.startswith("environment/")]
            flags["upload_bytes"] = sum(file.size_bytes for file in files)
            paths = [file.path for file in files if file.path not in NOT_INPUTS]
            inputs = dict(zip(paths, input_digests(directory, paths), strict=True))
        _check_uploads(flags["upload_bytes"], options.refuse)
    except TaskRefused as refusal:
        refused = refusal.refusal
    return LockRow(task.id, contents.digest, task.path, index, flags, image, refused=refused, input_files=inputs)


def read_metadata(directory: Path) -> Mapping[str, Any]:
    """A task's `[metadata]`; empty for a task whose settings cannot be read, which is refused elsewhere."""
    try:
        return read_toml(directory).metadata
    except TaskRefused:
        return {}


def _flags(toml: TaskToml, directory: Path, stack: str) -> dict[str, Any]:
    flags: dict[str, Any] = {
        "verifier": "separate" if toml.verifier.separate else "shared",
        "artifacts": len(toml.artifacts),
        "stack": stack,
        "network": toml.environment.network,
        "gpus": toml.environment.gpus or 0,
        "agent_user": toml.agent.user,
        "verifier_user": toml.verifier.user,
        "os": toml.environment.os.lower(),
        "upload_bytes": 0,
    }
    if toml.verifier.environment is not None and toml.verifier.environment.network_mode is not None:
        flags["verifier_network"] = toml.verifier.environment.network_mode
    if unread := [name for name in UNREAD_COMPOSE_FILES if (directory / "environment" / name).is_file()]:
        flags["unread_compose"] = unread
    return flags


def _early_refusals(toml: TaskToml, stack: str, refuse: Refuse) -> Iterator[TaskRefused]:
    if stack == "sidecars" and refuse.effective_sidecars:
        yield TaskRefused("stack", "the compose file adds sidecar services (refuse: {sidecars: false} fetches it as a stack)")
    if toml.environment.gpus and refuse.gpus:
        yield TaskRefused("gpus", f"the task asks for {toml.environment.gpus} GPUs (refuse: {{gpus: false}} fetches it)")
    if refuse.agent_user:
        users = (("agent", toml.agent.user), ("verifier", toml.verifier.user))
        for table, user in users:
            if user is not None:
                yield TaskRefused("agent_user", f"[{table}].user is {user} (refuse: {{agent_user: false}} fetches it)")
        for hook in toml.verifier.collect:
            if hook.user is not None:
                yield TaskRefused("agent_user", f"a collect hook's user is {hook.user} (refuse: {{agent_user: false}} fetches it)")
    if stack in ("main_only", "sidecars"):
        yield TaskRefused(
            "compose", f"{COMPOSE_FILE}: compose settings are not planned (tasks of one container without them are served)"
        )
    if stack == "unreadable":
        yield TaskRefused("compose", f"{COMPOSE_FILE}: is no compose file")


def _stack(directory: Path) -> str:
    path = directory / COMPOSE_FILE
    if not path.is_file():
        return "single"
    try:
        value = read_yaml(path, shown_as=COMPOSE_FILE)
    except ConfigError:
        return "unreadable"
    services = value.get("services") if isinstance(value, dict) else None
    if not isinstance(services, dict) or not services:
        return "unreadable"
    if set(services) != {"main"}:
        return "sidecars"
    return "trivial" if not services["main"] and set(value) <= {"services", "version"} else "main_only"


def _image(task: HarborTask) -> dict[str, Any]:
    if task.image_source == "docker_image":
        return {"kind": "prebuilt", "ref": task.environment.docker_image, "upload_environment": task.uploads_environment}
    if task.image_source == "dockerfile":
        why = "environment/Dockerfile: images are not built (name docker_image, or leave the Dockerfile out)"
        raise TaskRefused("image", why)
    return {"kind": "none", "upload_environment": task.uploads_environment}


def _check_uploads(upload_bytes: int, refuse: Refuse) -> None:
    limit = refuse.uploads_over_mb
    if limit is not None and upload_bytes > limit * BYTES_PER_MB:
        raise TaskRefused("uploads_over_mb", f"a session would upload {upload_bytes} bytes, over {limit:g} MiB")
