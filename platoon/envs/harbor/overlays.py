"""Overlays: directories with an `overlay.toml` that change the tasks they match before anything is hashed or planned.

    overlay = read_overlay(Path("overlays/offline"))
    if overlay.matches("tasks/a", {"family": "web"}):
        apply_files([overlay], staged_task)

`[[edit]]` and `[[copy]]` change files, by new inodes, and so the task's digest; `[[compose]]` entries change the stack plan alone.
"""

from __future__ import annotations

import fnmatch
import math
import os
import re
import shutil
import uuid
from collections.abc import Container, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Annotated, Any

from pydantic import Field, ValidationError, field_validator

from platoon.artifacts.digests import hex_of, sha256_bytes, sha256_file
from platoon.artifacts.reading import parse_toml
from platoon.config.files import read_bytes
from platoon.config.model import ConfigModel
from platoon.config.problems import from_validation_error
from platoon.config.text import clip, counted, printable
from platoon.envs.harbor.content import LARGE_ADVICE, TASK_LIMIT_BYTES
from platoon.envs.harbor.format import HASHED_DIRECTORIES, IGNORE_FILE, TaskRefused
from platoon.envs.harbor.substitution import SubstitutionError, substitute
from platoon.errors import ConfigError, Problem

OVERLAY_FILE = "overlay.toml"
SIZE_LIMIT_BYTES = 1024 * 1024
EDITED_LIMIT_BYTES = 64 * 1024 * 1024
_VARIABLE = r"^[A-Za-z_][A-Za-z0-9_]*$"
_SERVICE = r"^[A-Za-z0-9][A-Za-z0-9_.-]*$"
Variable = Annotated[str, Field(pattern=_VARIABLE)]


@dataclass(frozen=True)
class FileEdit:
    """`[[edit]]`: exactly `count` replacements of a regular expression in one file, or the task is refused."""

    file: str
    pattern: str
    replace: str = ""
    count: int = 1


@dataclass(frozen=True)
class FileCopy:
    """`[[copy]]`: a file of the overlay put at `file` of the task."""

    file: str
    source: str
    executable: bool = False


@dataclass(frozen=True)
class HostNetworkRule:
    """`host_network` of a `[[compose]]` entry: variables that give a service its ports (by number, or in the file's order), a token
    and the address it binds."""

    listen: tuple[tuple[str, int | None], ...] = ()
    token: tuple[str, ...] = ()
    bind: tuple[str, ...] = ()


@dataclass(frozen=True)
class ComposeEdit:
    """`[[compose]]`: edits of one service of the compose file, before it is interpolated."""

    service: str
    set: Mapping[str, Any] = field(default_factory=dict)
    replace: Mapping[str, Any] = field(default_factory=dict)
    unset: tuple[str, ...] = ()
    external: str | None = None
    scope: Mapping[str, str] = field(default_factory=dict)
    host_network: HostNetworkRule | None = None


@dataclass(frozen=True)
class Overlay:
    """One overlay, read whole. match: index fields (and `name` globs) to the values that match, as text.

    digest: 64 hex over `overlay.toml` and the files it copies.
    """

    name: str
    directory: Path
    digest: str
    match: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    edits: tuple[FileEdit, ...] = ()
    copies: tuple[FileCopy, ...] = ()
    compose: tuple[ComposeEdit, ...] = ()
    compose_host_env: tuple[str, ...] = ()

    def matches(self, task: str, index: Mapping[str, Any]) -> bool:
        """Whether every field matches the task of this id and these index fields; values compare as text."""
        for name, wanted in self.match.items():
            if name == "name":
                if not any(fnmatch.fnmatchcase(task, pattern) for pattern in wanted):
                    return False
            elif name not in index or _as_text(index[name]) not in wanted:
                return False
        return True


class _Edit(ConfigModel):
    """`[[edit]]`."""

    file: str
    pattern: str
    replace: str = ""
    count: Annotated[int, Field(ge=1)] = 1

    @field_validator("pattern")
    @classmethod
    def _is_pattern(cls, value: str) -> str:
        try:
            re.compile(value, re.MULTILINE)
        except re.error as error:
            raise ValueError(f"must be a regular expression: {error}") from None
        return value


