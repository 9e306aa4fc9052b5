"""What is known of a task's stack and image until compose files and Dockerfiles are planned: their kinds alone."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from platoon.config.yaml import read_yaml
from platoon.envs.harbor.compose import PlannedTask
from platoon.envs.harbor.compose.plan import Kind
from platoon.envs.harbor.format import COMPOSE_FILE, UNREAD_COMPOSE_FILES, HarborTask, TaskRefused, read_task
from platoon.envs.harbor.overlays import Overlay
from platoon.envs.harbor.task_toml import TaskToml
from platoon.errors import ConfigError

NOT_INPUTS = frozenset(
    f"environment/{name}" for name in ("Dockerfile", ".dockerignore", "docker-compose.yaml", *UNREAD_COMPOSE_FILES)
)


def stack_kind(directory: Path, overlays: Sequence[Overlay] = ()) -> Kind:
    path = directory / COMPOSE_FILE
    if not path.is_file():
        return "single"
    try:
        value = read_yaml(path, shown_as=COMPOSE_FILE)
    except ConfigError:
        value = None
    services = value.get("services") if isinstance(value, dict) else None
    if not isinstance(services, dict) or not services:
        raise TaskRefused("compose", f"{COMPOSE_FILE}: is no compose file")
    if set(services) != {"main"}:
        return "sidecars"
    return "trivial" if not services["main"] and set(value) <= {"services", "version"} else "main_only"


def plan_task(toml: TaskToml, directory: Path, *, overlays: Sequence[Overlay] = (), privileges: bool = False) -> PlannedTask:
    kind = stack_kind(directory)
    if kind in ("main_only", "sidecars"):
        raise TaskRefused("compose", f"{COMPOSE_FILE}: compose settings are not planned")
    task = read_task(directory)
    files = [f"environment/{path.relative_to(directory / 'environment')}" for path in (directory / "environment").rglob("*")]
    found = tuple(sorted(path for path in files if (directory / path).is_file())) if task.uploads_environment else ()
    inputs = tuple(path for path in found if path not in NOT_INPUTS)
    return PlannedTask(kind, None, _image(task), toml.environment.gpus or 0, None, inputs, found, (), ())


def _image(task: HarborTask) -> dict[str, object]:
    if task.image_source == "docker_image":
        return {"kind": "prebuilt", "ref": task.environment.docker_image, "upload_environment": task.uploads_environment}
    if task.image_source == "dockerfile":
        raise TaskRefused("image", "environment/Dockerfile: images are not built")
    return {"kind": "none", "upload_environment": task.uploads_environment}
