"""Checks a recipe or a configuration whole, with everything it names, and reports all problems at once."""

from __future__ import annotations

import json
from collections.abc import Iterator
from copy import deepcopy
from dataclasses import replace
from pathlib import Path

from platoon.config.files import named_path
from platoon.config.load import LoadedConfig, load
from platoon.config.text import counted, printable, short_path
from platoon.envs.harbor.answers import Request, read_request
from platoon.envs.harbor.holdout import unknown_fields
from platoon.envs.harbor.options import HarborOptions, IndexMetadata
from platoon.envs.harbor.overlays import OVERLAY_FILE
from platoon.envs.harbor.publish import HarborCache
from platoon.envs.harbor.selection import add_index_files, select
from platoon.envs.harbor.sources.directory import DirectorySource
from platoon.errors import ConfigError, Problem
from platoon.eval.config_defs import EvaluationConfig
from platoon.host.console import Console
from platoon.pipeline.datasets import fetch_tools, of_entry
from platoon.pipeline.early import raw_entries, raw_harbor_options, service_problems
from platoon.pipeline.entries import based, harness_problems
from platoon.pipeline.fetch import environments_of, fetch_entries
from platoon.pipeline.kinds import Kind, is_recipe, kind_of, model_of
from platoon.pipeline.layout import EVALUATION_PREFIX
from platoon.pipeline.lock import lock_datasets
from platoon.pipeline.models import model_problems
from platoon.pipeline.providers import provider_key
from platoon.pipeline.recipe import Recipe, config_key, raw_units, read_named, read_recipe
from platoon.pipeline.resolve import ResolvedConfig, relative_paths, try_resolve
from platoon.pipeline.sources import HARBOR, is_spec
from platoon.site import Site
from platoon.train.config_defs.entries import EnvironmentConfig
from platoon.train.config_defs.run import RunConfig


def check_file(path: Path, site: Site, console: Console, *, tasks: bool = False) -> str:
    """What the file turned out to be. tasks: read the data too. Raises ConfigError with every problem."""
    loaded = load(path)
    values = loaded.values
    if values.keys() == {"environments"}:
        _check_environments(loaded, site)
        if tasks:
            fetch_entries(path, site, fetch_tools(site, console))
        return "a file of environments"
    if is_recipe(values):
        recipe = check_recipe(path, site, console, tasks=tasks)
        return f"a recipe of {counted(len(recipe.runs), 'run')} and {counted(len(recipe.evaluations), 'evaluation')}"
    return {"train": "a training configuration", "evaluation": "an evaluation"}[check_config(path, site, console, tasks=tasks)]


def _check_environments(loaded: LoadedConfig, site: Site) -> None:
    """Raises ConfigError with what is wrong with a file of environments alone, which `platoon harbor` takes."""
    _, found = environments_of(loaded)
    found += [*service_problems(loaded), *_harnesses_of_parts(loaded, "train")]
    if found := [*found, *_dataset_problems(loaded, found, site)]:
        raise ConfigError(found)


def check_recipe(path: Path, site: Site, console: Console, *, tasks: bool = False) -> Recipe:
    """The recipe when it and every configuration it names are whole. Raises ConfigError with every problem of all of them."""
    problems: dict[Problem, None] = {}
    recipe: Recipe | None = None
    try:
        recipe = read_recipe(path)
    except ConfigError as error:
        problems |= dict.fromkeys(error.problems)
    units = recipe.units if recipe is not None else dict(raw_units(load(path).values))

    def check(file: Path) -> Kind:
        return check_config(file, site, console, tasks=tasks)

    checked: dict[str, Kind] = {}
    for unit, config in units.items():
        kind = checked.get(config) or read_named(path, unit, config, check, problems)
        wanted: Kind = "evaluation" if unit.startswith(EVALUATION_PREFIX) else "train"
        if kind is not None and kind != wanted:
            rule = f"{short_path(config)} is of kind {kind}, not {wanted}"
            problems[Problem(rule, key=config_key(unit), file=str(path))] = None
        if kind is not None:
            checked[config] = kind
    if problems or recipe is None:
        raise ConfigError(problems)
    return recipe


def _harnesses(resolved: ResolvedConfig, path: Path) -> Iterator[Problem]:
    """Harnesses that are none and options that they do not have, for training and for evaluation."""
    model = model_of(resolved.kind).model_validate_json(json.dumps(resolved.values))
    assert isinstance(model, RunConfig | EvaluationConfig)
    for number, entry in enumerate(model.environments):
        trains = (True, False) if resolved.kind == "train" else (False,)
        found = (problem for training in trains for problem in harness_problems(number, based(entry, path.parent), training))
        for problem in dict.fromkeys(found):
            yield replace(problem, file=str(path))


