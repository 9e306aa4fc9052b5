"""Images of services: references, and builds of contexts in the task."""

from __future__ import annotations

import posixpath
import re
from typing import Any

from platoon.config.text import clip
from platoon.envs.harbor.compose import values
from platoon.envs.harbor.compose.errors import ComposeError
from platoon.envs.harbor.compose.merge import pairs
from platoon.envs.harbor.compose.reading import (
    BASE,
    REMOTE_CONTEXTS,
    Build,
    Draft,
    Reading,
    TaskFiles,
    admitted,
    context_subpath,
    task_path,
)
from platoon.envs.harbor.compose.text import ImagePart, Text, pieces
from platoon.images.dockerfile import DockerfileError, ImagePlan, plan_image
from platoon.images.dockerfile.parse import SIZE_LIMIT_BYTES
from platoon.images.image_reference import reference_fault

_ARGUMENT = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def read_build(value: Any, draft: Draft, reading: Reading) -> None:
    place = f"{draft.name}.build"
    findings = reading.findings
    draft.asks_build = True
    settings: dict[str, Any] = {}
    source = {"context": value} if isinstance(value, str | tuple) else values.mapping(value)
    for key, item in admitted(source, "services.*.build", place, draft.role, findings):
        if item is not None:
            settings[key] = item
    with findings.at(place, "context"):
        context = _context(settings.get("context", "."), reading.files)
        dockerfile = values.known(settings.get("dockerfile", "Dockerfile"))
        arguments: dict[str, str] = {}
        target: str | None = None
        with findings.at(place, "dockerfile"):
            _check_dockerfile(context, dockerfile, reading.files)
        with findings.at(place, "args"):
            arguments = _arguments(settings.get("args"), reading)
        with findings.at(place, "target"):
            target = values.known(settings["target"]) or None if "target" in settings else None
        draft.build = Build(context, posixpath.normpath(dockerfile), arguments, target)


def read_image(value: Any, draft: Draft) -> None:
    draft.image = values.only_text(value)


def reference(image: Text) -> str:
    """A registry reference that a plan can name. Raises ComposeError."""
    if any(isinstance(piece, ImagePart) for piece in pieces(image)):
        raise ComposeError("MAIN_IMAGE_NAME is the image of main alone (give the service a build of its own)")
    found = values.known(image, what="an image")
    if (fault := reference_fault(found)) is not None:
        raise ComposeError(fault)
    return found


def plan_build(build: Build, reading: Reading, *, whole: bool) -> tuple[ImagePlan, dict[str, Any]]:
    """The plan of a build and its form in a lock. Raises ComposeError naming file and line."""
    path = posixpath.normpath(posixpath.join(build.context, build.dockerfile))
    text = reading.files.read(path, SIZE_LIMIT_BYTES)
    try:
        plan = plan_image(
            reading.files.directory / build.context,
            text,
            root=reading.files.directory,
            whole=whole,
            args=build.args,
            target=build.target,
            dockerfile=build.dockerfile,
            executable=reading.executable,
        )
    except DockerfileError as error:
        raise ComposeError(error.sentence) from None
    reading.taken.update(posixpath.normpath(posixpath.join(build.context, file)) for file in plan.inputs)
    for name in plan.empty_directories:
        reading.findings.note(path, f"{name}/ is not in the task, and is built as an empty directory")
    context = {} if build.context == BASE else {"context": build.context}
    return plan, {"kind": "build", **plan.to_dict(), **context}


def _context(value: Any, files: TaskFiles) -> str:
    text = values.only_text(value)
    path = text if isinstance(text, str) else context_subpath(text)
    if path is None:
        raise ComposeError("the context must be known when the task is fetched")
    if path.startswith(REMOTE_CONTEXTS) or "://" in path:
        raise ComposeError("a context is a directory of the task, not a remote one")
    found = task_path(path) if not path.startswith(("/", "~")) else None
    if found is None:
        raise ComposeError(f"{clip(path)} is outside the task")
    if files.kind(found) != "directory":
        raise ComposeError(f"{clip(found, 100)} is no directory of the task")
    return found


def _check_dockerfile(context: str, dockerfile: str, files: TaskFiles) -> None:
    path = posixpath.normpath(posixpath.join(context, dockerfile))
    if dockerfile.startswith("/") or not (context == "." or path.startswith(f"{context}/")):
        raise ComposeError(f"{clip(dockerfile)} is outside the context")
    if files.kind(path) != "file":
        raise ComposeError(f"{clip(path, 100)} is no file of the task")


def _arguments(value: Any, reading: Reading) -> dict[str, str]:
    found: dict[str, str] = {}
    for name, item in pairs(value).items():
        if not _ARGUMENT.fullmatch(name):
            raise ComposeError(f"{name[:40]!r} is no argument's name")
        if item is None:
            # A bare name takes the variable of that name; without one the build has no such argument.
            looked_up = reading.variables.lookup(name)
            if looked_up is None:
                continue
            if not isinstance(looked_up, str):
                raise ComposeError(f"{name} must be known when the task is fetched")
            found[name] = looked_up
        else:
            found[name] = values.known(item, what=name)
    return dict(sorted(found.items()))
