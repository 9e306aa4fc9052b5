"""Reads the row logs of a run directory and judges every row: the one door through which a row comes back into a run.

A row says where a start goes on, which files it reads and deletes, and what a receipt tells. So a row that is not what its model
says is refused with file, line, key and rule, before anything is touched; what a crash tore was never written.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

from pydantic import ConfigDict, Field, ValidationError

from platoon.artifacts.row_log import read_json_lines
from platoon.config.model import ConfigModel
from platoon.config.problems import from_validation_error
from platoon.errors import ConfigError, Problem

# No run makes so many steps, versions or tokens: beyond it a number is damage, and text and arithmetic on it go wrong.
MOST = 10**15
MOST_PROBLEMS = 10

Count = Annotated[int, Field(ge=0, le=MOST)]
Text = Annotated[str, Field(pattern=r"^[^\x00-\x1f\x7f]{1,4096}$")]


class Row(ConfigModel):
    """A row of a log. Keys that the model does not name are anybody's."""

    model_config = ConfigDict(extra="allow")


def read_rows(path: Path, model: type[Row], advice: str) -> list[dict[str, Any]]:
    """The rows of a log in order, as they were written; [] without a file.

    advice: what a person can do about a row. Raises ConfigError with the problems of every row that is none of `model`.
    """
    rows: list[dict[str, Any]] = []
    problems: list[Problem] = []
    for line in read_json_lines(path):
        file = f"{path}:{line.number}"
        if not isinstance(line.value, dict):
            problems.append(Problem(f"must be an object, is a {type(line.value).__name__}", file=file, advice=advice))
            continue
        try:
            model.model_validate(line.value)
        except ValidationError as error:
            found = from_validation_error(error, model, line.value, lambda key, file=file: file)  # type: ignore[misc]
            problems += [Problem(item.rule, item.key, item.file, item.advice or advice) for item in found]
        else:
            rows.append(line.value)
    if len(problems) > MOST_PROBLEMS:
        more = Problem(f"{len(problems) - MOST_PROBLEMS} more faults", file=str(path))
        problems = [*problems[:MOST_PROBLEMS], more]
    if problems:
        raise ConfigError(problems)
    return rows