class _Copy(ConfigModel):
    """`[[copy]]`."""

    file: str
    source: str
    executable: bool = False


class _HostNetwork(ConfigModel):
    """`host_network` of `[[compose]]`."""

    listen: list[Variable] | dict[str, Annotated[int, Field(gt=0, lt=65536)]] = Field(default_factory=list)
    token: list[Variable] = Field(default_factory=list)
    bind: list[Variable] = Field(default_factory=list)

    def checks(self) -> Iterator[Problem]:
        if not (self.listen or self.token or self.bind):
            yield Problem("names no variable", advice="listen, token or bind")
        for name in self.listen if isinstance(self.listen, dict) else ():
            if not re.fullmatch(_VARIABLE, name):
                yield Problem("is no variable's name", key=f"listen.{printable(name)}")


class _Compose(ConfigModel):
    """`[[compose]]`."""

    service: Annotated[str, Field(pattern=_SERVICE)]
    set: dict[str, Any] = Field(default_factory=dict)
    replace: dict[str, Any] = Field(default_factory=dict)
    unset: list[str] = Field(default_factory=list)
    external: Annotated[str, Field(pattern=_SERVICE)] | None = None
    scope: dict[str, str] = Field(default_factory=dict)
    host_network: _HostNetwork | None = None

    def checks(self) -> Iterator[Problem]:
        if not (self.set or self.replace or self.unset or self.external or self.host_network):
            yield Problem("does nothing", advice="set, replace, unset, external or host_network")
        if self.scope and self.external is None:
            yield Problem("needs external", key="scope")
        if self.external is not None and self.host_network is not None:
            yield Problem("excludes external, which no stack starts", key="host_network")
        for key in ("set", "replace"):
            for place, kind in _no_tree(getattr(self, key), key):
                yield Problem(f"holds {kind}, which no compose file does", key=place)


class _File(ConfigModel):
    """`overlay.toml`."""

    name: Annotated[str, Field(min_length=1, max_length=200)] | None = None
    description: str = ""
    match: dict[str, Any] = Field(default_factory=dict)
    edit: list[_Edit] = Field(default_factory=list)
    copy_: list[_Copy] = Field(default_factory=list, alias="copy")
    compose: list[_Compose] = Field(default_factory=list)
    compose_host_env: list[Variable] = Field(default_factory=list)

    def checks(self) -> Iterator[Problem]:
        if not (self.edit or self.copy_ or self.compose or self.compose_host_env):
            yield Problem("does nothing", advice="give it [[edit]], [[copy]], [[compose]] or compose_host_env")
        for kind, items in (("edit", self.edit), ("copy", self.copy_)):
            for number, item in enumerate(items):
                for key in ("file", "source") if kind == "copy" else ("file",):
                    if not _stays_inside(getattr(item, key)):
                        yield Problem("is a relative path without '..'", key=f"{kind}.{number}.{key}")


def read_overlay(directory: Path) -> Overlay:
    """The overlay of a directory. Raises ConfigError with every problem of its `overlay.toml`."""
    path = directory / OVERLAY_FILE
    shown = printable(str(path))
    if directory.is_dir() and not os.path.lexists(path):
        raise ConfigError(Problem("no such file", file=shown, advice=f"overlays: names directories, each with an {OVERLAY_FILE}"))
    data = read_bytes(path, limit_bytes=SIZE_LIMIT_BYTES, shown_as=shown)
    try:
        values = parse_toml(data)
    except ValueError as error:
        raise ConfigError(Problem(f"is not TOML: {printable(str(error))}", file=shown)) from None
    try:
        file = _File.model_validate(values)
    except ValidationError as error:
        raise ConfigError(from_validation_error(error, _File, values, lambda path: shown)) from None
    name = file.name or Path(os.path.realpath(directory)).name
    if not name.isprintable():
        raise ConfigError(Problem("is UTF-8 on one line", key="name", file=shown, advice="give it a name, or rename its directory"))
    copies = tuple(FileCopy(item.file, item.source, item.executable) for item in file.copy_)
    if problems := [*_match_problems(file.match, shown), *_copy_problems(copies, directory, shown)]:
        raise ConfigError(problems)
    return Overlay(
        name=name,
        directory=directory,
        digest=_digest(data, copies, directory),
        match={name: tuple(map(_as_text, _listed(value))) for name, value in file.match.items()},
        edits=tuple(FileEdit(item.file, item.pattern, item.replace, item.count) for item in file.edit),
        copies=copies,
        compose=tuple(_compose_edit(item) for item in file.compose),
        compose_host_env=tuple(dict.fromkeys(file.compose_host_env)),
    )


