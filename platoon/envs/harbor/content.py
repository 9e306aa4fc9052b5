"""What a task directory holds, by content: the files of rule `harbor-packager-v1`, and what may not be among them.

The core walks and hashes; this module adds what a fetch must refuse before anything is copied: links that leave the task, links to
directories, files that are no files, and names that would not survive a listing.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path

from platoon.artifacts.digests import DataError, HashedTask, UnsupportedError, hashed_task
from platoon.config.text import printable
from platoon.envs.harbor.format import HASHED_DIRECTORIES, HASHED_FILES
from platoon.errors import Problem

DEPTH_LIMIT = 100
HASH_ERRORS = (OSError, DataError, UnsupportedError)


def read_contents(directory: Path) -> HashedTask:
    """Hashes a task directory, reading each file once. Raises HASH_ERRORS."""
    return hashed_task(directory)


def tree_problems(directory: Path, shown_as: str) -> Iterator[Problem]:
    """What keeps a task directory from being fetched; `shown_as` names the task. Files that are ignored are judged as well."""
    root = Path(os.path.realpath(directory))
    for name in (*HASHED_FILES, ".gitignore"):
        if os.path.lexists(root / name):
            yield from _entry_problems(root / name, name, root, shown_as, hashed=False)
    for name in HASHED_DIRECTORIES:
        path = root / name
        if path.is_symlink():
            yield Problem("a link to a directory is not copied", key=name, file=shown_as, advice="put the directory in its place")
        elif path.is_dir():
            yield from _directory_problems(path, name, root, shown_as)


def _directory_problems(path: Path, relative: str, root: Path, shown_as: str) -> Iterator[Problem]:
    if relative.count("/") >= DEPTH_LIMIT:
        yield Problem(f"is nested deeper than {DEPTH_LIMIT} directories", key=relative.partition("/")[0], file=shown_as)
        return
    with os.scandir(path) as scanned:
        entries = sorted(scanned, key=lambda entry: entry.name)
    for entry in entries:
        inner = f"{relative}/{entry.name}"
        if not is_plain_name(entry.name):
            yield Problem("a name is UTF-8 on one line", key=printable(inner), file=shown_as, advice="rename it")
        elif entry.is_dir(follow_symlinks=False):
            yield from _directory_problems(Path(entry.path), inner, root, shown_as)
        else:
            yield from _entry_problems(Path(entry.path), inner, root, shown_as, hashed=True)


def _entry_problems(path: Path, relative: str, root: Path, shown_as: str, *, hashed: bool) -> Iterator[Problem]:
    key = printable(relative)
    if path.is_symlink():
        target = path.readlink()
        shown = printable(str(target))
        try:
            mode = path.stat().st_mode
        except OSError:
            yield Problem(f"a link to {shown} leads nowhere", key=key, file=shown_as)
            return
        if target.is_absolute() or not Path(os.path.realpath(path)).is_relative_to(root):
            yield Problem(f"a link to {shown} leaves the task", key=key, file=shown_as, advice="copy what it names into the task")
            return
        if stat.S_ISDIR(mode):
            yield Problem(
                f"a link to the directory {shown} is not copied", key=key, file=shown_as, advice="put the directory in its place"
            )
            return
    else:
        mode = path.lstat().st_mode
    if not stat.S_ISREG(mode) and (hashed or not stat.S_ISDIR(mode)):
        yield Problem("is neither file nor directory", key=key, file=shown_as)


def is_plain_name(name: str) -> bool:
    """Whether a file name is UTF-8 and stays on one line of a listing."""
    if any(character in name for character in "\0\n\r"):
        return False
    try:
        name.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True
