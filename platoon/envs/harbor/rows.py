"""One row of a lock from one cached task: flags, plans, input files, and the first refusal that applies, in a fixed order."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from platoon.artifacts.canonical import canonical_bytes
from platoon.artifacts.digests import DataError, HashedTask, input_digests
from platoon.config.text import counted, printable
from platoon.envs.harbor.compose import PlannedTask, check_image, plan_task, stack_kind
from platoon.envs.harbor.compose.plan import is_program
from platoon.envs.harbor.compose.security import ROOT_USERS
from platoon.envs.harbor.format import (
    UNREAD_COMPOSE_FILES,
    TaskRefused,
    check_files,
    hidden_files,
    read_dockerfile,
    read_toml,
    right_parts,
)
from platoon.envs.harbor.lock import LockRow
from platoon.envs.harbor.lock_form import REFUSAL_CODES
from platoon.envs.harbor.options import Refuse
from platoon.envs.harbor.overlays import Overlay
from platoon.envs.harbor.sources.protocol import SourceTask
from platoon.envs.harbor.task_toml import TaskToml, unread
from platoon.images.dockerfile import DockerfileError, plan_image

FACTS = ("flags", "image", "verifier_image", "compose", "refused", "input_files")
BYTES_PER_MB = 1024 * 1024
STACK_REFUSAL = "the compose file adds sidecar services (refuse: {sidecars: false} fetches it as a stack)"
USER_ADVICE = "(refuse: {agent_user: false} fetches it, and the environment's agent_user then decides how it runs)"


@dataclass(frozen=True)
class BuiltRow:
    """plan: the stack plan that the row names, as JSON. warnings: for people, each of this task. refusals: all that apply to a row
    that was judged now, of which it has the first, and then those that are known of a task whose settings or compose file are
    refused; no fact keeps them.
    """

    row: LockRow
    plan: Mapping[str, Any] | None = None
    warnings: tuple[str, ...] = ()
    refusals: tuple[str, ...] = ()


@dataclass(frozen=True)
class TaskSettings:
    """What decides a row beside the task's files. overlays: those that matched. overlay_refusals: why one could not be applied.

    programs: files that are executable whatever they are called and begin with.
    """

    refuse: Refuse
    programs: frozenset[str] = frozenset()
    overlays: tuple[Overlay, ...] = ()
    overlay_refusals: tuple[str, ...] = ()
    upstream_digest: str | None = None

    @property
    def key(self) -> str:
        """Names the settings, 64 hex."""
        overlays = [[overlay.name, overlay.digest] for overlay in self.overlays]
        parts = [self.refuse.plain(), sorted(self.programs), overlays, self.overlay_refusals]
        return hashlib.sha256(json.dumps(parts, sort_keys=True).encode("utf-8", "surrogateescape")).hexdigest()


@dataclass
class _Judged:
    """What is known so far: refusals by code, of which the first of REFUSAL_CODES counts; `per_task_build` depends on all rows."""

    refusals: dict[str, list[str]] = field(default_factory=dict)

    def add(self, code: str, *whys: str) -> None:
        known = self.refusals.setdefault(code, [])
        known += [text for why in whys if (text := f"{code}: {why}") not in known]

    def take(self, refused: TaskRefused) -> None:
        self.add(refused.code, *refused.problems)

    @contextmanager
    def taking(self) -> Iterator[None]:
        """Takes the refusal that ends the block."""
        try:
            yield
        except TaskRefused as refused:
            self.take(refused)

    @property
    def all(self) -> tuple[str, ...]:
        return tuple(text for code in REFUSAL_CODES for text in self.refusals.get(code, ()))


def fact_of(built: BuiltRow) -> dict[str, Any]:
    """What of a row follows from the task's bytes and the settings alone, as JSON values."""
    row = {name: getattr(built.row, name) for name in FACTS}
    return {"row": row, "plan": built.plan, "warnings": list(built.warnings)}