def _harnesses_of_parts(loaded: LoadedConfig, kind: Kind) -> Iterator[Problem]:
    """Harnesses that are none in a configuration that is not whole: of each entry what has its right form is looked at."""
    for number, values in raw_entries(loaded.values):
        harness = values.get("harness")
        # A spec may be the file that is missing.
        if not isinstance(harness, str) or not harness or is_spec(harness):
            continue
        options = values.get("harness_options", {})
        entry = EnvironmentConfig(service=HARBOR, harness=harness, harness_options=options if isinstance(options, dict) else {})
        for problem in harness_problems(number, entry, kind == "train"):
            yield replace(problem, file=loaded.file_of(tuple(problem.key.split("."))))


def _dataset_problems(loaded: LoadedConfig, told: list[Problem], site: Site) -> Iterator[Problem]:
    """Datasets that list no task or cannot be listed, and files they are asked for with; no task is read for it.

    told: what is wrong with the values already; an entry whose options are at fault is left out.
    """
    values = deepcopy(loaded.values)
    relative_paths(values, loaded)
    for number, given in raw_harbor_options(values):
        key = f"environments.{number}.service_kwargs"
        if any(problem.key.startswith(f"{key}.") and problem.key != provider_key(number) for problem in told):
            continue
        try:
            options = HarborOptions.parse(given, key=key)
        except ConfigError:
            continue
        if not options.is_fetched:
            continue
        try:
            # Overlays, allowlists, registry files; of what is elsewhere nothing is known before it is fetched.
            request = read_request(options, loaded.path.parent, HarborCache(site.harbor_cache))
            fields = _index_fields(request)
        except ConfigError as error:
            for problem in error.problems:
                where = f"{problem.file}/{problem.key}" if problem.key else problem.file
                named = f"{key}.{_asked_by(problem, options, loaded.path.parent)}"
                yield Problem(f"{where}: {problem.rule}", named, loaded.file_of(tuple(named.split("."))), problem.advice)
        else:
            if options.holdout is not None and fields is not None:
                file = loaded.file_of(("environments", str(number), "service_kwargs", "holdout"))
                yield from of_entry(unknown_fields(options.holdout, fields), number, file)


def _asked_by(problem: Problem, options: HarborOptions, base: Path) -> str:
    """The option that is at fault, or names the file that is."""
    for number, path in enumerate(options.overlays):
        if problem.file == printable(str(named_path(path, base) / OVERLAY_FILE)):
            return f"overlays.{number}"
    if problem.file in options.task_files or problem.key.startswith("tasks"):
        return "tasks"
    if problem.key.startswith("select"):
        return "select"
    files = {
        short_path(item if isinstance(item, str) else item.path) for item in options.index if not isinstance(item, IndexMetadata)
    }
    if files.intersection((problem.key, problem.file.removeprefix(f"{options.dataset}/"))):
        return "index"
    return "dataset" if options.dataset is not None else "adapter"


def _index_fields(request: Request) -> set[str] | None:
    """The index fields of a local dataset's tasks, and those that may come from their metadata; None of what is elsewhere.

    Raises ConfigError for what cannot be listed, and for a selection that takes none.
    """
    if not isinstance(request.source, DirectorySource):
        return None
    dataset, options, reference = request.source.dataset, request.options, request.source.reference
    # What an index file adds nothing to is a fetch's to warn of.
    listed = add_index_files(dataset.list_tasks(), options, dataset, reference, lambda _: None)
    chosen = select(listed, options, request.lists, reference)
    return {*options.metadata_fields, *(name for task in chosen for name in task.index)}


def check_config(path: Path, site: Site, console: Console, *, tasks: bool = False) -> Kind:
    """The kind of a configuration that is whole. Raises ConfigError."""
    loaded = load(path)
    kind = kind_of(loaded.values, path)
    resolved, found = try_resolve(path, site)
    harnesses = _harnesses(resolved, path) if resolved is not None else _harnesses_of_parts(loaded, kind)
    found += [*harnesses, *model_problems(loaded, kind, found), *_dataset_problems(loaded, found, site)]
    if found or resolved is None:
        raise ConfigError(found)
    if tasks:
        lock_datasets(resolved, path.parent, site, console)
    return resolved.kind
