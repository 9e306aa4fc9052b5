from __future__ import annotations

from pathlib import Path

import pytest

from platoon.artifacts.row_log import append_json_line
from platoon.train.metrics import FILE, REGISTRY, StepMetrics, UndeclaredMetric, find, undeclared
from platoon.train.task_records.fates import Verdict
from platoon.train.trainer.metrics_log import read_metrics
from platoon.train.workflow.output import GroupOutput, MemberOutcome
from platoon.train.workflow.telemetry import add_groups

pytestmark = pytest.mark.unit


def member(index: int, reward: float | None, **more: object) -> MemberOutcome:
    rewards = {} if reward is None else {"reward": reward, "parsed": 1.0}
    facts = {"reward_key": "reward" if rewards else "", "tokens": {"prompt": 10, "completion": 2}, "calls": 3, **more}
    status = "scored" if rewards else "invalid"
    return MemberOutcome(index, status, reward, rewards, trainable=bool(rewards), **facts)  # type: ignore[arg-type]


def test_every_metric_is_declared_once_with_a_meaning() -> None:
    names = [metric.name for metric in REGISTRY]
    assert len(set(names)) == len(names)
    assert all(metric.meaning and metric.unit for metric in REGISTRY)


def test_the_groups_of_a_step_become_declared_metrics() -> None:
    metrics = StepMetrics()
    groups = [
        GroupOutput(None, None, (member(0, 1.0), member(1, 0.0)), Verdict.UNIFORM, 2.0, {"credit/baseline/avg": 0.5}),
        GroupOutput(None, None, (member(0, None), member(1, 0.5)), Verdict.NO_DATUMS, 4.0),
        GroupOutput(None, None, (), Verdict.FAILED, 1.0, error="gone"),
    ]
    add_groups(metrics, [("default", group) for group in groups], {"default": 1.0})
    result = metrics.result()
    assert undeclared(result) == []
    assert result["train/reward"] == 0.5
    assert result["train/reward/parsed"] == 1.0
    assert (result["train/rollouts"], type(result["train/rollouts"])) == (4, int)
    assert result["train/batch/groups"] == 3
    assert result["train/batch/failed_groups"] == 1
    assert result["train/outcome/invalid"] == 1
    assert result["train/tokens/prompt"] == 40
    assert result["train/batch/kind/uniform_mixed"] == 1
    assert result["train/group_seconds/max"] == 4.0


def test_a_component_that_is_no_name_of_a_metric_ends_nothing() -> None:
    metrics = StepMetrics()
    odd = MemberOutcome(0, "scored", 1.0, {"reward": 1.0, "a/b": 1.0, "": 1.0, "parsed": 0.5}, trainable=True, reward_key="reward")
    add_groups(metrics, [("default", GroupOutput(None, None, (odd,), Verdict.UNIFORM, 1.0))], {})
    assert [name for name in metrics.result() if name.startswith("train/reward/")] == ["train/reward/parsed"]


def test_kinds_reduce_and_undeclared_names_are_refused() -> None:
    metrics = StepMetrics()
    metrics.add("train/rollouts", 2, 3)
    metrics.add("credit/baseline/avg", 1.0, 2.0)
    metrics.add("dispatch/blocked_share/horizon", 0.25, 0.5)
    assert metrics.result() == {"credit/baseline/avg": 1.5, "dispatch/blocked_share/horizon": 0.5, "train/rollouts": 5.0}
    with pytest.raises(UndeclaredMetric, match="train/rollout'"):
        metrics.add("train/rollout", 1)
    with pytest.raises(ValueError, match="nan"):
        metrics.add("train/reward", float("nan"))
    assert find("policies/helper/train/reward") is find("train/reward")
    assert undeclared(["step", "start", "train/reward/parsed", "train/reward/a/b"]) == ["train/reward/a/b"]


def test_a_step_done_again_by_a_later_start_counts_once(tmp_path: Path) -> None:
    for start, step, reward in ((1, 1, 0.1), (1, 2, 0.2), (1, 3, 0.3), (2, 2, 0.4)):
        append_json_line(tmp_path / FILE, {"start": start, "step": step, "train/reward": reward})
    with (tmp_path / FILE).open("ab") as file:
        file.write(b'{"start": 2, "step": 3, "tr')
    assert [(row["step"], row["train/reward"]) for row in read_metrics(tmp_path)] == [(1, 0.1), (2, 0.4), (3, 0.3)]