def row_of(
    fact: Mapping[str, Any], task: SourceTask, contents: HashedTask, index: Mapping[str, Any], settings: TaskSettings
) -> BuiltRow:
    """The row that `build_row` gives, from a fact. Raises KeyError or TypeError for what is none."""
    row = _placed(
        LockRow(task.id, contents.digest, task.path, **{name: fact["row"][name] for name in FACTS}), task, index, settings
    )
    return BuiltRow(row, fact["plan"], tuple(fact["warnings"]))


def _placed(row: LockRow, task: SourceTask, index: Mapping[str, Any], settings: TaskSettings) -> LockRow:
    return replace(
        row,
        index=index,
        upstream_digest=settings.upstream_digest,
        origin=task.origin,
        overlays=tuple(overlay.name for overlay in settings.overlays),
    )


def build_row(
    task: SourceTask, directory: Path, contents: HashedTask, index: Mapping[str, Any], settings: TaskSettings
) -> BuiltRow:
    """The row of a task whose files, overlays applied, lie in `directory`. What is wrong with the task is `refused`, not raised.

    A fault of this program over one task refuses that task, with a warning: the others are fetched. Raises OSError, DataError.
    """
    try:
        built = _judged_row(task, directory, contents, index, settings)
        canonical_bytes(fact_of(built))
    except (OSError, DataError):
        raise
    except (ArithmeticError, AssertionError, AttributeError, LookupError, RuntimeError, TypeError, ValueError) as error:
        why = f"task_config: planning it failed ({printable(f'{type(error).__name__}: {error}')[:200]})"
        row = LockRow(task.id, contents.digest, task.path, image={"kind": "none"}, refused=why, input_files={})
        warnings = ("planning failed over it, which is a fault: report it",)
        return BuiltRow(_placed(row, task, index, settings), warnings=warnings, refusals=(why,))
    return built


def _judged_row(
    task: SourceTask, directory: Path, contents: HashedTask, index: Mapping[str, Any], settings: TaskSettings
) -> BuiltRow:
    judged = _Judged()
    judged.add("overlay", *settings.overlay_refusals)
    stack = _stack(directory, settings, judged)
    toml: TaskToml | None = None
    planned: PlannedTask | None = None
    verifier_image: Mapping[str, Any] | None = None
    verifier_uploads: Sequence[str] = ()
    try:
        toml = read_toml(directory)
    except TaskRefused as refused:
        judged.take(refused)
    else:
        verifier_image, verifier_uploads = _judge_settings(toml, directory, settings, judged)
        planned = _plan(toml, directory, settings, judged)
    parts, beside = (toml, ()) if planned is not None else _beside(toml, directory, settings)
    flags = _flags(toml, directory, stack)
    if planned is not None:
        _judge_plan(planned, flags, settings.refuse, judged)
    sizes = {file.path: file.size_bytes for file in contents.files}
    paths = [path for path in (planned.inputs if planned else ()) if path in sizes]
    uploads = [sum(sizes.get(path, 0) for path in paths) for paths in (planned.uploads if planned else (), verifier_uploads)]
    flags["upload_bytes"] = max(uploads)
    limit = settings.refuse.uploads_over_mb
    if limit is not None and flags["upload_bytes"] > limit * BYTES_PER_MB:
        judged.add("uploads_over_mb", f"a session would upload {flags['upload_bytes']} bytes, over {limit:g} MiB")
    row = LockRow(
        task.id,
        contents.digest,
        task.path,
        flags=flags,
        image=planned.image if planned is not None else {"kind": "none"},
        verifier_image=verifier_image,
        compose=planned.compose if planned is not None else None,
        refused=next(iter(judged.all), None),
        input_files=dict(zip(paths, input_digests(directory, paths), strict=True)),
    )
    plan = planned.plan.to_dict() if planned is not None and planned.plan is not None else None
    warnings = (*hidden_files(directory), *(unread(parts) if parts else ()), *_warnings(flags, planned))
    return BuiltRow(_placed(row, task, index, settings), plan, warnings, tuple(dict.fromkeys((*judged.all, *beside))))


