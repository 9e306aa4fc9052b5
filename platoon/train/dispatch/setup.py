"""From a configuration and its entries to the source of a run."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from platoon.artifacts.canonical import canonical_digest
from platoon.train.checkpoints.dispatch_files import GROUPS_DIR
from platoon.train.checkpoints.kept_groups import GroupStore
from platoon.train.config_defs.entries import EnvironmentConfig
from platoon.train.config_defs.rollout import WorkflowConfig, effective
from platoon.train.config_defs.run import RunConfig
from platoon.train.credit.choose import build_credit
from platoon.train.dataset_order.order import Order, Pool, build_order, total_steps
from platoon.train.dispatch.dispatcher import DispatchSettings
from platoon.train.dispatch.draw import Draw
from platoon.train.dispatch.permits import Lease
from platoon.train.dispatch.run_source import DispatchedRollouts
from platoon.train.workflow.group import GroupRolloutWorkflow
from platoon.train.workflow.output import GroupOutput
from platoon.train.workflow.protocol import GroupRequest, GroupSettings, RunMember

log = logging.getLogger(__name__)

# A rollout with a limit of its own gets this on top for setting up and grading; one without may take a day.
MEMBER_GRACE_S = 900.0
UNBOUNDED_MEMBER_S = 86400.0
ROOT_ROLE = "policy"


@dataclass(frozen=True)
class EntryRuntime:
    """One environment entry, ready to play. tasks: its train split in listing order."""

    config: EnvironmentConfig
    tasks: tuple[str, ...]
    run_member: RunMember

    @property
    def label(self) -> str:
        return self.config.label


def run_order(config: RunConfig, tasks: Mapping[str, Sequence[str]]) -> Order:
    """The run's order over the train tasks of its entries, by label. Raises ConfigError for none, or too few for a batch."""
    entries = {entry.label: entry for entry in config.environments}
    pools = [Pool(label, tuple(ids), entries[label].weight, entries[label].seed) for label, ids in tasks.items()]
    return build_order(config.train.task_sampler, pools, config.train.batch_size, config.seed)


def planned_steps(config: RunConfig, order: Order) -> int:
    """Steps of the whole run."""
    train = config.train
    return total_steps(order, train.batch_size, train.num_epochs, train.max_training_steps)


def fingerprint(config: RunConfig, tasks: Mapping[str, Sequence[str]]) -> str:
    """Digest of what the order depends on; a change between starts is told, not refused."""
    return canonical_digest(
        {
            "sampler": config.train.task_sampler,
            "batch_size": config.train.batch_size,
            "seed": config.seed,
            "pools": [[label, len(ids), canonical_digest(list(ids))] for label, ids in tasks.items()],
            "weights": [[entry.label, entry.weight, entry.seed] for entry in config.environments],
        }
    )


def group_settings(config: RunConfig, entry: EnvironmentConfig) -> GroupSettings:
    """How groups of an entry run, from the layers of its settings."""
    workflow: WorkflowConfig = effective(config.train.workflow_config, entry.workflow_config)
    timeout = workflow.rollout_config.timeout
    return GroupSettings(
        group_size=workflow.group_size,
        min_successful=workflow.min_successful_group_size,
        trained=frozenset(config.trained),
        policies=(*config.trained, *config.frozen),
        roles=(ROOT_ROLE, *(role for role in config.agents.roles if role != ROOT_ROLE)),
        member_limit_s=timeout + MEMBER_GRACE_S if timeout is not None else UNBOUNDED_MEMBER_S,
        straggler_timeout_s=workflow.straggler_timeout_seconds,
        straggler_quorum=workflow.straggler_quorum,
    )


def build_source(
    config: RunConfig,
    entries: Sequence[EntryRuntime],
    *,
    run_dir: Path,
    start: int,
    steps_done: int,
    stop: asyncio.Event,
    report: Callable[[str], None] = log.info,
    now: Callable[[], float] = time.monotonic,
) -> DispatchedRollouts:
    """The source of one start. steps_done: of the whole run, where this start goes on; restore a capture before `start`."""
    tasks = {entry.label: entry.tasks for entry in entries}
    order = run_order(config, tasks)
    workflows = {entry.label: _workflow(config, entry, now) for entry in entries}
    train = config.train
    sampled = config.agents.sampled
    settings = DispatchSettings(
        start,
        train.batch_size,
        max(0, planned_steps(config, order) - steps_done),
        {policy: config.staleness_of(policy) for policy in config.trained if policy in sampled},
        {label: workflow.settings.group_size for label, workflow in workflows.items()},
        train.permit_release,
        failures_in_a_row=max(train.batch_size, 4),
    )

    async def run_group(draw: Draw, lease: Lease) -> GroupOutput:
        request = GroupRequest(draw.start, draw.seq, draw.position, draw.entry, draw.task_id)
        return await workflows[draw.entry].run(request, lease)

    return DispatchedRollouts(
        settings,
        order,
        pool_size=max(config.permits, *settings.group_sizes.values()),
        run_group=run_group,
        store=GroupStore(run_dir / GROUPS_DIR),
        stop=stop,
        deterministic=config.deterministic,
        sampler=train.task_sampler,
        fingerprint=fingerprint(config, tasks),
        thresholds={entry.label: entry.config.success_threshold for entry in entries},
        report=report,
        now=now,
    )


def _workflow(config: RunConfig, entry: EntryRuntime, now: Callable[[], float]) -> GroupRolloutWorkflow:
    workflow = effective(config.train.workflow_config, entry.config.workflow_config)
    credit = build_credit(entry.config, leave_one_out=workflow.leave_one_out_baseline, trained=config.trained)
    return GroupRolloutWorkflow(group_settings(config, entry.config), entry.run_member, credit, now)
