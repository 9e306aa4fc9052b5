"""Where a run directory may lie: judged before anything is made there, so that a slip is a refusal and not half a run elsewhere."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

from platoon.config.text import printable
from platoon.errors import ConfigError, Problem
from platoon.train.run_directory.identity import FILE

MOST_PATH_BYTES = 1024
MOST_NAME_BYTES = 255


def refuse_place(run_dir: Path, state_dir: Path, key: str) -> None:
    """Raises ConfigError where no run can live. run_dir: absolute. state_dir: of embedded services. key: what names the place."""
    advice = "name a directory of the run's own"
    if problems := [Problem(rule, key=key, file=printable(str(run_dir)), advice=advice) for rule in _faults(run_dir, state_dir)]:
        raise ConfigError(problems)


def refuse_unwritable(directory: Path, key: str) -> None:
    """Raises ConfigError for a directory, made or not, in which this process cannot make files. key: what names the place.

    Tries it, and leaves nothing: modes alone do not say what a file system allows.
    """
    place = next(path for path in (directory, *directory.parents) if os.path.lexists(path))
    try:
        tempfile.TemporaryFile(dir=place).close()
    except OSError as error:
        rule = f"cannot be written: {'' if place == directory else f'{place}: '}{error.strerror}"
        raise ConfigError(
            Problem(rule, key=key, file=str(directory), advice="name another place, or make this one writable")
        ) from error


def refuse_target(path: Path, key: str) -> None:
    """Raises ConfigError where no file can be published at `path`. key: what names it."""
    if path.is_dir():
        raise ConfigError(Problem("is a directory, and names a file to write", key=key, file=str(path)))
    refuse_unwritable(path.absolute().parent, key)


def _faults(run_dir: Path, state_dir: Path) -> Iterator[str]:
    if not str(run_dir).isprintable():
        yield "has characters that do not print, which neither labels nor logs can hold"
        return
    names = [len(name.encode()) for name in run_dir.parts]
    if sum(names) > MOST_PATH_BYTES or max(names) > MOST_NAME_BYTES:
        yield f"is longer than {MOST_PATH_BYTES} bytes, or {MOST_NAME_BYTES} in one name"
        return
    place = Path(os.path.normpath(run_dir))
    if place.parent == place:
        yield "is the root of the file system"
    if place.is_relative_to(state_dir):
        yield f"lies in {state_dir}, where checkpoints of embedded services are"
    if (above := _no_directory(place)) is not None:
        yield f"cannot be made: {above} is no directory"
    elif not (place / FILE).exists() and (run := _run_in(place)) is not None:
        yield f"holds runs itself, such as {run.name}"


def _no_directory(place: Path) -> Path | None:
    """What is in the way of a directory; a part that cannot be looked at is left to the attempt."""
    for path in (place, *place.parents):
        try:
            if os.path.lexists(path):
                return None if path.is_dir() else path
        except OSError:
            return None
    return None


def _run_in(place: Path) -> Path | None:
    try:
        return next((path for path in sorted(place.iterdir()) if (path / FILE).is_file()), None)
    except OSError:
        return None