def finish_rows(rows: Sequence[LockRow], refuse: Refuse) -> list[LockRow]:
    """Rows with what depends on all of them: which builds are shared, and which are refused for being of one task alone."""
    if refuse.per_task_build:
        why = "per_task_build: no other task shares the image it builds"
        alone = _sharing_with_nobody(rows)
        rows = [replace(row, refused=why) if number in alone else row for number, row in enumerate(rows)]
    users = _users(rows)
    return [
        replace(row, image=_with_kind(row.image, users), verifier_image=_with_kind(row.verifier_image, users))
        if _build_keys(row)
        else row
        for row in rows
    ]


def read_metadata(directory: Path) -> Mapping[str, Any]:
    """The scalars of a task's `[metadata]`, and [] for what is none; empty where the settings cannot be read, which is refused."""
    try:
        metadata = read_toml(directory).metadata
    except TaskRefused:
        return {}
    return {key: value if isinstance(value, str | int | float | bool) else [] for key, value in metadata.items()}


def _stack(directory: Path, settings: TaskSettings, judged: _Judged) -> str | None:
    stack = None
    with judged.taking():
        stack = stack_kind(directory, settings.overlays)
    if stack == "sidecars" and settings.refuse.effective_sidecars:
        judged.add("stack", STACK_REFUSAL)
    return stack


def _judge_settings(
    toml: TaskToml, directory: Path, settings: TaskSettings, judged: _Judged
) -> tuple[Mapping[str, Any] | None, Sequence[str]]:
    """As `_verifier_image`."""
    verifier: tuple[Mapping[str, Any] | None, Sequence[str]] = None, ()
    _judge_toml(toml, settings.refuse, judged)
    with judged.taking():
        verifier = _verifier_image(toml, directory, settings, judged)
    with judged.taking():
        check_files(directory, toml)
    return verifier


def _beside(toml: TaskToml | None, directory: Path, settings: TaskSettings) -> tuple[TaskToml | None, tuple[str, ...]]:
    """What is known of a task that cannot be planned: its settings but for those that are refused, and what is wrong beside them.

    It is told to whoever mends the task, and decides nothing of its row.
    """
    judged = _Judged()
    parts, plans = (toml, True) if toml is not None else right_parts(directory)
    if toml is None and parts is not None:
        _judge_settings(parts, directory, settings, judged)
        plans = plans and _plan(parts, directory, settings, judged) is None
    if plans and parts is not None:
        # The image, where the compose file is refused.
        with judged.taking():
            check_image(parts, directory, overlays=settings.overlays, executable=_executable(directory, settings.programs))
    return parts, judged.all


def _judge_toml(toml: TaskToml, refuse: Refuse, judged: _Judged) -> None:
    if toml.environment.gpus and refuse.gpus:
        judged.add("gpus", _gpus_refusal(toml.environment.gpus))
    if not refuse.agent_user:
        return
    if toml.agent.user is not None or toml.verifier.user is not None:
        judged.add("agent_user", f"the task sets [agent].user or [verifier].user {USER_ADVICE}")
    if any(hook.user is not None for hook in toml.verifier.collect):
        judged.add("agent_user", f"a collect hook of the task sets a user {USER_ADVICE}")


def _plan(toml: TaskToml, directory: Path, settings: TaskSettings, judged: _Judged) -> PlannedTask | None:
    try:
        return plan_task(
            toml,
            directory,
            overlays=settings.overlays,
            privileges=not settings.refuse.privileges,
            executable=_executable(directory, settings.programs),
        )
    except TaskRefused as refused:
        judged.take(refused)
        return None


def _judge_plan(planned: PlannedTask, flags: dict[str, Any], refuse: Refuse, judged: _Judged) -> None:
    flags["gpus"] = planned.gpus
    if planned.gpus and refuse.gpus:
        judged.add("gpus", _gpus_refusal(planned.gpus))
    if not refuse.agent_user:
        return
    if planned.user is not None and planned.user not in ROOT_USERS:
        judged.add("agent_user", f"the compose file sets the user of main {USER_ADVICE}")
    if planned.image.get("suffix_user") is not None:
        judged.add("agent_user", f"the Dockerfile ends in a USER {USER_ADVICE}")


