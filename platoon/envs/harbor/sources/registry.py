"""A dataset of a registry file: tasks in any number of repositories, each at its own commit, or in directories beside the file.

Pinned when the registry is a file, the version is named and every task names a full commit. A registry at a URL moves, since what
it serves may change, and so does a task at its repository's newest commit.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from platoon.config.addresses import is_address
from platoon.config.files import named_path
from platoon.config.text import printable
from platoon.envs.harbor.sources.directory import DirectoryDataset, DirectoryTree
from platoon.envs.harbor.sources.git import CommitTasks
from platoon.envs.harbor.sources.git_store import GitStore, open_store
from platoon.envs.harbor.sources.protocol import FetchTools, Materialised, Recorded, SourceTask
from platoon.envs.harbor.sources.reference import RegistryReference, is_commit
from platoon.envs.harbor.sources.registry_file import (
    RegisteredDataset,
    RegisteredTask,
    download_registry,
    find_dataset,
    read_registry,
)
from platoon.errors import ConfigError, Problem

FETCHED_WITH = "git"


@dataclass(frozen=True)
class RegistryDataset:
    """commits: by repository and ref as registered, what it resolved to. stores: by repository. beside: directories of the file."""

    registered: RegisteredDataset
    registry: str
    commits: Mapping[tuple[str, str | None], str]
    stores: Mapping[str, GitStore]
    beside: DirectoryDataset | None

    @property
    def resolved(self) -> str:
        return self.registered.digest

    @property
    def source(self) -> Mapping[str, Any]:
        repositories = [
            {"repo": repo, "ref": ref, "commit": commit}
            for (repo, ref), commit in sorted(self.commits.items(), key=lambda item: (item[0][0], item[0][1] or ""))
        ]
        return {
            "kind": "registry",
            "registry": self.registry,
            "name": self.registered.name,
            "version": self.registered.version,
            "digest": self.registered.digest,
            "repositories": repositories,
        }

    def list_tasks(self) -> list[SourceTask]:
        trees: dict[tuple[str, str | None], Mapping[str, str]] = {}
        listed = []
        for task in sorted(self.registered.tasks, key=lambda task: task.id):
            found = SourceTask(task.id, task.path or ".", named_by=self.registry)
            if task.repo is not None:
                key = (task.repo, task.ref)
                commit = self.commits[key]
                if key not in trees:
                    paths = {other.path for other in self.registered.tasks if (other.repo, other.ref) == key}
                    trees[key] = self.stores[task.repo].trees(commit, paths)
                tree = trees[key].get(task.path)
                content = None if tree is None else f"git-tree:{tree}"
                found = replace(found, content=content, origin={"repo": task.repo, "commit": commit})
            listed.append(found)
        return listed

    def identify(self, tasks: Sequence[SourceTask]) -> Sequence[SourceTask]:
        found = {task.id: task for task in tasks}
        for group in self._groups(tasks):
            found.update({task.id: task for task in group.identify()})
        return [found[task.id] for task in tasks]

    def read_index(self, path: str) -> Any:
        raise ConfigError(
            Problem(
                f"has no files beside its tasks, so no {printable(path)}", key="index", file=self.registry, advice="use metadata"
            )
        )

    def judge(self, tasks: Sequence[SourceTask]) -> Mapping[str, Sequence[Problem]]:
        told = {name: problems for group in self._groups(tasks) for name, problems in group.judge().items()}
        return told if self.beside is None else {**self.beside.judge(self._beside(tasks)), **told}

    def materialise(self, tasks: Sequence[SourceTask]) -> Iterator[Materialised]:
        for task in self._beside(tasks):
            assert self.beside is not None
            yield Materialised(task, self.beside.directory(task))
        for group in self._groups(tasks):
            yield from group.check_out()

    def _beside(self, tasks: Sequence[SourceTask]) -> list[SourceTask]:
        """Tasks that lie beside the registry file."""
        here = {task.id for task in self.registered.tasks if task.repo is None}
        return [task for task in tasks if task.id in here]

    def _groups(self, tasks: Sequence[SourceTask]) -> list[CommitTasks]:
        """Tasks of repositories by repository and commit."""
        registered = {task.id: task for task in self.registered.tasks}
        groups: dict[tuple[str, str], list[tuple[SourceTask, str]]] = {}
        for task in tasks:
            place = registered[task.id]
            if place.repo is not None:
                groups.setdefault((place.repo, self.commits[place.repo, place.ref]), []).append((task, place.path))
        return [CommitTasks(self.registry, self.stores[repo], commit, wanted) for (repo, commit), wanted in groups.items()]


@dataclass(frozen=True)
class RegistrySource:
    """registry: as the configuration writes it; file: where that is, None for a URL."""

    reference: str
    parsed: RegistryReference
    registry: str
    file: Path | None
    fetched_with: str = FETCHED_WITH

    @cached_property
    def registered(self) -> RegisteredDataset:
        """What the registry file says. Raises ConfigError."""
        assert self.file is not None
        return find_dataset(read_registry(self.file, self.registry), self.parsed, self.registry)

    @property
    def pinned(self) -> bool:
        return self.file is not None and self.parsed.version is not None and self.registered.pinned

    @property
    def is_local(self) -> bool:
        return self.file is not None and any(task.repo is None for task in self.registered.tasks)

    def inputs(self) -> Mapping[str, Any]:
        # What the file says is what is asked for: an edited registry is another question.
        asked: dict[str, Any] = {"registry": self.registry}
        if self.file is not None:
            asked["digest"] = self.registered.digest
        return {"registry": asked}

    @contextmanager
    def resolve(self, tools: FetchTools, recorded: Recorded | None = None) -> Iterator[RegistryDataset]:
        registered, known = self._registered(tools, recorded)
        beside = None
        if local := [task for task in registered.tasks if task.repo is None]:
            if self.file is None:
                rule = f"task {printable(local[0].id)} names no repository, and a registry at a URL has no directory"
                raise ConfigError(Problem(rule, file=self.registry))
            beside = DirectoryDataset(DirectoryTree(self.registry, self.file.parent))
        with ExitStack() as stack:
            stores: dict[str, GitStore] = {}
            commits: dict[tuple[str, str | None], str] = {}
            # In one order everywhere, so that two fetches never wait for each other.
            for repo, refs in sorted(_refs(registered.tasks).items()):
                sample = next((ref for ref in refs if ref is not None and is_commit(ref)), None)
                store = stores[repo] = stack.enter_context(open_store(repo, tools, commit=sample))
                for ref in refs:
                    commit = known.get((repo, ref)) or store.commit_of(ref)
                    store.fetch(commit)
                    commits[repo, ref] = commit
            yield RegistryDataset(registered, self.registry, commits, stores, beside)

    def _registered(
        self, tools: FetchTools, recorded: Recorded | None
    ) -> tuple[RegisteredDataset, Mapping[tuple[str, str | None], str]]:
        if self.file is not None:
            registered = self.registered
        else:
            registered = find_dataset(download_registry(self.registry, tools), self.parsed, self.registry)
        if recorded is None:
            return registered, {}
        if registered.digest != recorded.resolved:
            rule = "lists other tasks or commits than when it was locked"
            raise ConfigError(Problem(rule, file=self.registry, advice="run platoon harbor fetch CONFIG --update"))
        return registered, _recorded_commits(recorded, self.registry)


def registry_source(reference: str, parsed: RegistryReference, registry: str, base: Path) -> RegistrySource:
    """registry: a URL, or the path of a file relative to `base`."""
    file = None if is_address(registry) else named_path(registry, base)
    return RegistrySource(reference, parsed, registry, file)


def _recorded_commits(recorded: Recorded, registry: str) -> dict[tuple[str, str | None], str]:
    """What a lock says its repositories resolved to. Raises ConfigError for a lock that no fetch wrote."""
    try:
        found = {(item["repo"], item["ref"]): item["commit"] for item in recorded.source.get("repositories", ())}
    except (TypeError, KeyError, AttributeError):
        found = {("", None): ""}
    if not all(isinstance(commit, str) and is_commit(commit) for commit in found.values()):
        raise ConfigError(Problem("the lock does not say which commits it is of", file=registry, advice="fetch it with --update"))
    return found


def _refs(tasks: Sequence[RegisteredTask]) -> dict[str, list[str | None]]:
    found: dict[str, dict[str | None, None]] = {}
    for task in tasks:
        if task.repo is not None:
            found.setdefault(task.repo, {})[task.ref] = None
    return {repo: list(refs) for repo, refs in found.items()}