def apply_files(overlays: Sequence[Overlay], task: Path) -> None:
    """Applies `[[edit]]` and `[[copy]]` to a task's own copy, by new inodes.

    Raises TaskRefused (`overlay`) with the first fault of each file: what follows in a file may follow from it.
    """
    faults: dict[str, str] = {}
    for overlay in overlays:
        changes: tuple[FileEdit | FileCopy, ...] = (*overlay.edits, *overlay.copies)
        for change in changes:
            file = str(PurePosixPath(change.file))
            if file in faults:
                continue
            try:
                if isinstance(change, FileEdit):
                    _apply_edit(change, overlay, task)
                else:
                    _apply_copy(change, overlay, task)
            except TaskRefused as refused:
                faults[file] = refused.why
    if faults:
        raise TaskRefused("overlay", *faults.values())


def check_copies(overlays: Sequence[Overlay], kept: Container[str]) -> None:
    """Raises TaskRefused (`overlay`) for each `[[copy]]` without effect. kept: the files that a fetch keeps of the task."""
    why = f"is not kept: it is ignored, or in none of {', '.join(f'{name}/' for name in HASHED_DIRECTORIES)}"
    faults = [
        f"{printable(overlay.name)}: {printable(copy.file)}: {why}"
        for overlay in overlays
        for copy in overlay.copies
        if (file := str(PurePosixPath(copy.file))) not in kept and file != IGNORE_FILE
    ]
    if faults:
        raise TaskRefused("overlay", *faults)


def overlays_digest(overlays: Sequence[Overlay]) -> str | None:
    """A lock's `overlay`: `sha256:<hex>` over names and digests in order; None without overlays."""
    if not overlays:
        return None
    text = "".join(f"{overlay.name}\0{overlay.digest}\n" for overlay in overlays)
    return sha256_bytes(text.encode())


def _digest(data: bytes, copies: Sequence[FileCopy], directory: Path) -> str:
    """Over the bytes of the file, then per copy its source and the digest of that file."""
    parts = [f"\0{copy.source}\0{hex_of(sha256_file(directory / copy.source))}".encode() for copy in copies]
    return hex_of(sha256_bytes(data, *parts))


def _copy_problems(copies: Sequence[FileCopy], directory: Path, shown: str) -> Iterator[Problem]:
    root = Path(os.path.realpath(directory))
    left_bytes = TASK_LIMIT_BYTES
    for number, copy in enumerate(copies):
        path, key = directory / copy.source, f"copy.{number}.source"
        if not path.is_file() or not Path(os.path.realpath(path)).is_relative_to(root):
            yield Problem(f"{printable(copy.source)} is no file of the overlay", key=key, file=shown)
            continue
        left_bytes -= path.stat().st_size
        if left_bytes < 0:
            rule = f"with {printable(copy.source)} the overlay copies more than the {TASK_LIMIT_BYTES} bytes that a task may hold"
            yield Problem(rule, key=key, file=shown, advice=LARGE_ADVICE)
            return


def _match_problems(match: Mapping[str, Any], shown: str) -> Iterator[Problem]:
    for name, value in match.items():
        if not all(isinstance(item, str | int | float | bool) for item in _listed(value)):
            yield Problem("is a value or a list of values", key=f"match.{printable(name)}", file=shown)


