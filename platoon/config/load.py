"""Loads a configuration file into a model: `extends`, overrides, then every problem in one ConfigError.

load_model(TrainerConfig, Path("rl.yaml"), ["train.batch_size=8"])
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from platoon.config.files import named_path
from platoon.config.layers import COMMAND_LINE, Layered
from platoon.config.yaml import read_yaml
from platoon.errors import ConfigError, Problem

if TYPE_CHECKING:
    from pydantic import BaseModel, ValidationError

EXTENDS_LIMIT = 100

ModelType = TypeVar("ModelType", bound="BaseModel")


@dataclass(frozen=True)
class LoadedConfig:
    """path: the file named. values: the merged tree without `extends`. files: those named, in order of reading."""

    path: Path
    layered: Layered
    files: tuple[Path, ...]

    @property
    def values(self) -> dict[str, Any]:
        return self.layered.values

    def file_of(self, key: tuple[str, ...]) -> str:
        """The file, or `command line`, that set a key; the named file for a key nobody set."""
        return self.layered.origin(key) or str(self.path)

    def directory_of(self, *key: str) -> Path:
        """What a relative path under a key is relative to: its file's directory, the working directory for an override."""
        origin = self.layered.origin(key)
        if origin == COMMAND_LINE:
            return Path.cwd()
        return Path(origin).parent if origin else self.path.parent

    def build(self, model: type[ModelType]) -> ModelType:
        """The model of these values. Raises ConfigError with every problem."""
        value, problems = self.try_build(model)
        if problems:
            raise ConfigError(problems)
        assert value is not None
        return value

    def try_build(self, model: type[ModelType]) -> tuple[ModelType | None, list[Problem]]:
        """The model or its problems; an override is read as text where the key wants text (`trial=7`)."""
        # Late: the workflow reads which files a configuration is made of without ever building a model.
        from pydantic import ValidationError

        from platoon.config.problems import from_validation_error

        try:
            return self._validate(model), []
        except ValidationError as error:
            if self._read_overrides_as_text(error):
                try:
                    return self._validate(model), []
                except ValidationError as second:
                    error = second
            return None, from_validation_error(error, model, self.values, self.file_of)

    def _validate(self, model: type[ModelType]) -> ModelType:
        # Through JSON: strict mode then takes lists for tuples and texts for paths, and still no text for a number.
        return model.model_validate_json(json.dumps(self.values))

    def _read_overrides_as_text(self, error: ValidationError) -> bool:
        changed = False
        for item in error.errors(include_url=False):
            path = tuple(str(part) for part in item["loc"])
            if item["type"] == "string_type" and path in self.layered.texts:
                changed |= self.layered.override_text(path)
        return changed


def load(path: Path, overrides: Iterable[str] = ()) -> LoadedConfig:
    """Reads a file, what it extends, and overrides. Raises ConfigError with every problem of reading."""
    loaded, problems = try_load(path, overrides)
    if problems:
        raise ConfigError(problems)
    return loaded


def try_load(path: Path, overrides: Iterable[str] = ()) -> tuple[LoadedConfig, list[Problem]]:
    """What can be read, files at fault named among the others, and every problem of reading."""
    layered = Layered()
    files: list[Path] = []
    problems: list[Problem] = []
    _read_layers(path, (), layered, files, problems)
    for text in overrides:
        if (problem := layered.override(text)) is not None:
            problems.append(problem)
    return LoadedConfig(path, layered, tuple(dict.fromkeys(files))), problems


def load_model(model: type[ModelType], path: Path, overrides: Iterable[str] = ()) -> ModelType:
    """Loads and builds in one go."""
    return load(path, overrides).build(model)


def _read_layers(path: Path, chain: tuple[str, ...], layered: Layered, files: list[Path], problems: list[Problem]) -> None:
    identity = os.path.realpath(path)
    if identity in chain:
        problems.append(Problem("a file extends itself, directly or through others", key="extends", file=str(path)))
        return
    if len(files) >= EXTENDS_LIMIT:
        problems.append(Problem(f"more than {EXTENDS_LIMIT} files extend each other", key="extends", file=str(path)))
        return
    files.append(path)
    if os.path.isdir(path):  # noqa: PTH112  because Path.is_dir raises for a name that is too long
        advice = f"{chain[-1]} extends it" if chain else ""
        if not chain and next(path.glob("*/task.toml"), None) is not None:
            advice = "it holds tasks: name it in one, as the dataset of an environment"
        problems.append(Problem("is a directory, and a configuration is a file", file=str(path), advice=advice))
        return
    try:
        value = read_yaml(path)
    except ConfigError as error:
        named_by = f"{chain[-1]} extends it" if chain else ""
        problems.extend(replace(problem, advice=problem.advice or named_by) for problem in error.problems)
        return
    if not isinstance(value, dict):
        kind = "nothing" if value is None else f"a {type(value).__name__}"
        problems.append(Problem(f"must hold a mapping of keys, holds {kind}", file=str(path)))
        return
    bases = _bases(value.pop("extends", None), path, problems)
    for base in bases:
        _read_layers(named_path(base, path.parent), (*chain, identity), layered, files, problems)
    layered.lay(value, str(path))


def _bases(value: Any, path: Path, problems: list[Problem]) -> Sequence[str]:
    bases = [value] if isinstance(value, str) else [] if value is None else value
    if not isinstance(bases, list) or not all(isinstance(base, str) and base and "\0" not in base for base in bases):
        problems.append(Problem("must be one path or a list of paths", key="extends", file=str(path)))
        return []
    return bases
