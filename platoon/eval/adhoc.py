"""One task played by itself: what `platoon rollout` does once configuration and task are known."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from platoon.config.model import nearest
from platoon.config.text import few, quoted
from platoon.episodes.checks import route_problems
from platoon.episodes.result import RolloutResult
from platoon.episodes.rollout import run_rollout
from platoon.episodes.route import RolloutSettings, Route
from platoon.episodes.storage import TokenTable, write_whole
from platoon.errors import ConfigError, Problem
from platoon.eval.opening import MAIN, OpenRequest, open_nobody, open_policy, without_model
from platoon.gateway.seeds import SeedKey
from platoon.gateway.service import ModelGateway
from platoon.sampling.model_spec import ModelSpec
from platoon.train.components.entries import EntryTasks
from platoon.train.services import check_key
from platoon.train.trainer.renderers import early_renderers


@dataclass(frozen=True)
class AdhocRequest:
    """One rollout. opening: how to open the policy. seed: with the task it decides every sample, None for the service's choice.

    output_dir: gets `trajectory_collection.json`, `tokens.parquet`, and events below `rollouts/`.
    """

    entry: EntryTasks
    task_id: str
    route: Route
    settings: RolloutSettings
    opening: OpenRequest
    seed: int | None
    output_dir: Path


def find_task(entries: Sequence[EntryTasks], name: str, others: Mapping[str, tuple[str, str]]) -> tuple[EntryTasks, str]:
    """The entry and the id of a task: `<entry>::<id>` among several entries, else the id.

    others: tasks that are not played, in both forms, with why not and what to do. Raises ConfigError for one of them, for a task
    that there is not, and for one that several entries have.
    """
    label, separator, raw = name.partition("::")
    for entry in entries:
        if separator and entry.label == label and raw in entry.tasks:
            return entry, raw
    holders = [entry for entry in entries if name in entry.tasks]
    if len(holders) == 1:
        return holders[0], name
    if holders:
        rule = f"task {quoted(name)} is of several entries"
        raise ConfigError(Problem(rule, key="--task", advice=f"say {holders[0].label}::{name}"))
    if name in others:
        why, advice = others[name]
        raise ConfigError(Problem(f"task {quoted(name)} {why}", key="--task", advice=advice))
    known = [f"{entry.label}::{task}" if len(entries) > 1 else task for entry in entries for task in entry.tasks]
    near = nearest(name, {*known, *others})
    advice = near if near.startswith("did") else f"the split has: {few(sorted(known))}"
    raise ConfigError(Problem(f"no task is called {quoted(name)}", key="--task", advice=advice))


def refuse_unplayable(route: Route, spec: ModelSpec, section: str, given: Mapping[str, str]) -> None:
    """Raises ConfigError for what can be told before anything starts: a harness that could not play, a service without its key, a
    model or a renderer that is none.

    section: of the configuration, where the model is named. given: options that stand in for keys of it.
    """
    if problems := list(route_problems(route)):
        raise ConfigError(problems)
    if without_model(route):
        return
    check_key([spec])
    try:
        early_renderers({section: spec})
    except ConfigError as error:
        raise ConfigError(replace(problem, key=given.get(problem.key, problem.key)) for problem in error.problems) from error


async def play(request: AdhocRequest) -> RolloutResult:
    """Plays and stores what `refuse_unplayable` passed. Raises ServiceError when the policy cannot be opened."""
    open_with = open_nobody if without_model(request.route) else open_policy
    async with open_with(request.opening) as opened:
        gateway = ModelGateway({MAIN: opened.runtime})
        try:
            with TokenTable(request.output_dir / "tokens.parquet") as table:
                result = await run_rollout(
                    request.task_id,
                    route=request.route,
                    service=request.entry.service,
                    gateway=gateway,
                    settings=request.settings,
                    seed_key=None if request.seed is None else SeedKey(request.seed, 0, 0),
                    output_dir=request.output_dir / "rollouts",
                    token_table=table,
                )
        finally:
            await gateway.close()
    text = json.dumps(result.collection.to_dict(), ensure_ascii=False) + "\n"
    write_whole(request.output_dir / "trajectory_collection.json", text)
    return result
