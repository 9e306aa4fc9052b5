"""Which tasks of a dataset an entry takes: allowlists, then index fields, then order of id. Pure but for reading allowlists."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Collection, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from platoon.artifacts.digests import hex_of, sha256_bytes
from platoon.artifacts.reading import parse_json, parse_toml
from platoon.config.files import named_path, read_bytes
from platoon.config.model import closest, did_you_mean
from platoon.config.text import few, printable, show
from platoon.envs.harbor.options import SELECT_ADVICE, SELECTED_FIRST, HarborOptions, IndexFile, IndexMetadata
from platoon.envs.harbor.sources.protocol import Dataset, SourceTask
from platoon.errors import ConfigError, Problem

LIST_LIMIT_BYTES = 64 * 1024 * 1024
# An id may hold the sign.
_COMMENT = re.compile(r"(?:^|\s)#")


@dataclass(frozen=True)
class Allowlist:
    """An allowlist file. path: as the configuration writes it; digest: bare SHA-256 hex of its bytes."""

    path: str
    digest: str
    ids: frozenset[str]


def read_allowlists(options: HarborOptions, base: Path) -> list[Allowlist]:
    """The files of `tasks:`. Raises ConfigError with the problems of all of them."""
    lists: list[Allowlist] = []
    problems: list[Problem] = []
    for path in options.task_files:
        try:
            data = read_list_file(named_path(path, base), path)
            ids = frozenset(_ids(data, path))
            if not ids:
                raise ConfigError(Problem("lists no task", key="tasks", file=path))
            lists.append(Allowlist(path, hex_of(sha256_bytes(data)), ids))
        except ConfigError as error:
            problems.extend(error.problems)
    if problems:
        raise ConfigError(problems)
    return lists


def add_index_files(
    tasks: Sequence[SourceTask], options: HarborOptions, dataset: Dataset, shown_as: str, say: Callable[[str], None]
) -> list[SourceTask]:
    """Tasks with the fields of `index:` files laid over what their dataset says of them. say: told of a file that adds nothing."""
    fields: dict[str, dict[str, Any]] = {task.id: dict(task.index) for task in tasks}
    for item in options.index:
        if isinstance(item, IndexMetadata):
            continue
        wanted = IndexFile(path=item) if isinstance(item, str) else item
        rows = _index_rows(dataset.read_index(wanted.path), wanted, shown_as)
        for why in _idle(rows, wanted, fields):
            say(f"warning: {shown_as}: index {printable(wanted.path)}: {why}")
        for name, row in rows.items():
            if name in fields:
                fields[name].update(row)
    return [replace(task, index=fields[task.id]) for task in tasks]


def select(tasks: Sequence[SourceTask], options: HarborOptions, lists: Sequence[Allowlist], shown_as: str) -> list[SourceTask]:
    """The selected tasks in order of id. Raises ConfigError for ids and fields that are not there, and for an empty selection."""
    known = {task.id for task in tasks}
    problems = [problem for item in lists for problem in unknown_tasks(item.ids, known, f"tasks ({item.path})", shown_as)]
    chosen = [task for task in tasks if not lists or any(task.id in item.ids for item in lists)]
    for key, wanted in options.select.items():
        name = key.removeprefix("index.")
        if name != "name" and not any(name in task.index for task in tasks):
            later = name in options.metadata_fields
            rule, advice = (SELECTED_FIRST, SELECT_ADVICE) if later else ("no task has this field", "")
            problems.append(Problem(rule, key=f"select.{key}", file=shown_as, advice=advice))
            continue
        values = wanted if isinstance(wanted, list) else [wanted]
        problems += _idle_values(tasks, name, values, f"select.{key}", shown_as)
        chosen = [task for task in chosen if _matches(task, name, values)]
    if not chosen and not problems:
        problems.append(Problem("no task is selected", key="select" if options.select else "tasks", file=shown_as))
    if problems:
        raise ConfigError(problems)
    return sorted(chosen, key=lambda task: task.id)


def unknown_tasks(names: Iterable[str], known: Collection[str], key: str, shown_as: str) -> Iterator[Problem]:
    """A problem for ids that no task has. shown_as: where the tasks are."""
    if unknown := sorted(set(names).difference(known)):
        yield Problem(f"no task is called {few(unknown)}", key=key, file=shown_as, advice=did_you_mean(unknown[0], known))


def add_metadata(index: Mapping[str, Any], metadata: Mapping[str, Any], names: Iterable[str], task: str) -> dict[str, Any]:
    """An index with scalars of a task's metadata. Raises ConfigError for another kind of value, or one the index contradicts."""
    result = dict(index)
    for name in names:
        if name not in metadata:
            continue
        value = metadata[name]
        if not isinstance(value, str | int | float | bool) or (isinstance(value, float) and not math.isfinite(value)):
            raise ConfigError(Problem(f"task {task}: metadata.{name} is no scalar that JSON has", key="index"))
        if name in result and result[name] != value:
            raise ConfigError(Problem(f"task {task}: metadata.{name} is {value!r}, the index says {result[name]!r}", key="index"))
        result[name] = value
    return result


