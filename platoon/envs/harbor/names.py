"""What a task may be called and where in its dataset it may lie: the same for every source, and for a lock that is read. Pure."""

from __future__ import annotations

from platoon.envs.harbor.content import is_plain_name

# Of an id, or a path of a task; a part of it may be a directory's name.
NAME_LIMIT_BYTES = 1024
PART_LIMIT_BYTES = 255


def id_fault(name: str) -> str | None:
    """Why a text is no task's id, None when it may be one."""
    if (fault := _name_fault(name)) is None and any(part in ("", ".", "..") for part in name.split("/")):
        fault = "is a relative path without empty, `.` and `..` parts"
    return fault


def path_fault(path: str) -> str | None:
    """Why a text is no path inside a dataset, None when it may be one."""
    if (fault := _name_fault(path)) is None and (path.startswith("/") or ".." in path.split("/")):
        fault = "must stay inside the dataset"
    return fault


def _name_fault(name: str) -> str | None:
    """Why an id or a path could stand in no listing, or in no file system; None when it could."""
    if not is_plain_name(name):
        return "is UTF-8 on one line"
    if not name:
        return "is not empty"
    if len(name.encode()) > NAME_LIMIT_BYTES or max(len(part.encode()) for part in name.split("/")) > PART_LIMIT_BYTES:
        return f"has at most {NAME_LIMIT_BYTES} bytes, and {PART_LIMIT_BYTES} between slashes"
    return None
