"""The metrics of a step: what its groups say, staleness, and what each learner said. Names are declared in `train.metrics`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from platoon.rows.block import RowBlock
from platoon.rows.credit import agent_keys
from platoon.train.dispatch.draw import Fate
from platoon.train.metrics import StepMetrics
from platoon.train.objectives.policy_gradient import compute_training_metrics
from platoon.train.policy.spec import PolicySpec
from platoon.train.step.staleness import JudgedGroup
from platoon.train.step.step import PolicyStep, TrainStepResult
from platoon.train.workflow.telemetry import add_groups


def step_metrics(
    result: TrainStepResult, specs: Mapping[str, PolicySpec], thresholds: Mapping[str, float], blocked: Mapping[str, float]
) -> dict[str, Any]:
    """Main's under their plain names, another policy's under `policies/<id>/`.

    thresholds: reward that counts as a pass, by entry. blocked: shares of time in which nothing could start, by reason.
    """
    metrics = StepMetrics()
    add_groups(metrics, [(judged.group.draw.entry, judged.group.output) for judged in result.groups], thresholds)
    _add_staleness(metrics, result.groups)
    metrics.update({f"time/{name}": seconds for name, seconds in result.seconds.items()})
    metrics.add("time/rollouts", *(judged.group.output.seconds for judged in result.groups))
    metrics.update({f"dispatch/blocked_share/{reason}": share for reason, share in blocked.items()})
    for step in result.policies.values():
        metrics.add("train/tokens/trained", *(item.trained_tokens for item in step.microbatches))
    rows = metrics.result()
    for policy, step in result.policies.items():
        rows |= {f"{specs[policy].prefix}{name}": value for name, value in _policy_metrics(step, specs[policy]).items()}
    return rows


def _add_staleness(metrics: StepMetrics, groups: Sequence[JudgedGroup]) -> None:
    metrics.add("train/batch/stale_groups", *(float(judged.fate is Fate.STALE) for judged in groups))
    metrics.add("train/batch/stale_datums", *(judged.stale_rows for judged in groups if judged.fate is not Fate.STALE))
    blocks = [judged.group.output.block for judged in groups]
    metrics.add("train/batch/split_datums", *(split_rows(block) for block in blocks if block is not None))
    ages = np.concatenate([judged.ages for judged in groups])
    if len(ages):
        metrics.add("train/staleness/mean", float(ages.mean()))
        metrics.add("train/staleness/max", float(ages.max()))


def split_rows(block: RowBlock) -> int:
    """Rows that an agent and policy began again since a prompt did not go on, token for token, from what was sampled."""
    keys_R = agent_keys(block.row_member, block.row_trajectory, block.row_policy)
    return block.row_count - int(keys_R.max(initial=-1)) - 1


def _policy_metrics(step: PolicyStep, spec: PolicySpec) -> dict[str, Any]:
    """Values that need not be finite numbers: what a service says is written down as it is."""
    errors = [item.errors for item in step.microbatches]
    metrics: dict[str, Any] = {
        "batch/rows": sum(item.row_count for item in step.microbatches),
        "batch/rows_sent": sum(item.sent_rows for item in step.microbatches),
        "batch/updates": len(step.updates),
        "batch/skipped_optimizer": int(not step.updates),
        "error_filter/detected_action_tokens": sum(item.detected_action_tokens for item in errors),
        "error_filter/suppressed_positive_action_tokens": sum(item.suppressed_positive_action_tokens for item in errors),
    }
    pairs = [
        (microbatch.rows, backward.logprobs_T)
        for microbatches, result in step.updates
        for microbatch, backward in zip(microbatches, result.backwards, strict=True)
        if microbatch.rows is not None
    ]
    metrics |= {f"optim/{name}": value for name, value in compute_training_metrics(pairs, spec.loss).items()}
    for _, result in step.updates:
        metrics |= {f"optimizer/{name.replace(':', '_')}": value for name, value in result.optimizer.items()}
    return metrics
