"""What a task directory holds, by content: the files of rule `harbor-packager-v1`, and what may not be among them.

The core walks and hashes; this module adds what a fetch must refuse before anything is copied: links that leave the task, links to
directories, files that are no files, and names that would not survive a listing.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path

from platoon.artifacts.digests import DataError, HashedTask, UnsupportedError, hashed_task
from platoon.config.text import printable
from platoon.envs.harbor.format import HASHED_DIRECTORIES, HASHED_FILES, IGNORE_FILE, TOML_LIMIT_BYTES
from platoon.errors import Problem

DEPTH_LIMIT = 100
FILE_LIMIT = 50_000
# Of all files together, as long as they say they are: a hole of a sparse file is copied like what is written.
TASK_LIMIT_BYTES = 10 * 2**30
DEEP_ADVICE = "keep its files in fewer directories, or in an archive"
LARGE_ADVICE = "put large data in the image, or have it fetched there"
MANY_FILES_ADVICE = "pack them in an archive, or put them in the image"
# Of one fetch.
SHOWN_PROBLEMS = 20
TASK_FILE = "task.toml"
HASH_ERRORS = (OSError, DataError, UnsupportedError)


def read_contents(directory: Path) -> HashedTask:
    """Hashes a task directory, reading each file once. Raises HASH_ERRORS."""
    return hashed_task(directory)


def fault_text(error: Exception, directory: Path) -> str:
    """One of HASH_ERRORS for a person: the file, relative to the task's directory, and what is wrong with it."""
    text = f"{error.filename}: {error.strerror}" if isinstance(error, OSError) and error.filename else str(error)
    return printable(text.replace(f"{directory}/", ""))


def tree_problems(directory: Path, shown_as: str) -> Iterator[Problem]:
    """What keeps a task directory from being fetched; `shown_as` names the task. Files that are ignored are judged as well."""
    return _judged(directory, shown_as, _Left())


def excess_problem(directory: Path, shown_as: str) -> Problem | None:
    """That a task directory holds more than a task may, whatever else is wrong with it."""
    left = _Left()
    problems = list(_judged(directory, shown_as, left))
    return problems[-1] if left.excess is not None else None


def _judged(directory: Path, shown_as: str, left: _Left) -> Iterator[Problem]:
    """The walk ends where the task holds too much, which is its last problem then."""
    # Plain strings: this runs for every task of every fetch.
    top = os.path.realpath(directory)
    for name in (*HASHED_FILES, IGNORE_FILE, *HASHED_DIRECTORIES):
        of_top = _top_directory_problems if name in HASHED_DIRECTORIES else _file_problems
        yield from of_top(top, name, shown_as, left)
        if (excess := left.excess) is not None:
            yield Problem(excess[0], key=name, file=shown_as, advice=excess[1])
            return


@dataclass
class _Left:
    """What a task may still hold: entries below its directories, and bytes."""

    files: int = field(default_factory=lambda: FILE_LIMIT)
    size_bytes: int = field(default_factory=lambda: TASK_LIMIT_BYTES)

    def take(self, files: int, size_bytes: int) -> None:
        self.files -= files
        self.size_bytes -= size_bytes

    @property
    def excess(self) -> tuple[str, str] | None:
        """The rule that is broken and the advice, None while none is."""
        if self.files < 0:
            return f"the task holds more than {FILE_LIMIT} files", MANY_FILES_ADVICE
        return None if self.size_bytes >= 0 else (f"the task holds more than {TASK_LIMIT_BYTES} bytes", LARGE_ADVICE)


@dataclass
class ListedTask:
    """A task as a listing of its source has it, judged in the words of `tree_problems` before any of its files is here.

    Each entry is added once, directories too; `path` is relative to the task. is_there: anything was added.
    """

    shown_as: str
    problems: list[Problem] = field(default_factory=list)
    is_there: bool = False
    _left: _Left = field(default_factory=_Left)

    def add(self, path: str, size_bytes: int = 0) -> None:
        """size_bytes: 0 where the listing does not say."""
        top, slash, _ = path.partition("/")
        self.is_there = True
        was = self._left.excess
        self._left.take(1 if slash else 0, size_bytes)
        if (excess := self._left.excess) is not None and excess != was:
            self.tell(top, *excess)
        self.check_name(path)
        if path.count("/") > DEPTH_LIMIT:
            self.tell(top, f"is nested deeper than {DEPTH_LIMIT} directories", DEEP_ADVICE)
        if path == TASK_FILE and size_bytes > TOML_LIMIT_BYTES:
            self.tell(path, f"has {size_bytes} bytes, more than {TOML_LIMIT_BYTES}")

    def check_name(self, path: str) -> None:
        """Tells of a path that no listing, or no task, could hold."""
        if not is_plain_name(path):
            self.tell(path, "a name is UTF-8 on one line", "rename it")
        elif path.startswith("/") or ".." in path.split("/"):
            self.tell(path, "must stay inside the task")

    def tell(self, path: str, rule: str, advice: str = "") -> None:
        """A few problems are enough of one task; one that was told is not told again."""
        problem = Problem(rule, key=printable(path), file=self.shown_as, advice=advice)
        if len(self.problems) < SHOWN_PROBLEMS and problem not in self.problems:
            self.problems.append(problem)


