"""`volumes`, `tmpfs`, `configs` and `secrets` of a service: what is mounted where, and from what."""

from __future__ import annotations

import posixpath
import re
from typing import Any

from platoon.config.text import clip
from platoon.envs.harbor.compose import values
from platoon.envs.harbor.compose.errors import ComposeError
from platoon.envs.harbor.compose.reading import Draft, Reading, admitted, context_subpath, task_path
from platoon.envs.harbor.compose.stack_plan import Bind, InlineFile, Tmpfs, VolumeMount
from platoon.envs.harbor.compose.text import HostPart, LogsPart, Part, Text, join, pieces, to_json
from platoon.envs.harbor.compose.variables import LOG_DIRECTORIES

_IGNORED_MODES = frozenset(
    {"z", "Z", "cached", "delegated", "consistent", "private", "rprivate", "shared", "rshared", "slave", "rslave"}
)
_IGNORED_TMPFS = frozenset({"rw", "noexec", "nosuid", "nodev", "exec", "suid", "dev", "noatime", "relatime"})
_KERNEL = ("/proc", "/sys", "/dev")
_HARNESS = ("/tests", "/logs")
_VOLUME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*")

Mount = VolumeMount | Bind | Tmpfs


def read_volumes(value: Any, draft: Draft, reading: Reading) -> None:
    place = f"{draft.name}.volumes"
    mounts: dict[str, Mount] = {}
    for item in values.sequence(value):
        with reading.findings.at(place):
            mount = _long(item, draft, reading) if isinstance(item, dict) else _short(values.only_text(item), draft, reading)
            # Harbor lays its log directories over main's, whatever the file mounts there.
            if mount is not None and not (draft.role == "main" and mount.target in LOG_DIRECTORIES.values()):
                mounts.pop(mount.target, None)
                mounts[mount.target] = _checked(mount, draft)
    _keep(mounts, draft)


def read_tmpfs(value: Any, draft: Draft, reading: Reading) -> None:
    mounts: dict[str, Mount] = {}
    for item in value if isinstance(value, list) else [value]:
        with reading.findings.at(f"{draft.name}.tmpfs"):
            path, _, options = values.known(item).partition(":")
            mount = Tmpfs(values.container_path(path), *_tmpfs_options(options))
            mounts[mount.target] = _checked(mount, draft)
    _keep(mounts, draft)


def read_files(kind: str, value: Any, draft: Draft, reading: Reading) -> None:
    """`configs` or `secrets`: files of the task become read-only binds, content stays in the plan."""
    directory = "/run/secrets" if kind == "secrets" else ""
    for item in values.sequence(value):
        place = f"{draft.name}.{kind}"
        with reading.findings.at(place):
            long = values.mapping(item) if isinstance(item, dict) else {"source": item}
            settings = dict(admitted(long, f"services.*.{kind}[]", place, draft.role, reading.findings))
            name = values.known(settings.get("source", ""))
            declared = reading.tables.get(kind, {}).get(name)
            if declared is None:
                raise ComposeError(f"{clip(name)} is none of the file's {kind}")
            reading.named.add((kind, name))
            target = values.known(settings["target"]) if settings.get("target") else name
            target = target if target.startswith("/") else f"{directory}/{target}"
            mode = None if settings.get("mode") is None else _mode(settings["mode"])
            if (content := declared.get("content")) is not None:
                found = InlineFile(values.only_text(content), values.container_path(target), mode)
                draft.plan["files"] = (*draft.plan.get("files", ()), found)
            elif declared.get("file") is not None:
                bind = _bind(values.only_text(declared["file"]), target, True, draft, reading)
                draft.plan["binds"] = (*draft.plan.get("binds", ()), _checked(bind, draft))


def _keep(mounts: dict[str, Mount], draft: Draft) -> None:
    for key, kind in (("volumes", VolumeMount), ("binds", Bind), ("tmpfs", Tmpfs)):
        found = tuple(mount for mount in mounts.values() if isinstance(mount, kind))
        if found:
            draft.plan[key] = (*draft.plan.get(key, ()), *found)


def _short(text: Text, draft: Draft, reading: Reading) -> Mount | None:
    parts = _split(text)
    if len(parts) > 3 or any(part == "" for part in parts):
        raise ComposeError(f"a volume is SOURCE:TARGET[:MODE], got {_shown(text)}")
    if len(parts) == 1:
        return VolumeMount(None, values.container_path(parts[0]))
    if isinstance(parts[0], str) and len(parts[0]) == 1 and parts[0].isalpha():
        raise ComposeError(f"{_shown(text)} reads as a drive of Windows (use the long form)")
    read_only, copy = False, True
    for option in values.known(parts[2]).split(",") if len(parts) == 3 else ():
        if option in ("ro", "rw"):
            read_only = option == "ro"
        elif option == "nocopy":
            copy = False
        elif option not in _IGNORED_MODES:
            raise ComposeError(f"{clip(option, 30)} is no mode of a volume")
    source = parts[0]
    if not isinstance(source, str) or source[0] in "./~":
        return _bind(source, parts[1], read_only, draft, reading)
    return VolumeMount(_named(source, reading), values.container_path(parts[1]), read_only, copy)


