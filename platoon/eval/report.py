"""The numbers of an evaluation, from its records: pure, and independent of the order in which rollouts finished."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from platoon.eval.store import RolloutRecord


def mean(values: Sequence[float]) -> float | None:
    return math.fsum(values) / len(values) if values else None


def succeeded(record: RolloutRecord, threshold: float) -> bool:
    return record.reward is not None and record.reward >= threshold


def final_report(records: Sequence[RolloutRecord], threshold: float, *, timeout_fails: bool) -> dict[str, Any]:
    """`reports/final_report.json` without what only the caller knows (model, configuration, time)."""
    valid = [record for record in records if is_valid(record, timeout_fails=timeout_fails)]
    rewards = [record.reward for record in valid if record.reward is not None]
    successes = [record for record in valid if succeeded(record, threshold)]
    tasks = task_results(records, threshold, timeout_fails=timeout_fails)
    with_valid = [task for task in tasks if task["valid_rollouts"]]
    return {
        "summary": {
            "total_tasks": len(tasks),
            "tasks_without_valid_rollouts": len(tasks) - len(with_valid),
            "total_rollouts": len(records),
            "valid_rollouts": len(valid),
            "successful_rollouts": len(successes),
            "failed_rollouts": len(valid) - len(successes),
            "errored_rollouts": len(records) - len(valid),
            "outcome_status_counts": dict(sorted(Counter(record.status for record in records).items())),
            "fault_counts": dict(sorted(Counter(record.fault for record in records if record.fault).items())),
            "unasked_counts": dict(
                sorted(Counter(record.reason for record in valid if record.reason and not record.calls).items())
            ),
            "reward_key_counts": dict(sorted(Counter(record.reward_key for record in records if record.reward_key).items())),
            "success_rate": len(successes) / len(valid) if valid else None,
            "success_at_k": mean([float(task["successes"] > 0) for task in with_valid]),
            "reward_mean": mean(rewards),
            "reward_max": max(rewards, default=None),
            "reward_min": min(rewards, default=None),
        },
        "reward_components": components(valid),
        "usage": totals(record.tokens for record in records),
        "seconds": totals(record.seconds for record in records),
        "tasks": tasks,
    }


def is_valid(record: RolloutRecord, *, timeout_fails: bool) -> bool:
    """A measurement, or a timeout where the evaluation counts those as failures."""
    return not record.errored or (timeout_fails and record.status == "timeout")


def components(records: Sequence[RolloutRecord]) -> dict[str, float]:
    """Mean of each component of the reward, over the measured rollouts that report it."""
    values: dict[str, list[float]] = {}
    for record in records:
        for name, value in record.rewards.items():
            values.setdefault(name, []).append(value)
    return {name: math.fsum(found) / len(found) for name, found in sorted(values.items())}


def totals(mappings: Iterable[Mapping[str, float]]) -> dict[str, Any]:
    found: dict[str, list[float]] = {}
    for mapping in mappings:
        for name, value in mapping.items():
            found.setdefault(name, []).append(value)
    sums = {name: math.fsum(values) for name, values in sorted(found.items())}
    return {name: int(value) if all(isinstance(item, int) for item in found[name]) else value for name, value in sums.items()}


def task_results(records: Sequence[RolloutRecord], threshold: float, *, timeout_fails: bool) -> list[dict[str, Any]]:
    """One row a task, in order of entry and task, with its rollouts in order of index."""
    by_task: dict[tuple[str, str], list[RolloutRecord]] = {}
    for record in sorted(records, key=lambda item: (item.entry, item.task_id, item.index)):
        by_task.setdefault((record.entry, record.task_id), []).append(record)
    return [_task(key, found, threshold, timeout_fails) for key, found in by_task.items()]


def _task(key: tuple[str, str], records: list[RolloutRecord], threshold: float, timeout_fails: bool) -> dict[str, Any]:
    valid = [record for record in records if is_valid(record, timeout_fails=timeout_fails)]
    return {
        "entry": key[0],
        "task_id": key[1],
        "rollouts": len(records),
        "valid_rollouts": len(valid),
        "successes": sum(succeeded(record, threshold) for record in valid),
        "reward_mean": mean([record.reward for record in valid if record.reward is not None]),
        "records": [record.to_dict() for record in records],
    }


def receipt_figures(report: Mapping[str, Any], elapsed_s: float) -> dict[str, Any]:
    """The headline figures of a receipt. Seconds are sums over rollouts, which overlap; only `total` is wall time."""
    summary = report["summary"]
    spent = dict(report["seconds"])
    rollouts_s = spent.pop("total", 0.0)
    return {
        "reward_mean": summary["reward_mean"],
        "success_rate": summary["success_rate"],
        "rollouts": summary["total_rollouts"],
        "valid": summary["valid_rollouts"],
        "errored": summary["errored_rollouts"],
        "components": report["reward_components"],
        "outcomes": summary["outcome_status_counts"],
        "tokens": report["usage"],
        "seconds": {**spent, "rollouts": rollouts_s, "total": elapsed_s},
    }


def receipt_tasks(report: Mapping[str, Any]) -> list[dict[str, Any]]:
    single = len({task["entry"] for task in report["tasks"]}) <= 1
    return [
        {
            "task": task["task_id"] if single else f"{task['entry']}::{task['task_id']}",
            "reward_mean": task["reward_mean"],
            "rollouts": task["rollouts"],
        }
        for task in report["tasks"]
    ]


def best_example(records: Sequence[RolloutRecord]) -> RolloutRecord | None:
    """The rollout worth showing whole: of several turns if there is one, of the highest reward, then the first by name."""
    measured = [record for record in records if record.reward is not None]
    return min(
        measured,
        key=lambda item: (item.calls < 2, -(item.reward or 0.0), -item.calls, item.entry, item.task_id, item.index),
        default=None,
    )


def example(record: RolloutRecord, collection: Mapping[str, Any]) -> dict[str, Any]:
    """The receipt's example, from a stored rollout. Ids and times of the rollout stay out."""
    root = next(iter(collection["trajectories"].values()))
    return {
        "task": record.task_id,
        "instruction": root["task"].get("goal") or root["misc"].get("instruction") or "",
        "reward": record.reward,
        "rewards": dict(record.rewards),
        "messages": [message for step in root["steps"] for message in _turn(step["misc"])],
        "test_output": record.metadata.get("test_output", ""),
    }


def _turn(misc: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """What the agent was shown since its last reply, and its reply."""
    reply = misc.get("message")
    return [*misc.get("observed", ()), *([reply] if reply else [])]
