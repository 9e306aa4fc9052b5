"""Which tasks a tree of files holds, and what its index files say of them: the same for a directory, a commit and a repository.

In order of preference tasks are those that `registry.json` names, those that `task-index.json` names, else every directory that
holds something called `task.toml`, in whatever case: what cannot be a task is refused by its name then, not passed over. The tree
is anybody's: each path is checked before it is used.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any, Protocol

from platoon.artifacts.reading import parse_json, parse_toml
from platoon.config.text import short_path, show
from platoon.envs.harbor.format import TOML_LIMIT_BYTES
from platoon.envs.harbor.names import id_fault, path_fault
from platoon.envs.harbor.sources.protocol import SourceTask
from platoon.errors import ConfigError, Problem

INDEX_LIMIT_BYTES = 64 * 1024 * 1024
TASK_LIMIT = 200_000
# Mappings and lists of one index file: an empty one takes twenty times its text in memory.
HOLDER_LIMIT = 10 * TASK_LIMIT
TASK_FILE = "task.toml"
REGISTRY_FILE = "registry.json"
INDEX_FILE = "task-index.json"
SKIPPED_DIRECTORIES = frozenset({"__pycache__"})


class Tree(Protocol):
    """A dataset's files, by POSIX path relative to its root."""

    @property
    def reference(self) -> str: ...

    def read(self, path: str) -> bytes | None:
        """The bytes of a file of at most INDEX_LIMIT_BYTES, None where there is none. Raises ConfigError."""
        ...

    def task_directories(self) -> Iterable[str]:
        """Directories with what `is_task_file` names, none inside another, hidden and skipped ones left out; "." for the root."""
        ...

    def own_name(self) -> str:
        """What the tree itself is called, for a dataset that is one task without a name."""
        ...


@dataclass(frozen=True)
class Listed:
    """by_index: the tasks are what an index file names, and their directories were not looked at."""

    tasks: tuple[SourceTask, ...]
    by_index: bool


def list_tree(tree: Tree) -> Listed:
    """The tasks of a tree in order of id. Raises ConfigError."""
    if tree.read(TASK_FILE) is not None:
        return Listed((SourceTask(_single_id(tree), "."),), by_index=False)
    listed = _from_registry(tree)
    index = _task_index(tree)
    named_by = f"{tree.reference}/{REGISTRY_FILE if listed is not None else INDEX_FILE}"
    if listed is None and index:
        listed = {name: _task_path(named_by, name, fields.get("task_path", name)) for name, fields in index.items()}
    by_index = listed is not None
    if listed is None:
        listed, named_by = _scan(tree), ""
    if not listed:
        raise fault(tree, "holds no task", advice="a task is a directory with a task.toml")
    tasks = []
    for name, path in sorted(listed.items()):
        fields = {key: value for key, value in index.get(name, {}).items() if key != "task_path"}
        shown_as = named_by or tree.reference
        tasks.append(SourceTask(check_id(shown_as, name), check_path(shown_as, path), fields, named_by=named_by))
    return Listed(tuple(tasks), by_index)


def read_index(tree: Tree, path: str) -> Any:
    """The value of an index file that an entry names. Raises ConfigError."""
    advice = "a file of index: is one of the dataset, and named relative to it"
    data = tree.read(check_path(tree.reference, path, "an index file's path", advice))
    file = f"{tree.reference}/{path}"
    if data is None:
        raise ConfigError(Problem("cannot be read: no such file", file=file, advice=advice))
    return parse_index(file, data, by_rows=path.endswith(".jsonl"))


def parse_index(file: str, data: bytes, *, by_rows: bool = False) -> Any:
    """The value of JSON, or those of its lines. file: as messages call it. Raises ConfigError."""
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ConfigError(Problem(f"is not UTF-8 (byte {error.start})", file=file)) from None
    if text.count("{") + text.count("[") > HOLDER_LIMIT:
        raise ConfigError(Problem(f"holds more than {HOLDER_LIMIT} mappings and lists", file=file))
    if by_rows:
        return [_parse(file, line, f"line {number}") for number, line in enumerate(text.split("\n"), 1) if line.strip()]
    return _parse(file, text)


def dataset_tasks(file: str, key: str, dataset: Any) -> list[Mapping[str, Any]]:
    """The `tasks` of one dataset of a registry file, each with a name and a path. Raises ConfigError."""
    tasks = dataset.get("tasks") if isinstance(dataset, dict) else dataset
    if not isinstance(tasks, list) or not isinstance(dataset, dict):
        raise ConfigError(Problem(f"must list datasets with their tasks, got {show(tasks)}", key=key, file=file))
    names: set[str] = set()
    for number, task in enumerate(tasks):
        if not isinstance(task, dict) or not isinstance(task.get("name"), str) or not isinstance(task.get("path"), str):
            where = f"{key}.tasks.{number}".lstrip(".")
            raise ConfigError(Problem(f"a task has a name and a path, both texts, got {show(task)}", key=where, file=file))
        if task["name"] in names:
            raise ConfigError(Problem(f"two tasks are called {short_path(task['name'])}", key=key, file=file))
        names.add(task["name"])
    return tasks