def _long(item: Any, draft: Draft, reading: Reading) -> Mount | None:
    place = f"{draft.name}.volumes"
    prefix = "services.*.volumes[]"
    groups = {key: values.mapping(item[key]) for key in ("bind", "volume", "tmpfs") if item.get(key) is not None}
    outer = {key: value for key, value in item.items() if key not in ("bind", "volume", "tmpfs")}
    settings = dict(admitted(outer, prefix, place, draft.role, reading.findings))
    kind = values.known(settings.get("type", ""))
    options = {
        key: value
        for group, inner in groups.items()
        for key, value in admitted(inner, f"{prefix}.{group}", f"{place}.{group}", draft.role, reading.findings)
        if group == kind
    }
    target = settings.get("target")
    if target is None:
        raise ComposeError("a volume needs a target")
    read_only = values.switch(settings.get("read_only", False))
    source = settings.get("source")
    if kind == "tmpfs":
        size = values.size_mb(options["size"]) if options.get("size") is not None else None
        return Tmpfs(values.container_path(target), size, _mode(options["mode"]) if options.get("mode") is not None else None)
    if kind == "bind":
        if source is None:
            raise ComposeError("a bind needs a source")
        return _bind(values.only_text(source), values.only_text(target), read_only, draft, reading)
    if kind == "volume":
        name = None if source is None else _named(values.known(source), reading)
        return VolumeMount(name, values.container_path(target), read_only, not values.switch(options.get("nocopy", False)))
    raise ComposeError(f"the type is volume, bind or tmpfs, got {kind[:30] or 'nothing'}")


def _bind(source: Text, target: Text, read_only: bool, draft: Draft, reading: Reading) -> Bind:
    place = values.container_path(target)
    if not isinstance(source, str):
        only = source[0] if len(source) == 1 else None
        if isinstance(source[0], LogsPart):
            logs = _below_logs(source[0].name, source[1:])
            if draft.role == "main" and source[0].name == "verifier" and (only is None or place != LOG_DIRECTORIES["verifier"]):
                raise ComposeError("main does not see the verifier's log directory before it is graded")
            return Bind("logs", logs, place, read_only)
        if isinstance(only, HostPart):
            if not read_only:
                raise ComposeError(f"a bind of the host path that {only.name} names is read-only (add :ro)")
            if only != HostPart(only.name):
                raise ComposeError(f"a bind takes the path that {only.name} names as it is, without a default")
            return Bind("host", only.name, place, True)
        if host := next((part for part in source if isinstance(part, HostPart)), None):
            raise ComposeError(f"a bind takes the whole path that {host.name} names, not a part of one")
    path = source if isinstance(source, str) else context_subpath(source)
    if path is None or path.startswith(("/", "~")):
        shown = _shown(source)
        raise ComposeError(f"{shown} is a path of the host (copy it into the task, or name it by a variable of compose_host_env)")
    found = task_path(path)
    if found is None:
        raise ComposeError(f"{clip(path)} leaves the task")
    if reading.files.kind(found) is None:
        raise ComposeError(f"{clip(found, 100)} is not in the task")
    return Bind("task", found, place, read_only)


def _below_logs(name: str, rest: tuple[str | Part, ...]) -> str:
    """A log directory, or what the text after its variable names below it."""
    path = values.known(join(*rest))
    if not path:
        return name
    found = posixpath.normpath(f"{name}/{path}")
    if not path.startswith("/") or not found.startswith(f"{name}/"):
        raise ComposeError(f"{clip(path)} leaves the log directory")
    return found


def _checked(mount: Mount, draft: Draft) -> Mount:
    target = mount.target
    if target == "/" or (_at_or_below(target, _KERNEL) and not (isinstance(mount, Tmpfs) and target == "/dev/shm")):  # noqa: S108  because it is the container's
        raise ComposeError(f"nothing is mounted at {clip(target)}")
    of_harness = _at_or_below(target, _HARNESS)
    if of_harness and (draft.role == "main" or isinstance(mount, Bind)) and not (isinstance(mount, Bind) and mount.kind == "logs"):
        raise ComposeError(f"nothing is mounted at {clip(target)}: grading makes /tests and /logs afresh")
    return mount


def _at_or_below(path: str, roots: tuple[str, ...]) -> bool:
    return any(path == root or path.startswith(f"{root}/") for root in roots)


def _named(name: str, reading: Reading) -> str:
    if not _VOLUME.fullmatch(name) or name not in reading.tables.get("volumes", {}):
        raise ComposeError(f"{clip(name)} is none of the file's volumes")
    return name


def _split(text: Text) -> list[Text]:
    """A text at its colons; parts hold none."""
    groups: list[list[str | Part]] = [[]]
    for piece in pieces(text):
        if isinstance(piece, str):
            first, *others = piece.split(":")
            groups[-1].append(first)
            groups += [[other] for other in others]
        else:
            groups[-1].append(piece)
    return [join(*group) for group in groups]


def _tmpfs_options(text: str) -> tuple[int | None, int | None]:
    size_mb, mode = None, None
    for option in filter(None, text.split(",")):
        key, _, value = option.partition("=")
        if key == "size":
            size_mb = values.size_mb(value)
        elif key == "mode":
            mode = _mode(value)
        elif key not in _IGNORED_TMPFS:
            raise ComposeError(f"{clip(option, 40)} is no option of a tmpfs here (size and mode are)")
    return size_mb, mode


def _mode(value: Any) -> int:
    """Permission bits: octal text, or a number as YAML reads it."""
    if isinstance(value, str):
        if not re.fullmatch(r"(?:0o?)?[0-7]{1,4}", value):
            raise ComposeError(f"a mode is octal such as 0755, got {value[:20]}")
        return int(value.replace("o", ""), 8)
    found = values.whole_number(value)
    if not 0 <= found <= 0o7777:
        raise ComposeError("a mode has permission bits alone")
    return found


def _shown(text: Text) -> str:
    shown = text if isinstance(text, str) else str(to_json(text))
    return clip(shown)
