"""One task's plan: its kind, its stack, the image of `main`, and what the fallback could not rewrite."""

from __future__ import annotations

import os
import posixpath
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Protocol

from platoon.artifacts.reading import read_part
from platoon.config.text import clip, printable
from platoon.envs.harbor.compose import builds, values
from platoon.envs.harbor.compose.document import SIZE_LIMIT_BYTES, parse_document
from platoon.envs.harbor.compose.edits import Edited, apply_edits, over_harbors
from platoon.envs.harbor.compose.env_file import read_entries
from platoon.envs.harbor.compose.errors import ComposeError, ComposeRefused, Findings
from platoon.envs.harbor.compose.form import form_problems
from platoon.envs.harbor.compose.reading import BASE, Build, Draft, Reading, TaskFiles
from platoon.envs.harbor.compose.references import Names, Reference, Scanned, scan
from platoon.envs.harbor.compose.stack import Services, build_stack, read_services
from platoon.envs.harbor.compose.stack_plan import ServicePlan, StackPlan
from platoon.envs.harbor.compose.subset import is_empty
from platoon.envs.harbor.compose.text import ImagePart
from platoon.envs.harbor.compose.variables import TaskVariables, harbor_variables
from platoon.envs.harbor.format import COMPOSE_FILE, UNREAD_COMPOSE_FILES, TaskRefused
from platoon.envs.harbor.overlays import Overlay
from platoon.envs.harbor.task_toml import EnvironmentTable
from platoon.host.trees import has_entries
from platoon.images.dockerfile import ImagePlan
from platoon.images.dockerfile.plan import IGNORE_FILE

Kind = Literal["single", "trivial", "main_only", "sidecars"]
DOCKERFILE = "environment/Dockerfile"
ENV_FILE = "environment/.env"
COMPOSE_NAMES = (posixpath.basename(COMPOSE_FILE), *UNREAD_COMPOSE_FILES)


class TaskTables(Protocol):
    """What planning reads of a task: a `TaskToml` or a `HarborTask` has it."""

    @property
    def environment(self) -> EnvironmentTable: ...


@dataclass(frozen=True)
class PlannedTask:
    """plan: None for `single` and `trivial`.

    image: the plan of the task's image as the row's `image` (`kind` is `none`, `prebuilt` or `build`; the lock turns `build` into
    `shared` or `per_task`). gpus: of the task, the compose file's over task.toml's. user: main's `user:` of the compose file.
    inputs: the files of `environment/` that the image takes in by COPY and ADD or that are uploaded, but for what says how it is
    built: its Dockerfile, ignore files and compose files. uploads: those that a session uploads. unrewritable: see `Reference`.
    warnings: for people.
    """

    kind: Kind
    plan: StackPlan | None
    image: Mapping[str, Any]
    gpus: int
    user: str | None = None
    inputs: tuple[str, ...] = ()
    uploads: tuple[str, ...] = ()
    unrewritable: tuple[Reference, ...] = ()
    warnings: tuple[str, ...] = ()

    @property
    def compose(self) -> dict[str, Any] | None:
        """The row's `compose`: the plan by its digest in the lock's `plans`, and the references of this task."""
        if self.plan is None:
            return None
        return {"plan": self.plan.digest, "unrewritable_references": [item.to_dict() for item in self.unrewritable]}


def stack_kind(directory: Path, overlays: Sequence[Overlay] = ()) -> Kind:
    """The kind of a task alone, without planning it. Raises TaskRefused: `compose` for a file that cannot be read, `overlay`."""
    return _kind(_read(TaskFiles(directory), overlays))


def _kind(edited: Edited | None) -> Kind:
    if edited is None:
        return "single"
    tree = values.mapping(edited.tree)
    services = values.mapping(tree["services"])
    for name, service in services.items():
        dropped = isinstance(service, dict) and not is_empty(service.get("profiles")) and name not in edited.externals
        if name != "main" and not dropped:
            return "sidecars"
    if len(services) > 1 or services["main"] or not set(tree) <= {"services", "version"}:
        return "main_only"
    if problems := list(form_problems(tree)):
        raise ComposeRefused(problems)
    return "trivial"


