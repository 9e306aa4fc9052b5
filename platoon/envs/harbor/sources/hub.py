"""A package of the Harbor Hub: resolved to its digest, and its tasks downloaded by theirs, to which they must hash."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from platoon.artifacts.digests import PREFIX, is_digest, package_digest
from platoon.config.text import counted, printable
from platoon.envs.harbor.sources.harbor_cli import PIN, HarborCli, HarborCliError
from platoon.envs.harbor.sources.listing import check_id
from platoon.envs.harbor.sources.places import make_directory, staging
from platoon.envs.harbor.sources.protocol import FetchTools, Materialised, Recorded, ReferenceSource, SourceTask
from platoon.envs.harbor.sources.reference import HubReference, is_package
from platoon.errors import ConfigError, Problem
from platoon.host.trees import remove_tree


@dataclass(frozen=True)
class HubDataset:
    """tasks: every task of the package, which for a task is itself. digest: of the package."""

    reference: str
    cli: HarborCli
    package: str
    kind: str
    ref: str
    revision: int | None
    digest: str
    tasks: tuple[SourceTask, ...]

    @property
    def resolved(self) -> str:
        return self.digest

    @property
    def source(self) -> Mapping[str, Any]:
        return {
            "kind": "hub",
            "package": self.package,
            "type": self.kind,
            "ref": self.ref,
            "revision": self.revision,
            "digest": self.digest,
        }

    def list_tasks(self) -> list[SourceTask]:
        return sorted(self.tasks, key=lambda task: task.id)

    def identify(self, tasks: Sequence[SourceTask]) -> Sequence[SourceTask]:
        return tasks

    def read_index(self, path: str) -> Any:
        rule = f"packages of the Hub have no index files, so no {printable(path)}"
        raise ConfigError(Problem(rule, key="index", file=self.reference, advice="use metadata"))

    def judge(self, tasks: Sequence[SourceTask]) -> Mapping[str, Sequence[Problem]]:
        return {}

    def materialise(self, tasks: Sequence[SourceTask]) -> Iterator[Materialised]:
        size = 4 * self.cli.tools.workers
        for start in range(0, len(tasks), size):
            batch = tasks[start : start + size]
            self.cli.tools.progress(f"downloading tasks {start + 1} to {start + len(batch)} of {len(tasks)}")
            with staging(self.cli.tools.cache) as place:
                packages = [f"{task.id}@{task.digest}" for task in batch]
                try:
                    asyncio.run(self.cli.download_all(packages, place))
                except ExceptionGroup as group:
                    raise group.exceptions[0] from None
                for task in batch:
                    assert task.digest is not None
                    directory = place / task.id / task.digest.removeprefix(PREFIX)
                    self._check(task, directory)
                    yield Materialised(task, directory)
                    remove_tree(directory)

    def _check(self, task: SourceTask, directory: Path) -> None:
        """That it is there; that it hashes to its digest is seen by whoever takes it."""
        shown = f"{self.reference}/{task.id}"
        for path in (directory.parent.parent, directory.parent, directory):
            if path.is_symlink() or not path.is_dir():
                raise ConfigError(Problem(f"the download of {task.digest} gave no such directory", file=shown))


@dataclass(frozen=True)
class HubSource(ReferenceSource[HubReference]):
    """A package of the Hub, as the Harbor CLI shows and downloads it."""

    fetched_with: str = PIN

    @contextmanager
    def resolve(self, tools: FetchTools, recorded: Recorded | None = None) -> Iterator[HubDataset]:
        make_directory(tools.cache.staging)
        cli = HarborCli.of(tools)
        ref = recorded.resolved if recorded is not None and is_digest(recorded.resolved) else self.parsed.ref
        package = self.parsed.package
        version = cli.show(f"{package}@{ref}")
        digest = self._digest(version.get("content_hash"), "the package")
        if is_digest(ref) and digest != ref:
            raise ConfigError(Problem(f"the Hub answers with {digest}", file=self.reference))
        if version.get("yanked_at"):
            why = printable(str(version.get("yanked_reason") or "no reason is given"))
            tools.say(f"warning: {self.reference}: this version was withdrawn: {why[:200]}")
        kind = version.get("type")
        if kind not in ("task", "dataset"):
            raise HarborCliError(f"{self.reference}: the Harbor CLI says it is of type {printable(str(kind))[:40]}")
        revision = version.get("revision")
        if self.parsed.kind == "revision" and ref == self.parsed.ref and revision not in (None, int(ref)):
            raise HarborCliError(f"{self.reference}: the Hub answers with revision {printable(str(revision))[:40]}")
        tasks = (
            (SourceTask(package, package, digest=digest),) if kind == "task" else self._tasks(cli, f"{package}@{digest}", digest)
        )
        yield HubDataset(
            self.reference, cli, package, kind, self.parsed.ref, revision if isinstance(revision, int) else None, digest, tasks
        )

    def _tasks(self, cli: HarborCli, package: str, digest: str) -> tuple[SourceTask, ...]:
        version = cli.show(package, "--tasks", "--files")
        rows = version.get("tasks")
        if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
            raise HarborCliError(f"{self.reference}: the Harbor CLI lists no tasks")
        hidden = sum(1 for row in rows if not row.get("task_version") or row.get("available") is False)
        if hidden:
            advice = "log in with the Harbor CLI as who may see them"
            raise ConfigError(
                Problem(f"{hidden} of its {counted(len(rows), 'task')} are not open to you", file=self.reference, advice=advice)
            )
        tasks = tuple(self._task(row["task_version"]) for row in rows)
        if len({task.id for task in tasks}) != len(tasks):
            raise ConfigError(Problem("lists a task twice", file=self.reference))
        files = version.get("files") or []
        try:
            listed = {str(file["path"]): self._digest(file["content_hash"], "a file") for file in files}
        except (TypeError, KeyError):
            raise HarborCliError(f"{self.reference}: the Harbor CLI lists no files") from None
        made = package_digest([str(task.digest) for task in tasks], listed)
        if made != digest:
            raise ConfigError(Problem(f"its list of tasks hashes to {made}, not to its digest {digest}", file=self.reference))
        return tasks

    def _task(self, version: Any) -> SourceTask:
        try:
            name = f"{version['package']['org']['name']}/{version['package']['name']}"
            digest = self._digest(version["content_hash"], "a task")
        except (TypeError, KeyError):
            raise HarborCliError(f"{self.reference}: the Harbor CLI lists a task without name or digest") from None
        # The name becomes an argument and a path.
        if not is_package(name):
            raise HarborCliError(f"{self.reference}: the Harbor CLI lists a task called {printable(name)[:80]}")
        return SourceTask(check_id(self.reference, name), name, digest=digest)

    def _digest(self, text: Any, what: str) -> str:
        digest = f"{PREFIX}{str(text).removeprefix(PREFIX)}"
        if not is_digest(digest):
            raise HarborCliError(f"{self.reference}: the Harbor CLI gives {what} no digest")
        return digest
