"""Locks the data of a resolved configuration: contents into the cache, digests of Harbor datasets and conversations into a file.

`datasets.lock.json` names each Harbor lock by its digest; the locks themselves stay in the cache, by digest.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from platoon.artifacts.canonical import canonical_digest, read_json
from platoon.artifacts.digests import DataError, file_digest
from platoon.artifacts.publish import publish_bytes
from platoon.artifacts.reading import read_regular
from platoon.artifacts.store import Store
from platoon.config.files import named_path
from platoon.config.text import printable, short_path
from platoon.envs.harbor.content import HASH_ERRORS, fault_text, read_contents, tree_problems
from platoon.envs.harbor.fetch import Fetched
from platoon.envs.harbor.options import HarborOptions
from platoon.envs.harbor.publish import HarborCache, cache_problems
from platoon.envs.harbor.selection import unknown_tasks
from platoon.envs.harbor.sources.directory import DirectorySource
from platoon.envs.harbor.sources.protocol import FetchTools, Recorded
from platoon.envs.harbor.splits import Splits, split_lock
from platoon.errors import ConfigError, NotPreparedError, Problem
from platoon.harness.spec import load_spec
from platoon.host.console import Console, near
from platoon.pipeline.datasets import (
    cache_writes,
    entry_locks,
    exclusion_problems,
    fetch_tools,
    locked_dataset,
    of_entry,
    recorded_datasets,
    say_odd_splits,
    say_unserved,
    say_warnings,
)
from platoon.pipeline.providers import check_providers
from platoon.pipeline.resolve import ResolvedConfig
from platoon.pipeline.sources import is_spec, written_paths
from platoon.site import Site
from platoon.train.trainer.sft_data import read_conversations

RULE = "platoon-datasets-v1"
CHAT_KIND = "chat"
HARNESSES = "harnesses"
CHAT_LIMIT_BYTES = 16 * 1024 * 1024 * 1024


def lock_datasets(
    resolved: ResolvedConfig, base: Path, site: Site, console: Console, recorded: Mapping[str, Recorded] | None = None
) -> dict[str, Any]:
    """The value of `datasets.lock.json`. recorded: what sources were when they were locked, by environment.

    Raises ConfigError with the problems of every entry; then nothing is half-written.
    """
    check_providers(resolved.harbor_entries())
    problems: list[Problem] = []
    tools = fetch_tools(site, console)
    harbor: list[dict[str, Any]] = []
    for number, label, entry in resolved.harbor_entries():
        console.progress("lock", f"environment {label}")
        try:
            harbor.append(_harbor_entry((number, label), entry, base, tools, (recorded or {}).get(label)))
        except ConfigError as error:
            problems.extend(of_entry(error.problems, number, resolved.file))
    chat: list[dict[str, Any]] = []
    for _, text in written_paths({**resolved.values, "environments": []}):
        console.progress("lock", text)
        try:
            chat.append(_chat_entry(text, base, site))
        except ConfigError as error:
            problems.extend(error.problems)
    try:
        harnesses = harness_entries(resolved, base)
    except ConfigError as error:
        problems.extend(error.problems)
    if problems:
        raise ConfigError(problems)
    found = {"rule": RULE, "harbor": harbor, "chat": chat}
    return {**found, HARNESSES: harnesses} if harnesses else found


def harness_entries(resolved: ResolvedConfig, base: Path) -> list[dict[str, str]]:
    """Digest of what each harness spec of an entry says, comments and layout left out. Raises ConfigError with every problem."""
    found: list[dict[str, str]] = []
    problems: list[Problem] = []
    for number, entry in enumerate(resolved.values.get("environments", ())):
        if not is_spec(entry.get("harness")):
            continue
        try:
            content = load_spec(named_path(entry["harness"], base)).content()
        except ConfigError as error:
            key = f"environments.{number}.harness"
            problems += [Problem(str(problem), key=key, file=resolved.file) for problem in error.problems]
        else:
            found.append({"environment": entry.get("name") or "default", "digest": canonical_digest(content)})
    if problems:
        raise ConfigError(problems)
    return found


def check_harnesses(resolved: ResolvedConfig, datasets: Mapping[str, Any], base: Path) -> None:
    """Raises NotPreparedError when a harness spec says something else than when it was locked."""
    locked = {entry["environment"]: entry["digest"] for entry in datasets.get(HARNESSES, ())}
    for entry in harness_entries(resolved, base):
        if locked.get(entry["environment"]) != entry["digest"]:
            rule = f"environment {entry['environment']}: its harness spec says something else than when it was locked"
            raise NotPreparedError(Problem(rule, advice="run platoon prepare"))


def read_datasets(path: Path) -> dict[str, Any]:
    """The value of a `datasets.lock.json`. Raises ConfigError."""
    value = read_json(path, "lock of datasets")
    if not isinstance(value, dict) or value.get("rule") != RULE:
        raise ConfigError(Problem(f"is no lock of datasets of rule {RULE}", file=str(path), advice="run platoon lock again"))
    return value


def restore(resolved: ResolvedConfig, datasets: Mapping[str, Any], base: Path, site: Site, console: Console) -> bool:
    """Fetches again what the cache no longer holds, such as after it was emptied or with another site; True when it had to.

    Raises NotPreparedError when the data is no longer what was locked.
    """
    if not cache_lacks(datasets, site):
        return False
    console.say(f"the cache in {near(site.cache)} lacks data of these inputs: fetching it again")
    found = lock_datasets(resolved, base, site, console, recorded_datasets(datasets, site))
    if found == datasets:
        return True
    changed = [
        entry.get("environment") or entry["path"]
        for key in ("harbor", "chat")
        for entry in found[key]
        if entry not in datasets[key]
    ]
    rule = f"{', '.join(changed)}: the data is no longer what was locked, and the cache in {near(site.cache)} does not hold it"
    raise NotPreparedError(Problem(rule, advice="run platoon prepare"))


def cache_lacks(datasets: Mapping[str, Any], site: Site) -> bool:
    """Whether `restore` would have to fetch anything."""
    cache = HarborCache(site.harbor_cache)
    if not all(chat_path(site, entry["digest"]).is_file() for entry in datasets["chat"]):
        return True
    return any(
        lock is None or any(cache_problems((row.digest for row in lock.tasks), cache)) for _, lock in entry_locks(datasets, cache)
    )


def entry_summary(fetched: Fetched, splits: Splits, label: str) -> dict[str, Any]:
    """What `platoon harbor fetch --json` prints for an entry, without `fetched` and the lock's path."""
    lock = fetched.lock
    summary = {"environment": label, "lock_digest": lock.digest, "tasks": len(lock.tasks), "runnable": len(lock.runnable)}
    return {**summary, "holdout": splits.holdout} if splits.holdout is not None else summary


