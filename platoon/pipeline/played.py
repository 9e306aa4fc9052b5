"""What a run or an evaluation plays: listed with the checks that it begins with, and asked for before it by `platoon prepare`."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

from platoon.config.text import short_path
from platoon.errors import ConfigError, Problem
from platoon.eval.config_defs import EvaluationConfig
from platoon.host.console import Console
from platoon.host.status_line import PATIENCE_S
from platoon.pipeline.entries import check_tasks, entry_tasks
from platoon.pipeline.inputs import RunInputs, read_inputs
from platoon.pipeline.kinds import model_of
from platoon.pipeline.layout import DATASETS, inputs_of
from platoon.pipeline.lock import cache_lacks, read_datasets
from platoon.pipeline.recipe import Recipe
from platoon.site import Site
from platoon.train.components.entries import EntryTasks
from platoon.train.config_defs.run import RunConfig
from platoon.train.dispatch.setup import run_order


def played_entries(inputs: RunInputs, config: RunConfig | EvaluationConfig, base: Path) -> list[EntryTasks]:
    """The entries with the tasks of the split that is played; [] for a trainer that plays none.

    base: what relative paths are relative to. Raises ConfigError with every task that its service would refuse to open, for a run
    that no order of its tasks is for, and as `entry_tasks`.
    """
    if isinstance(config, RunConfig) and config.trainer != "rl":
        return []
    split = "train" if isinstance(config, RunConfig) else config.split

    async def listed() -> list[EntryTasks]:
        entries = await entry_tasks(inputs, config.environments, split, base)
        await check_tasks(entries, split)
        return entries

    entries = asyncio.run(listed())
    if isinstance(config, RunConfig):
        run_order(config, {entry.label: entry.tasks for entry in entries})
    return entries


def check_played(inputs: RunInputs, base: Path) -> None:
    """Raises ConfigError with what the run or the evaluation would refuse when it lists its tasks."""
    # Through JSON, as strict models want it.
    config = model_of(inputs.kind).model_validate_json(json.dumps(inputs.values))
    assert isinstance(config, RunConfig | EvaluationConfig)
    played_entries(inputs, config, base)


def check_units(recipe: Recipe, base: Path, results: Path, site: Site, console: Console) -> None:
    """`check_played` for every unit of a recipe in the folder `base`, from its published inputs; each configuration once.

    Fetches again what the cache lost.
    """
    problems: list[Problem] = []
    for config, unit in _unit_of_each(recipe).items():
        path = base / config
        console.progress("list", f"tasks of {config}", patience_s=PATIENCE_S)
        try:
            check_played(read_inputs(inputs_of(results, unit), site, path.parent, console), path.parent)
        except ConfigError as error:
            problems += [Problem(str(problem), file=short_path(str(path))) for problem in error.problems]
    if problems:
        raise ConfigError(problems)


def unfetched(recipe: Recipe, results: Path, site: Site) -> list[str]:
    """The configurations of a recipe whose inputs are published and name data that the cache no longer holds."""
    return [
        config
        for config, unit in _unit_of_each(recipe).items()
        if cache_lacks(read_datasets(inputs_of(results, unit) / DATASETS), site)
    ]


def _unit_of_each(recipe: Recipe) -> dict[str, str]:
    """One unit of each configuration: all of one configuration have equal inputs."""
    return {config: unit for unit, config in recipe.units.items()}
