"""The metrics of a step: means of rewards, counts of rows and tokens, staleness, and what each learner said."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from platoon.train.dispatch.draw import Fate
from platoon.train.objectives.policy_gradient import compute_training_metrics
from platoon.train.policy.spec import PolicySpec
from platoon.train.step.staleness import JudgedGroup
from platoon.train.step.step import PolicyStep, TrainStepResult
from platoon.train.workflow.output import MemberOutcome


def step_metrics(result: TrainStepResult, specs: Mapping[str, PolicySpec]) -> dict[str, Any]:
    """Names are those of the metrics registry; main's without a prefix, another policy's under `policies/<id>/`."""
    members = [member for judged in result.groups for member in judged.group.output.members]
    metrics: dict[str, Any] = {**_rewards(members), **_counts(result.groups, members), **_staleness(result.groups)}
    metrics |= {f"time/{name}": seconds for name, seconds in result.seconds.items()}
    for policy, step in result.policies.items():
        prefix = specs[policy].prefix
        metrics |= {f"{prefix}{name}": value for name, value in _policy_metrics(step, specs[policy]).items()}
    trained = sum(item.trained_tokens for step in result.policies.values() for item in step.microbatches)
    return {**metrics, "train/tokens/trained": trained}


def _rewards(members: Sequence[MemberOutcome]) -> dict[str, float]:
    """Means over measured members; a component over the members that have it."""
    scored = [member for member in members if member.trainable and member.reward is not None]
    if not scored:
        return {}
    components: dict[str, list[float]] = defaultdict(list)
    for member in scored:
        for name, value in member.rewards.items():
            components[name].append(value)
    means = {f"train/reward/{name}": float(np.mean(values)) for name, values in sorted(components.items())}
    rewards = [member.reward for member in scored if member.reward is not None]
    return {"train/reward": float(np.mean(rewards)), **means}


def _counts(groups: Sequence[JudgedGroup], members: Sequence[MemberOutcome]) -> dict[str, Any]:
    counts: dict[str, Any] = {
        "train/rollouts": len(members),
        "train/groups": len(groups),
        "train/groups/stale": sum(judged.fate is Fate.STALE for judged in groups),
        "train/groups/failed": sum(judged.fate is Fate.FAILED for judged in groups),
        "train/tokens/prompt": sum(member.tokens.get("prompt", 0) for member in members),
        "train/tokens/completion": sum(member.tokens.get("completion", 0) for member in members),
        "time/rollouts": sum(member.seconds.get("total", 0.0) for member in members),
    }
    for status in sorted({member.status for member in members}):
        counts[f"train/status/{status}"] = sum(member.status == status for member in members)
    verdicts = [str(judged.group.output.verdict) for judged in groups]
    counts |= {f"train/verdict/{verdict}": verdicts.count(verdict) for verdict in sorted(set(verdicts))}
    return counts


def _staleness(groups: Sequence[JudgedGroup]) -> dict[str, Any]:
    ages = np.concatenate([judged.ages for judged in groups]) if groups else np.zeros(0)
    found: dict[str, Any] = {"train/batch/stale_datums": sum(judged.stale_rows for judged in groups)}
    if len(ages):
        found |= {"train/staleness/mean": float(ages.mean()), "train/staleness/max": int(ages.max())}
    return found


def _policy_metrics(step: PolicyStep, spec: PolicySpec) -> dict[str, Any]:
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