def _harbor_entry(
    place: tuple[int, str], entry: Mapping[str, Any], base: Path, tools: FetchTools, recorded: Recorded | None
) -> dict[str, Any]:
    number, label = place
    key = f"environments.{number}.service_kwargs"
    options = HarborOptions.parse(entry["service_kwargs"], key=key)
    if not options.is_locked:
        found = _unlocked(options, base)
        known = {
            task.id for path in found["directories"] for task in DirectorySource(path, named_path(path, base)).dataset.list_tasks()
        }
        excluded = entry.get("exclude_tasks", ())
        if unknown := list(unknown_tasks(excluded, known, f"environments.{number}.exclude_tasks", ", ".join(found["directories"]))):
            raise ConfigError(unknown)
        return {"environment": label, **found}
    fetched = locked_dataset(options, base, tools, recorded=recorded)
    say_warnings(tools.say, label, fetched.warnings)
    excluded = set(entry.get("exclude_tasks", ()))
    if problems := [*exclusion_problems(fetched.lock, entry, number), *_task_problems(fetched, excluded, key)]:
        raise ConfigError(problems)
    splits = split_lock(fetched.lock, options, base)
    say_odd_splits(tools.say, label, splits.without(excluded))
    say_unserved(tools.say, label, fetched.lock, tools.cache, excluded)
    summary = {"dataset": fetched.lock.dataset, "resolved": fetched.lock.resolved, **entry_summary(fetched, splits, label)}
    if splits.named is not None and splits.holdout is None:
        summary["splits"] = {name: list(ids) for name, ids in splits.named.items()}
    return summary


def _task_problems(fetched: Fetched, excluded: set[str], key: str) -> Iterator[Problem]:
    """A task of one's own directory that cannot load is a fault to mend, not a refusal to live with."""
    dataset = fetched.lock.dataset
    is_own = fetched.lock.source.get("kind") == "directory"
    for row in fetched.lock.tasks:
        if is_own and row.refused is not None and row.refused.startswith("task_config:") and row.name not in excluded:
            advice = "mend the task, or name it in exclude_tasks"
            yield Problem(row.refused.removeprefix("task_config: "), file=f"{dataset}/{row.source_path}", advice=advice)
    if not fetched.lock.runnable:
        reasons = sorted({str(row.refused).partition(":")[0] for row in fetched.lock.tasks})
        yield Problem(f"no task can run: all are {', '.join(reasons)}", key=f"{key}.dataset", file=dataset)


def _unlocked(options: HarborOptions, base: Path) -> dict[str, Any]:
    """Directories that are served as they are: their contents enter the digest of the inputs all the same."""
    paths = options.task_dirs if options.task_dirs is not None else [str(options.dataset_dir)]
    tasks: dict[str, str] = {}
    problems: list[Problem] = []
    for path in paths:
        root = named_path(path, base)
        found = [root] if (root / "task.toml").is_file() else sorted(item.parent for item in root.glob("*/task.toml"))
        for directory in found:
            shown = f"{path}/{printable(directory.name)}" if directory != root else path
            problems.extend(tree_problems(directory, shown))
            try:
                tasks[shown] = read_contents(directory).digest
            except HASH_ERRORS as error:
                problems.append(Problem(f"cannot be read: {fault_text(error, directory)}", file=shown))
        if not found:
            problems.append(Problem("holds no task", file=path, advice="a task is a directory with a task.toml"))
    if problems:
        raise ConfigError(problems)
    return {"directories": paths, "task_digests": tasks, "tasks": len(tasks)}


def _chat_entry(text: str, base: Path, site: Site) -> dict[str, Any]:
    path = named_path(text, base)
    shown = short_path(text)
    try:
        found = file_digest(path)
    except (OSError, DataError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise ConfigError(Problem(f"cannot be read: {printable(reason)}", key="trainer_options.data", file=shown)) from None
    if found.size_bytes == 0:
        raise ConfigError(Problem("is empty", key="trainer_options.data", file=shown))
    read_conversations({text: path})
    target = chat_path(site, found.digest)
    if not target.is_file() or file_digest(target).digest != found.digest:
        data = read_regular(path, None)
        with cache_writes(site.cache):
            publish_bytes(target, data)
        if file_digest(target).digest != found.digest:
            raise ConfigError(Problem("changed while it was copied", key="trainer_options.data", file=shown))
    return {"path": text, "digest": found.digest, "size_bytes": found.size_bytes}


def chat_path(site: Site, digest: str) -> Path:
    """Where a file of conversations lies in the cache."""
    return Store(site.cache).path(CHAT_KIND, digest, ".jsonl")