def _apply_edit(edit: FileEdit, overlay: Overlay, task: Path) -> None:
    target = _target(edit.file, overlay, task)
    if not target.is_file():
        raise _refused(overlay, edit.file, "is missing in the task")
    if target.stat().st_size > EDITED_LIMIT_BYTES:
        raise _refused(overlay, edit.file, f"has more than {EDITED_LIMIT_BYTES} bytes")
    try:
        text = target.read_bytes().decode("utf-8")
    except UnicodeDecodeError as error:
        raise _refused(overlay, edit.file, f"is not UTF-8 (byte {error.start})") from None
    try:
        changed, count = substitute(edit.pattern, edit.replace, text)
    except SubstitutionError as error:
        raise _refused(overlay, edit.file, f"{printable(clip(edit.pattern))}: {error}") from None
    if count != edit.count:
        raise _refused(overlay, edit.file, f"the pattern matches {counted(count, 'time')}, not {edit.count}")
    with _replacing(target, target.stat().st_mode & 0o777) as beside:
        beside.write_bytes(changed.encode("utf-8"))


def _apply_copy(copy: FileCopy, overlay: Overlay, task: Path) -> None:
    target = _target(copy.file, overlay, task)
    if target.is_dir():
        raise _refused(overlay, copy.file, "is a directory of the task")
    target.parent.mkdir(parents=True, exist_ok=True)
    with _replacing(target, 0o755 if copy.executable else 0o644) as beside:
        shutil.copyfile(overlay.directory / copy.source, beside)


def _target(file: str, overlay: Overlay, task: Path) -> Path:
    """A file's place in the task, no part of which is a link."""
    place = task
    for part in PurePosixPath(file).parts:
        place = place / part
        if place.is_symlink():
            raise _refused(overlay, file, "is reached through a link")
        if place.exists() and place != task / file and not place.is_dir():
            raise _refused(overlay, file, "lies below a file of the task")
    return place


@contextmanager
def _replacing(target: Path, mode: int) -> Iterator[Path]:
    """A place to write what becomes the target: a new inode, since the old one may be another task's too."""
    beside = target.with_name(f".{uuid.uuid4().hex}")
    yield beside
    beside.chmod(mode)
    beside.replace(target)


def _compose_edit(item: _Compose) -> ComposeEdit:
    rule = item.host_network
    listen: tuple[tuple[str, int | None], ...] = ()
    if rule is not None:
        listen = tuple(rule.listen.items()) if isinstance(rule.listen, dict) else tuple((name, None) for name in rule.listen)
    return ComposeEdit(
        item.service,
        item.set,
        item.replace,
        tuple(item.unset),
        item.external,
        item.scope,
        None if rule is None else HostNetworkRule(listen, tuple(rule.token), tuple(rule.bind)),
    )


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def _as_text(value: Any) -> str:
    return ("true" if value else "false") if isinstance(value, bool) else str(value)


def _stays_inside(path: str) -> bool:
    pure = PurePosixPath(path)
    return bool(pure.parts) and not pure.is_absolute() and ".." not in pure.parts and path.isprintable()


def _no_tree(value: Any, place: str) -> Iterator[tuple[str, str]]:
    """Where a value below is none that a compose file can hold, and what it is."""
    if isinstance(value, dict):
        for key, item in value.items():
            yield from _no_tree(item, f"{place}.{printable(key)}")
    elif isinstance(value, list):
        for item in value:
            yield from _no_tree(item, place)
    elif isinstance(value, float) and not math.isfinite(value):
        yield place, f"the number {value}"
    elif isinstance(value, str) and "\0" in value:
        yield place, "a NUL character"
    elif not isinstance(value, str | bool | int | float):
        yield place, f"a {type(value).__name__}"


def _refused(overlay: Overlay, file: str, why: str) -> TaskRefused:
    return TaskRefused("overlay", f"{printable(overlay.name)}: {printable(file)}: {why}")