def check_id(reference: str, name: str) -> str:
    """Raises ConfigError for a task id that is no name, whatever source it is of."""
    if (why := id_fault(name)) is not None:
        raise ConfigError(Problem(f"a task's id {why}", key=short_path(name), file=reference, advice="rename it"))
    return name


def check_path(reference: str, path: str, what: str = "a task's path", advice: str = "") -> str:
    """The path without `.` and doubled slashes. Raises ConfigError for one that is no name, or leaves the dataset."""
    if (why := path_fault(path)) is not None:
        raise ConfigError(Problem(f"{what} {why}", key=short_path(path), file=reference, advice=advice))
    return str(PurePosixPath(path))


def fault(tree: Tree, rule: str, key: str = "", advice: str = "") -> ConfigError:
    return ConfigError(Problem(rule, key=key, file=tree.reference, advice=advice))


def is_task_file(name: str) -> bool:
    """Whether a name in a directory says that a task was meant."""
    return name.lower() == TASK_FILE


def outermost_tasks(task_files: Iterable[str]) -> Iterator[str]:
    """The directories of task files that lie in no other task's and in no hidden or skipped one."""
    ends = (path[: -len(TASK_FILE)] for path in task_files if path.lower().endswith(f"/{TASK_FILE}"))
    outer = None
    # With the slash that ends it a directory comes just before all that is below it.
    for directory in sorted(ends):
        if outer is not None and directory.startswith(outer):
            continue
        outer = directory
        if not any(part.startswith(".") or part in SKIPPED_DIRECTORIES for part in directory.rstrip("/").split("/")):
            yield directory.rstrip("/")


def _single_id(tree: Tree) -> str:
    data = tree.read(TASK_FILE) or b""
    try:
        # A longer one is refused when the task is taken.
        name = parse_toml(data[:TOML_LIMIT_BYTES].decode("utf-8")).get("task", {}).get("name")
    except (ValueError, AttributeError):
        name = None
    return check_id(tree.reference, name if isinstance(name, str) and name else tree.own_name())


def _from_registry(tree: Tree) -> dict[str, str] | None:
    data = tree.read(REGISTRY_FILE)
    if data is None:
        return None
    file = f"{tree.reference}/{REGISTRY_FILE}"
    value = parse_index(file, data)
    datasets = [value] if isinstance(value, dict) else value
    listed: dict[str, str] = {}
    for number, dataset in enumerate(datasets) if isinstance(datasets, list) else [("", datasets)]:
        for task in dataset_tasks(file, str(number) if isinstance(value, list) else "", dataset):
            name = task["name"]
            if task.get("git_url"):
                advice = "name the registry file instead: dataset: harbor://name@version with registry:"
                rule = f"task {short_path(name)} is in another repository (git_url)"
                raise ConfigError(Problem(rule, file=file, advice=advice))
            if name in listed:
                raise ConfigError(Problem(f"two tasks are called {short_path(name)}", file=file))
            listed[name] = task["path"]
    return listed


def _task_index(tree: Tree) -> dict[str, dict[str, Any]]:
    data = tree.read(INDEX_FILE)
    if data is None:
        return {}
    file = f"{tree.reference}/{INDEX_FILE}"
    value = parse_index(file, data)
    odd = value if not isinstance(value, dict) else {name: row for name, row in value.items() if not isinstance(row, dict)}
    if odd or not isinstance(value, dict):
        raise ConfigError(Problem(f"must map task ids to their fields, got {show(odd)}", file=file))
    return value


def _task_path(file: str, name: str, path: Any) -> str:
    if not isinstance(path, str):
        raise ConfigError(Problem(f"must be text, got {show(path)}", key=f"{short_path(name)}.task_path", file=file))
    return path


def _scan(tree: Tree) -> dict[str, str]:
    found: dict[str, str] = {}
    for path in tree.task_directories():
        found[path] = path
        if len(found) > TASK_LIMIT:
            raise fault(tree, f"holds more than {TASK_LIMIT} tasks")
    return found


def _parse(file: str, text: str, key: str = "") -> Any:
    try:
        return parse_json(text, unique_keys=True, finite=True)
    except ValueError as error:
        raise ConfigError(Problem(f"is not JSON: {str(error)[:200]}", key=key, file=file)) from None
