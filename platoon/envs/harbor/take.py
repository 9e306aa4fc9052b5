"""From selected tasks of a dataset to rows of a lock: each task's files judged, overlaid, put into the cache, and planned there."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from platoon.artifacts.digests import HashedTask
from platoon.config.text import counted, printable
from platoon.envs.harbor import rows, selection
from platoon.envs.harbor.answers import Request
from platoon.envs.harbor.content import HASH_ERRORS, SHOWN_PROBLEMS, fault_text, read_contents, tree_problems
from platoon.envs.harbor.format import IGNORE_FILE, TaskRefused
from platoon.envs.harbor.lock import LockRow
from platoon.envs.harbor.options import Refuse
from platoon.envs.harbor.overlays import Overlay, apply_files, check_copies
from platoon.envs.harbor.publish import no_room, publish_task
from platoon.envs.harbor.reuse import Reuse
from platoon.envs.harbor.row_memo import RowMemo
from platoon.envs.harbor.rows import BuiltRow, TaskSettings
from platoon.envs.harbor.sources.places import make_directory, staging
from platoon.envs.harbor.sources.protocol import Dataset, FetchTools, Materialised, SourceTask
from platoon.errors import ConfigError, Problem

METADATA = "metadata"


@dataclass
class TakenTasks:
    """rows: in order of id. plans: stack plans by digest. copied: tasks that were not in the cache yet.

    warnings: text to how many tasks and the first of them.
    """

    rows: tuple[LockRow, ...] = ()
    plans: dict[str, Mapping[str, Any]] = field(default_factory=dict)
    copied: int = 0
    warnings: dict[str, tuple[int, str]] = field(default_factory=dict)


@dataclass(frozen=True)
class Prepared:
    """A task's files with overlays applied. refusals: why one could not be."""

    directory: Path
    contents: HashedTask
    upstream_digest: str | None = None
    refusals: tuple[str, ...] = ()


def take_tasks(request: Request, dataset: Dataset, chosen: Sequence[SourceTask], reuse: Reuse, tools: FetchTools) -> TakenTasks:
    """The rows of tasks. Raises ConfigError with the problems of all of them; what reached the cache by then stays."""
    taker = _Taker(request, reuse, tools, len(chosen), RowMemo.of(tools.cache, reads=not tools.repair))
    missing = [task for task in dataset.identify(chosen) if not taker.take_known(task)]
    # What the source itself tells against a task is told without fetching it.
    told = dataset.judge(missing)
    taker.problems.extend(problem for problems in told.values() for problem in problems)
    for item in dataset.materialise([task for task in missing if task.id not in told]):
        taker.take(item)
    taker.memo.save()
    return taker.finish()