def read_list_file(path: Path, shown_as: str) -> bytes:
    """The bytes of a list file. Raises ConfigError."""
    return read_bytes(path, limit_bytes=LIST_LIMIT_BYTES, shown_as=shown_as)


def read_mapping(data: bytes, shown_as: str, named_by: str) -> Any:
    """The value of a list file: TOML where its name ends in `.toml`, else JSON. named_by: the option. Raises ConfigError."""
    is_toml = shown_as.endswith(".toml")
    try:
        return parse_toml(data) if is_toml else parse_json(data, unique_keys=True)
    except ValueError as error:
        rule = f"is not {'TOML' if is_toml else 'JSON'}: {str(error)[:200]}"
        advice = f"{named_by} takes TOML from a file whose name ends in .toml, else JSON"
        raise ConfigError(Problem(rule, file=shown_as, advice=advice)) from None


def _ids(data: bytes, shown_as: str) -> list[str]:
    if shown_as.endswith((".json", ".toml")):
        value = read_mapping(data, shown_as, "tasks")
        parts = list(value.values()) if isinstance(value, dict) else [value]
        if not all(isinstance(part, list) and all(isinstance(name, str) for name in part) for part in parts):
            raise ConfigError(Problem("must be a list of task ids, or split names with lists of them", file=shown_as))
        return [name for part in parts for name in part]
    try:
        lines = data.decode("utf-8-sig").splitlines()
    except UnicodeDecodeError as error:
        raise ConfigError(Problem(f"is not UTF-8 (byte {error.start})", file=shown_as)) from None
    return [name for line in lines if (name := _COMMENT.split(line, maxsplit=1)[0].strip())]


def _index_rows(value: Any, wanted: IndexFile, reference: str) -> dict[str, dict[str, Any]]:
    """Task ids to the fields that are taken. Raises ConfigError."""
    if isinstance(value, dict) and all(isinstance(row, dict) for row in value.values()):
        return {name: _taken(row, wanted) for name, row in value.items()}
    if not isinstance(value, list) or not all(isinstance(row, dict) and isinstance(row.get(wanted.key), str) for row in value):
        rule = f"must map task ids to fields, or list rows that name their task under {wanted.key}"
        raise ConfigError(Problem(rule, key=wanted.path, file=reference))
    rows: dict[str, dict[str, Any]] = {}
    places: dict[str, int] = {}
    for number, row in enumerate(value, 1):
        name = row[wanted.key]
        fields = _taken({key: field for key, field in row.items() if key != wanted.key}, wanted)
        # As JSON, where `true` is not 1.
        if name in rows and json.dumps(rows[name], sort_keys=True) != json.dumps(fields, sort_keys=True):
            rule = f"rows {places[name]} and {number} give task {printable(name)} different values"
            raise ConfigError(Problem(rule, key=wanted.path, file=reference, advice="leave one of them"))
        rows[name] = fields
        places.setdefault(name, number)
    return rows


def _taken(row: Mapping[str, Any], wanted: IndexFile) -> dict[str, Any]:
    return {key: value for key, value in row.items() if wanted.fields is None or key in wanted.fields}


def _idle(rows: Mapping[str, Mapping[str, Any]], wanted: IndexFile, known: Container[str]) -> Iterator[str]:
    """Why an index file, or a field that it is to give, adds nothing."""
    used = [row for name, row in rows.items() if name in known]
    if not used:
        yield "no row is of a task of the dataset"
        return
    there = {key for row in used for key in row}
    if missing := [name for name in wanted.fields or () if name not in there]:
        yield f"no row of a task has the field {few(missing)}"


def _idle_values(tasks: Sequence[SourceTask], name: str, values: Sequence[Any], key: str, shown_as: str) -> Iterator[Problem]:
    """A problem for each value of a selection that no task of the whole dataset has: it was meant for some."""
    for value in values:
        if not any(_matches(task, name, [value]) for task in tasks):
            there = (task.id if name == "name" else task.index[name] for task in tasks if name == "name" or name in task.index)
            known = {_bare(item): show(item) for item in there}
            near = closest(_bare(value), known)
            rule = f"no task is called {show(value)}" if name == "name" else f"no task has the value {show(value)}"
            yield Problem(rule, key=key, file=shown_as, advice=f"did you mean {known[near]}?" if near is not None else "")


def _bare(value: Any) -> str:
    """A value as it may have been meant: text without quotes, which `show` gives it so that "1" is not taken for 1."""
    return value if isinstance(value, str) else json.dumps(value)


def _matches(task: SourceTask, name: str, values: Sequence[Any]) -> bool:
    if name == "name":
        return any(fnmatchcase(task.id, str(value)) for value in values)
    # Types must agree: `true` in a configuration is not the 1 of an index.
    return any(type(task.index.get(name)) is type(value) and task.index[name] == value for value in values)