def _verifier_image(
    toml: TaskToml, directory: Path, settings: TaskSettings, judged: _Judged
) -> tuple[Mapping[str, Any] | None, Sequence[str]]:
    """The plan of a separate verifier's own image and what its sandbox uploads, as paths of the task."""
    environment = toml.verifier.environment
    if not toml.verifier.separate:
        return None, ()
    if environment is not None and environment.docker_image is not None:
        return {"kind": "prebuilt", "ref": environment.docker_image, "upload_environment": False}, ()
    text = read_dockerfile(directory, "tests/Dockerfile")
    if text is None:
        return None, ()
    try:
        executable = _executable(directory, settings.programs)
        plan = plan_image(directory / "tests", text, root=directory, executable=executable)
    except DockerfileError as error:
        judged.add("image", f"tests/{error}")
        return None, ()
    except OSError as error:
        judged.add("image", f"tests/Dockerfile: cannot be planned: {error.strerror}")
        return None, ()
    if plan.suffix_user is not None and settings.refuse.agent_user:
        judged.add("agent_user", f"tests/Dockerfile ends in a USER {USER_ADVICE}")
    return {**plan.to_dict(), "kind": "build"}, [f"tests/{path}" for path in plan.uploads]


def _executable(directory: Path, programs: frozenset[str]) -> Callable[[Path], bool]:
    """Whether a file of the task counts as a program in build keys: by what the source says, not by modes in the cache.

    The cache has one entry for equal files, whichever source they came from first.
    """
    if not programs:
        return is_program
    return lambda path: path.relative_to(directory).as_posix() in programs or is_program(path)


def _flags(toml: TaskToml | None, directory: Path, stack: str | None) -> dict[str, Any]:
    flags: dict[str, Any] = {"stack": stack} if stack is not None else {}
    if unread := [name for name in UNREAD_COMPOSE_FILES if (directory / "environment" / name).is_file()]:
        flags["unread_compose"] = unread
    if toml is None:
        return flags
    flags |= {
        "verifier": "separate" if toml.verifier.separate else "shared",
        "artifacts": len(toml.artifacts),
        "network": toml.environment.network,
        "gpus": toml.environment.gpus or 0,
        "agent_user": toml.agent.user,
        "verifier_user": toml.verifier.user,
        "os": toml.environment.os.lower(),
    }
    if toml.verifier.environment is not None and toml.verifier.environment.network_mode is not None:
        flags["verifier_network"] = toml.verifier.environment.network_mode
    return flags


def _gpus_refusal(count: int) -> str:
    return f"the task asks for {counted(count, 'GPU')} (refuse: {{gpus: false}} fetches it)"


def _warnings(flags: Mapping[str, Any], planned: PlannedTask | None) -> Sequence[str]:
    if planned is not None:
        return [printable(text) for text in planned.warnings]
    # A task that cannot be planned is refused; what else is odd about it is told all the same.
    return [f"environment/{name} is not read: Harbor reads docker-compose.yaml alone" for name in flags.get("unread_compose", ())]


def _build_keys(row: LockRow) -> list[str]:
    images = (row.image, row.verifier_image or {})
    return [str(image["key"]) for image in images if image.get("key") is not None]


def _users(rows: Sequence[LockRow]) -> dict[str, set[int]]:
    """The runnable rows, by number, that build each key."""
    users: dict[str, set[int]] = {}
    for number, row in enumerate(rows):
        if row.runnable:
            for key in _build_keys(row):
                users.setdefault(key, set()).add(number)
    return users


def _sharing_with_nobody(rows: Sequence[LockRow]) -> set[int]:
    """The rows with a build that no other row shares which is left: whoever leaves takes a sharer from its other builds."""
    users = _users(rows)
    found: set[int] = set()
    lone = [key for key, numbers in users.items() if len(numbers) == 1]
    while lone:
        for number in tuple(users[lone.pop()]):
            found.add(number)
            for key in set(_build_keys(rows[number])):
                users[key].remove(number)
                if len(users[key]) == 1:
                    lone.append(key)
    return found


def _with_kind(image: Any, users: Mapping[str, set[int]]) -> Any:
    if image is None or image.get("key") is None:
        return image
    return {**image, "kind": "shared" if len(users.get(str(image["key"]), ())) > 1 else "per_task"}