def plan_task(
    task: TaskTables,
    directory: Path,
    *,
    overlays: Sequence[Overlay] = (),
    privileges: bool = False,
    executable: Callable[[Path], bool] | None = None,
) -> PlannedTask:
    """Plans the compose file and the image of one task directory whose files the overlays have been applied to.

    overlays: those that matched, in order; their `[[compose]]` entries edit the file, their `compose_host_env` lists host
    variables. privileges: True plans what asks for privileges instead of refusing it (`refuse: {privileges: false}`). executable:
    whether a file counts as a program in build keys; by default as the cache gives modes, `*.sh` and files that begin `#!`.
    Raises TaskRefused: `overlay` for an edit of a service or key that is not there, `compose` for what is outside the subset
    (`problems` has all; `refusal` is the first), `image` for a Dockerfile that cannot be planned.
    """
    files = TaskFiles(directory)
    edited = _read(files, overlays)
    kind = _kind(edited)
    reading = _reading(task, files, overlays, executable, _dot_env(files), privileges=privileges)
    gpus = task.environment.gpus or 0
    warnings = _unread(files)
    if edited is None or kind == "trivial":
        image, plan = _image(Draft("main", "main"), reading, composed=edited is not None)
        inputs, uploads = _inputs(image, plan, files)
        return PlannedTask(kind, None, image, gpus, inputs=inputs, uploads=uploads, warnings=(*warnings, *reading.findings.notes))
    services, stack, names = _stack(edited, reading)
    image, plan = _image(services.main, reading, composed=True)
    inputs, uploads = _inputs(image, plan, files)
    scanned = _unrewritable(stack, image, names, reading) if kind == "sidecars" else Scanned()
    return PlannedTask(
        kind,
        stack,
        image,
        services.main.gpus if services.main.gpus is not None else gpus,
        services.main.plan.get("user"),
        inputs,
        uploads,
        scanned.references,
        (*warnings, *sorted(reading.findings.notes), *scanned.cut),
    )


def check_image(
    task: TaskTables, directory: Path, *, overlays: Sequence[Overlay] = (), executable: Callable[[Path], bool] | None = None
) -> None:
    """Looks at what the image of a task is built from whose compose file is refused. Raises TaskRefused (`image`)."""
    files = TaskFiles(directory)
    main, reading = Draft("main", "main"), _reading(task, files, overlays, executable, frozenset())
    with suppress(ComposeError, TaskRefused):
        if (edited := _read(files, overlays)) is not None:
            main = read_services(edited, reading).main
    with suppress(ComposeError):
        if main.build is not None or not main.asks_build:
            _image(main, reading, composed=True)


def _reading(
    task: TaskTables,
    files: TaskFiles,
    overlays: Sequence[Overlay],
    executable: Callable[[Path], bool] | None,
    dot_env: frozenset[str],
    *,
    privileges: bool = False,
) -> Reading:
    environment = task.environment
    listed = frozenset(name for overlay in overlays for name in overlay.compose_host_env)
    variables = TaskVariables(harbor_variables(environment), environment.env, listed, dot_env)
    return Reading(files, variables, environment, Findings(), privileged=privileges, executable=executable or is_program)


def is_program(path: Path) -> bool:
    """Whether a file of a task is executable, as every source's files are in the cache."""
    if path.suffix == ".sh":
        return True
    return read_part(path, 2) == b"#!"


def _read(files: TaskFiles, overlays: Sequence[Overlay]) -> Edited | None:
    try:
        if files.kind(COMPOSE_FILE) != "file":
            edits = [overlay for overlay in overlays if overlay.compose]
            if edits:
                apply_edits(None, edits)
            return None
        with (files.directory / COMPOSE_FILE).open("rb") as file:
            data = file.read(SIZE_LIMIT_BYTES + 1)
        tree = over_harbors(parse_document(data, COMPOSE_FILE))
    except ComposeError as error:
        raise ComposeRefused([error]) from None
    except OSError as error:
        raise ComposeRefused([ComposeError(f"cannot be read: {error.strerror}", COMPOSE_FILE)]) from None
    return apply_edits(tree, overlays)


def _stack(edited: Edited, reading: Reading) -> tuple[Services, StackPlan, Names]:
    try:
        services = read_services(edited, reading)
        _check_main_image(services.main, reading)
        stack, names = build_stack(services, edited, reading)
    except ComposeError as error:
        raise ComposeRefused([*reading.findings.problems, error]) from None
    reading.findings.check()
    return services, stack, names


def _check_main_image(main: Draft, reading: Reading) -> None:
    """main's image is the task's: the file may name it where nothing else does, and must agree where something does."""
    prebuilt = reading.environment.docker_image
    with reading.findings.at("main", "build"):
        if prebuilt is not None and main.build is not None:
            raise ComposeError("task.toml's docker_image is main's image, which is not built")
    with reading.findings.at("main", "image"):
        if main.image is None or main.image == (ImagePart(),):
            return
        if prebuilt is not None and main.image != prebuilt:
            raise ComposeError(f"task.toml's docker_image is {clip(prebuilt, 80)}, and the file names another image")
        if prebuilt is None and main.build is None and reading.files.kind(DOCKERFILE) != "file":
            builds.reference(main.image)