@dataclass
class _Taker:
    request: Request
    reuse: Reuse
    tools: FetchTools
    total: int
    memo: RowMemo
    plain_key: str = ""
    taken: TakenTasks = field(default_factory=TakenTasks)
    rows: list[LockRow] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)

    @property
    def names(self) -> Sequence[str]:
        return self.request.options.metadata_fields

    def take_known(self, task: SourceTask) -> bool:
        """Takes a task that the cache has; False when it must be fetched."""
        if self.names and changing(self.request.overlays):
            # Which overlays match may depend on settings that they change themselves.
            return False
        try:
            known = self.reuse.find(task, changing(self._matched(task, task.index)))
            if known is None:
                return False
            index = self._index(task, known.directory, known.contents)
        except ConfigError as error:
            self.problems.extend(error.problems)
            return True
        settings = self._settings(task, self._matched(task, index), known.upstream_digest)
        self._add(task, known.directory, known.contents, index, settings)
        return True

    def take(self, item: Materialised) -> None:
        """Takes a task whose files are here."""
        task = item.task
        shown = f"{self.request.source.reference}/{printable(task.id)}"
        if found := list(tree_problems(item.directory, shown)):
            self.problems.extend(found)
            return
        try:
            contents = read_contents(item.directory)
            index = self._index(task, item.directory, contents)
            matched = self._matched(task, index)
            with prepared(item, contents, matched, self.tools, shown) as ready:
                if task.digest not in (None, contents.digest):
                    rule = f"its files hash to {contents.digest}, and the source says {task.digest}"
                    raise ConfigError(Problem(rule, file=shown, advice="fetch again later"))
                if not self.problems:
                    self._publish(task, ready, matched, index)
        except ConfigError as error:
            self.problems.extend(error.problems)
        except HASH_ERRORS as error:
            if (full := no_room(error, self.tools.cache.root)) is not None:
                raise full from error
            # Where a task lies while it is fetched is nobody's concern.
            self.problems.append(Problem(f"cannot be read: {fault_text(error, item.directory)}", file=shown))

    def _publish(self, task: SourceTask, ready: Prepared, matched: Sequence[Overlay], index: Mapping[str, Any]) -> None:
        digest = ready.contents.digest
        settings = self._settings(task, matched, ready.upstream_digest, ready.refusals)
        self.taken.copied += publish_task(ready.directory, ready.contents, self.tools.cache, settings.programs)
        if not ready.refusals:
            self.reuse.remember(task, changing(matched), digest, ready.upstream_digest)
        self._add(task, self.tools.cache.task(digest), ready.contents, index, settings)

    def finish(self) -> TakenTasks:
        if self.problems:
            more = len(self.problems) - SHOWN_PROBLEMS
            last = [Problem(f"and {counted(more, 'more problem')}", file=self.request.source.reference)] if more > 0 else []
            raise ConfigError(self.problems[:SHOWN_PROBLEMS] + last)
        self.taken.rows = tuple(rows.finish_rows(sorted(self.rows, key=lambda row: row.name), self.request.options.refuse))
        return self.taken

    def _add(
        self, task: SourceTask, directory: Path, contents: HashedTask, index: Mapping[str, Any], settings: TaskSettings
    ) -> None:
        built = self._built(task, directory, contents, index, settings)
        self.rows.append(built.row)
        if built.plan is not None and built.row.compose is not None:
            self.taken.plans[str(built.row.compose["plan"])] = built.plan
        for text in built.warnings:
            count, example = self.taken.warnings.get(text, (0, task.id))
            self.taken.warnings[text] = (count + 1, example)
        self.tools.progress(f"{self.request.source.reference}: {len(self.rows)} of {counted(self.total, 'task')}")

    def _built(
        self, task: SourceTask, directory: Path, contents: HashedTask, index: Mapping[str, Any], settings: TaskSettings
    ) -> BuiltRow:
        key = self._key(settings)
        if (fact := self.memo.get(contents.digest, key)) is not None:
            with suppress(KeyError, TypeError):
                return rows.row_of(fact, task, contents, index, settings)
        built = rows.build_row(task, directory, contents, index, settings)
        self.memo.put(contents.digest, key, rows.fact_of(built))
        return built

    def _key(self, settings: TaskSettings) -> str:
        # Of nearly all tasks nothing but the entry's own settings counts.
        if settings.overlays or settings.programs or settings.overlay_refusals:
            return settings.key
        self.plain_key = self.plain_key or settings.key
        return self.plain_key

    def _settings(
        self, task: SourceTask, matched: Sequence[Overlay], upstream: str | None, refusals: tuple[str, ...] = ()
    ) -> TaskSettings:
        return settings_of(task, matched, self.request.options.refuse, upstream, refusals)

    def _index(self, task: SourceTask, directory: Path, contents: HashedTask) -> dict[str, Any]:
        if not (names := self.names):
            return dict(task.index)
        metadata = self.memo.get(contents.digest, METADATA)
        if metadata is None:
            metadata = rows.read_metadata(directory)
            self.memo.put(contents.digest, METADATA, metadata)
        return selection.add_metadata(task.index, metadata, names, printable(task.id))

    def _matched(self, task: SourceTask, index: Mapping[str, Any]) -> list[Overlay]:
        return [overlay for overlay in self.request.overlays if overlay.matches(task.id, index)]


def changing(overlays: Sequence[Overlay]) -> list[Overlay]:
    """The overlays that change files; others only edit plans."""
    return [overlay for overlay in overlays if overlay.edits or overlay.copies]


def settings_of(
    task: SourceTask, matched: Sequence[Overlay], refuse: Refuse, upstream: str | None, refusals: tuple[str, ...]
) -> TaskSettings:
    """What decides a task's row beside its files. upstream, refusals: of what the overlays that matched made of it."""
    copied = () if refusals else (copy.file for overlay in matched for copy in overlay.copies if copy.executable)
    return TaskSettings(refuse, task.programs.union(copied), tuple(matched), refusals, upstream)


@contextmanager
def prepared(
    item: Materialised, contents: HashedTask, overlays: Sequence[Overlay], tools: FetchTools, shown_as: str
) -> Iterator[Prepared]:
    """A task's files with overlays applied, for the block. Raises ConfigError for what they made of it, HASH_ERRORS."""
    if not (wanted := changing(overlays)):
        yield Prepared(item.directory, contents)
        return
    with staging(tools.cache) as place:
        copy = place / "task"
        _copy(item, contents, copy)
        try:
            apply_files(wanted, copy)
            if problems := list(tree_problems(copy, shown_as)):
                raise ConfigError(problems)
            after = read_contents(copy)
            check_copies(wanted, {file.path for file in after.files})
        except TaskRefused as refused:
            yield Prepared(item.directory, contents, refusals=refused.problems)
            return
        yield Prepared(copy, after, contents.digest if after.digest != contents.digest else None)


def _copy(item: Materialised, contents: HashedTask, target: Path) -> None:
    """Copies what is hashed, by new inodes and without modes, which the cache gives."""
    make_directory(target)
    names = [file.path for file in contents.files]
    if (item.directory / IGNORE_FILE).is_file():
        names.append(IGNORE_FILE)
    for name in names:
        make_directory((target / name).parent)
        shutil.copyfile(item.directory / name, target / name)
