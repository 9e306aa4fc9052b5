"""What the groups of a step say of themselves, as values of the metrics registry."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from platoon.train.metrics import StepMetrics, find
from platoon.train.task_records.records import group_kind
from platoon.train.workflow.output import GroupOutput


def add_groups(metrics: StepMetrics, outputs: Sequence[tuple[str, GroupOutput]], thresholds: Mapping[str, float]) -> None:
    """Adds the groups a step took. outputs: entry label and group. thresholds: reward that counts as a pass, per entry."""
    for entry, output in outputs:
        metrics.add("train/batch/groups", 1)
        metrics.add("train/batch/failed_groups", output.gave_nothing)
        metrics.add(f"train/batch/verdict/{output.verdict}", 1)
        measured = [member for member in output.members if member.trainable and member.reward is not None]
        passes = sum(member.reward >= thresholds.get(entry, 1.0) for member in measured if member.reward is not None)
        metrics.add(f"train/batch/kind/{group_kind(output.verdict, passes, len(measured))}", 1)
        metrics.add("train/rollouts", len(output.members))
        metrics.add("train/reward", *(member.reward for member in measured if member.reward is not None))
        for member in output.members:
            metrics.add(f"train/outcome/{member.status}", 1)
            metrics.add("train/stragglers", member.straggler)
            metrics.add("train/tokens/prompt", member.tokens.get("prompt", 0))
            metrics.add("train/tokens/completion", member.tokens.get("completion", 0))
            metrics.add("train/calls", member.calls)
        for member in measured:
            for component, value in member.rewards.items():
                # An environment names its components as it likes: one that is no name of a metric ends no run.
                if component != member.reward_key and find(name := f"train/reward/{component}") and math.isfinite(value):
                    metrics.add(name, value)
        metrics.update(output.metrics)
    seconds = [output.seconds for _, output in outputs]
    if seconds:
        metrics.add("train/group_seconds/avg", *seconds)
        metrics.add("train/group_seconds/max", max(seconds))
