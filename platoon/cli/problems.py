"""Problems as the command line tells them: each with the file it is of, several as an even list."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from platoon.config.text import counted
from platoon.errors import ConfigError, PlatoonError

MOST_TOLD = 100


def told(error: PlatoonError) -> str:
    """One fault behind the program's name; of several their number, then each on a line of its own, as many as a person reads."""
    problems = error.problems if isinstance(error, ConfigError) else ()
    if len(problems) <= 1:
        return f"platoon: {error}"
    lines = [f"platoon: {counted(len(problems), 'problem')}", *map(str, problems[:MOST_TOLD])]
    return "\n".join(lines if len(problems) <= MOST_TOLD else [*lines, f"and {len(problems) - MOST_TOLD} more"])


@contextmanager
def of_configuration(config: Path, overrides: Iterable[str]) -> Iterator[None]:
    """Gives each problem of one of CONFIG's keys that names no file the one that sets the key, or `command line`.

    What is found when a run is put together knows values and keys, and not where they were written.
    """
    from platoon.config.load import try_load
    from platoon.pipeline.kinds import kind_of, model_of

    try:
        yield
    except ConfigError as error:
        loaded, faults = try_load(config, overrides)
        if faults:
            raise
        keys = model_of(kind_of(loaded.values, config)).model_fields
        paths = [tuple(problem.key.split(".")) for problem in error.problems]
        raise type(error)(
            replace(problem, file=loaded.file_of(path)) if not problem.file and path[0] in keys else problem
            for path, problem in zip(paths, error.problems, strict=True)
        ) from error
