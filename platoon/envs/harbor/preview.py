"""What a fetch makes of one task directory, without a dataset, a lock or the cache: its row, made as each row of a fetch is.

The files that a fetch keeps are copied to a passing place and planned there, so that what it does not keep (ignored files, empty
directories) is as missing as it would be in the cache.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from platoon.config.text import printable
from platoon.envs.harbor.content import HASH_ERRORS, fault_text, read_contents, tree_problems
from platoon.envs.harbor.format import right_parts
from platoon.envs.harbor.options import Refuse
from platoon.envs.harbor.overlays import Overlay
from platoon.envs.harbor.publish import HarborCache, publish_task
from platoon.envs.harbor.rows import BuiltRow, build_row, read_metadata
from platoon.envs.harbor.sources.protocol import FetchTools, Materialised, SourceTask
from platoon.envs.harbor.take import prepared, settings_of
from platoon.envs.harbor.task_toml import TaskToml
from platoon.errors import ConfigError, Problem
from platoon.host.scratch import node_scratch


@dataclass(frozen=True)
class Preview:
    """built: the row, its images' `kind` still `build`, since who shares a build is of a whole dataset. idle: overlays that do not
    match the task. lifted: the fields of `[metadata]` by which others do, which a dataset has to list to have them. settings: what
    its `task.toml` says, but for what is refused there; None where too little of it is known."""

    built: BuiltRow
    settings: TaskToml | None
    idle: tuple[str, ...] = ()
    lifted: tuple[str, ...] = ()


def preview_task(
    directory: Path,
    *,
    name: str | None = None,
    index: Mapping[str, str] | None = None,
    overlays: Sequence[Overlay] = (),
    refuse: Refuse | None = None,
) -> Preview:
    """The row of a task directory under an entry's `overlays` and `refuse`.

    name: its id, the directory's name when unset. index: fields that an overlay's `[match]` may ask for, over the scalars of
    `[metadata]`. Raises ConfigError for what fails a whole fetch, PlatoonError.
    """
    task = SourceTask(name or directory.resolve().name, ".")
    shown = printable(task.id)
    if problems := list(tree_problems(directory, shown)):
        raise ConfigError(problems)
    metadata = {key: value for key, value in read_metadata(directory).items() if value != []}
    fields = {**metadata, **(index or {})}
    matched = [overlay for overlay in overlays if overlay.matches(task.id, fields)]
    idle = tuple(overlay.name for overlay in overlays if overlay not in matched)
    asked = {name for overlay in matched for name in overlay.match} - {"name"}
    lifted = tuple(sorted(asked.intersection(metadata).difference(index or {})))
    try:
        with TemporaryDirectory(prefix="platoon-plan-", dir=node_scratch()) as place:
            tools = FetchTools(HarborCache(Path(place) / "harbor"))
            contents = read_contents(directory)
            with prepared(Materialised(task, directory), contents, matched, tools, shown) as ready:
                settings = settings_of(task, matched, refuse or Refuse(), ready.upstream_digest, ready.refusals)
                publish_task(ready.directory, ready.contents, tools.cache, settings.programs)
                kept = tools.cache.task(ready.contents.digest)
                built = build_row(task, kept, ready.contents, fields, settings)
                return Preview(built, right_parts(kept)[0], idle, lifted)
    except HASH_ERRORS as error:
        raise ConfigError(Problem(f"cannot be read: {fault_text(error, directory)}", file=shown)) from None