def no_directory(name: str, shown_as: str) -> Problem:
    """Of a file in the place of one of HASHED_DIRECTORIES, which would be left out."""
    return Problem("is no directory", key=name, file=shown_as, advice="remove it, or put a directory in its place")


def no_single_task(reference: str) -> Problem:
    """Of an index that names the root of its tree as a task, and the root holds no task file."""
    rule = f"a task's path names the root, which holds no {TASK_FILE}"
    return Problem(rule, file=reference, advice="name the task's own directory")


def _status(path: str) -> tuple[int, int]:
    """Mode and size of what is at a path, links not followed; zeros where nothing is."""
    try:
        found = os.lstat(path)
    except OSError:
        return 0, 0
    return found.st_mode, found.st_size


def _file_problems(top: str, name: str, shown_as: str, left: _Left) -> Iterator[Problem]:
    """Of a file at the top of a task."""
    mode, size_bytes = _status(f"{top}/{name}")
    if mode and not stat.S_ISREG(mode):
        root = Path(top)
        yield from _entry_problems(root / name, name, root, shown_as, hashed=False)
        size_bytes = _status(os.path.realpath(root / name))[1]
    if name == TASK_FILE and size_bytes > TOML_LIMIT_BYTES:
        yield Problem(f"has {size_bytes} bytes, more than {TOML_LIMIT_BYTES}", key=name, file=shown_as)
    left.take(0, size_bytes)


def _top_directory_problems(top: str, name: str, shown_as: str, left: _Left) -> Iterator[Problem]:
    """Of a directory at the top of a task."""
    mode, _ = _status(f"{top}/{name}")
    if stat.S_ISLNK(mode):
        root = Path(top)
        yield from list(_entry_problems(root / name, name, root, shown_as, hashed=True)) or [no_directory(name, shown_as)]
    elif stat.S_ISDIR(mode):
        yield from _directory_problems(f"{top}/{name}", name, Path(top), shown_as, left)
    elif mode:
        yield no_directory(name, shown_as)


def _directory_problems(path: str, relative: str, root: Path, shown_as: str, left: _Left) -> Iterator[Problem]:
    """The walk ends where the task holds too much."""
    if relative.count("/") >= DEPTH_LIMIT:
        rule = f"is nested deeper than {DEPTH_LIMIT} directories"
        yield Problem(rule, key=relative.partition("/")[0], file=shown_as, advice=DEEP_ADVICE)
        return
    try:
        with os.scandir(path) as scanned:
            entries = sorted(islice(scanned, left.files + 1), key=lambda entry: entry.name)
    except OSError as error:
        yield Problem(f"cannot be read: {error.strerror}", key=printable(relative), file=shown_as)
        return
    left.take(len(entries), 0)
    for entry in entries:
        if left.excess is not None:
            return
        inner = f"{relative}/{entry.name}"
        if not is_plain_name(entry.name):
            yield Problem("a name is UTF-8 on one line", key=printable(inner), file=shown_as, advice="rename it")
        elif entry.is_dir(follow_symlinks=False):
            yield from _directory_problems(entry.path, inner, root, shown_as, left)
        elif entry.is_file(follow_symlinks=False):
            left.take(0, _status(entry.path)[1])
        else:
            yield from _entry_problems(Path(entry.path), inner, root, shown_as, hashed=True)
            # A link is copied as the file that it names.
            left.take(0, _status(os.path.realpath(entry.path))[1])


def _entry_problems(path: Path, relative: str, root: Path, shown_as: str, *, hashed: bool) -> Iterator[Problem]:
    key = printable(relative)
    if path.is_symlink():
        target = path.readlink()
        shown = printable(str(target))
        # Where there is nothing outside too: what lies beside a task while it is fetched differs.
        if target.is_absolute() or not Path(os.path.realpath(path)).is_relative_to(root):
            yield Problem(f"a link to {shown} leaves the task", key=key, file=shown_as, advice="copy what it names into the task")
            return
        try:
            mode = path.stat().st_mode
        except OSError:
            advice = "put a file in its place, or remove it"
            yield Problem(f"a link to {shown} leads nowhere", key=key, file=shown_as, advice=advice)
            return
        if stat.S_ISDIR(mode):
            yield Problem(
                f"a link to the directory {shown} is not copied", key=key, file=shown_as, advice="put the directory in its place"
            )
            return
    else:
        mode = path.lstat().st_mode
    if not stat.S_ISREG(mode) and (hashed or not stat.S_ISDIR(mode)):
        yield Problem("is neither file nor directory", key=key, file=shown_as, advice="put a file in its place, or remove it")


def is_plain_name(name: str) -> bool:
    """Whether a file name is UTF-8 and stays on one line of a listing."""
    if any(character in name for character in "\0\n\r"):
        return False
    try:
        name.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True