def _image(main: Draft, reading: Reading, *, composed: bool) -> tuple[dict[str, Any], ImagePlan | None]:
    """The row's `image`. composed: the task has a compose file, beside which nothing is uploaded. Raises TaskRefused (`image`)."""
    prebuilt = reading.environment.docker_image
    built = reading.files.kind(DOCKERFILE) == "file"
    uploads = not composed and not built and has_entries(reading.files.directory / BASE)
    if prebuilt is not None:
        return {"kind": "prebuilt", "ref": prebuilt, "upload_environment": uploads}, None
    if main.build is None and not built:
        if main.image is not None and main.image != (ImagePart(),):
            return {"kind": "prebuilt", "ref": builds.reference(main.image), "upload_environment": False}, None
        return {"kind": "none", "upload_environment": uploads}, None
    try:
        plan, image = builds.plan_build(main.build or Build(BASE), reading, whole=False)
    except ComposeError as error:
        raise TaskRefused("image", printable(error.why)) from None
    return image, plan


def _inputs(image: Mapping[str, Any], plan: ImagePlan | None, files: TaskFiles) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The files of `environment/` that tell tasks apart, and those that a session uploads."""
    context, dockerfile = str(image.get("context", BASE)), str(image.get("dockerfile", "Dockerfile"))
    if plan is not None:
        inputs, uploads = (
            [posixpath.normpath(posixpath.join(context, file)) for file in found] for found in (plan.inputs, plan.uploads)
        )
    else:
        inputs = uploads = _walk(files.directory, (BASE,)) if image["upload_environment"] else []
    # What says how it is built is alike in tasks that are not, wherever the context is.
    names = {"Dockerfile", IGNORE_FILE, dockerfile, f"{dockerfile}.dockerignore", *COMPOSE_NAMES}
    recipes = {posixpath.normpath(posixpath.join(context, name)) for name in names} | {f"{BASE}/{name}" for name in COMPOSE_NAMES}
    return tuple(path for path in inputs if path.startswith(f"{BASE}/") and path not in recipes), tuple(uploads)


def _dot_env(files: TaskFiles) -> frozenset[str]:
    """The names that compose would read from `environment/.env`; a file that cannot be read gives none that count."""
    try:
        if files.kind(ENV_FILE) != "file":
            return frozenset()
        return frozenset(
            entry.name for entry in read_entries(files.read(ENV_FILE, SIZE_LIMIT_BYTES), ".env") if entry.value is not None
        )
    except ComposeError as error:
        raise ComposeRefused([ComposeError(error.why, ".env")]) from None


def _unread(files: TaskFiles) -> tuple[str, ...]:
    return tuple(
        f"{BASE}/{name} is not read: Harbor reads docker-compose.yaml alone (rename it)"
        for name in UNREAD_COMPOSE_FILES
        if (files.directory / BASE / name).is_file()
    )


def _unrewritable(stack: StackPlan, image: Mapping[str, Any], names: Names, reading: Reading) -> Scanned:
    """What names services where no session looks: files of the task, and texts of the plan that are no variables and commands."""
    services = {"main": stack.main, **stack.services}
    contents = [(f"{name}.configs", file.content) for name, plan in services.items() for file in plan.files]
    for name, plan in services.items():
        build = image if name == "main" else plan.image.get("build", {})
        contents += [(f"{name}.build.args.{key}", value) for key, value in build.get("args", {}).items()]
    for name, external in stack.externals.items():
        contents += [(f"{name}.scope.{key}", value) for key, value in external.scope.items()]
    directory = reading.files.directory
    unread = {f"{BASE}/{name}" for name in COMPOSE_NAMES} | _only_variables(services, reading)
    files = ["instruction.md", *(file for file in _walk(directory, (BASE, "tests")) if file not in unread)]
    return scan(directory, files, names, contents)


def _only_variables(services: Mapping[str, ServicePlan], reading: Reading) -> set[str]:
    """Files of variables that nobody reads as files: what they give services is rewritten there."""
    binds = {bind.source for plan in services.values() for bind in plan.binds if bind.kind == "task"}
    found = set()
    for file in reading.env_files - reading.taken:
        parts = file.split("/")
        if parts[0] == BASE and not any("/".join(parts[:count]) in binds for count in range(1, len(parts) + 1)):
            found.add(file)
    return found


def _walk(directory: Path, roots: Sequence[str]) -> list[str]:
    found: list[str] = []
    for root in roots:
        for place, folders, names in os.walk(directory / root):
            folders.sort()
            relative = Path(place).relative_to(directory).as_posix()
            found += [f"{relative}/{name}" for name in sorted(names) if (Path(place) / name).is_file()]
    return found
