"""The summary: figures by run and evaluation, from receipts alone."""

from __future__ import annotations

import pytest

from platoon.errors import ConfigError
from platoon.pipeline.summary import summarise

pytestmark = pytest.mark.unit

TRAIN = {
    "rule": 1,
    "kind": "train",
    "run": "main",
    "trainer": "rl",
    "parent": {"run": "warm", "step": 3},
    "seed": 7,
    "steps": 2,
    "figures": {"reward_first": 0.1, "reward_last": 0.5, "rollouts": 4, "tokens": {"completion": 9}, "seconds": {"total": 3.0}},
    "curve": [{"step": 1, "reward": 0.1, "rollouts": 1}, {"step": 2, "reward": 0.5, "rollouts": 3}],
}
EVALUATION = {
    "rule": 1,
    "kind": "evaluation",
    "name": "after",
    "run": "main",
    "step": 2,
    "seed": 1,
    "figures": {"reward_mean": 0.5, "rollouts": 8, "components": {"state": 0.25}},
}


def test_figures_by_run_and_evaluation() -> None:
    summary = summarise([TRAIN, EVALUATION])
    run = summary["runs"]["main"]
    assert run["mean_reward"] == pytest.approx(0.4)
    assert (run["steps"], run["seed"], run["rollouts"], run["parent"], run["tokens"]) == (2, 7, 4, "warm", {"completion": 9})
    evaluation = summary["evaluations"]["after"]
    assert (evaluation["run"], evaluation["mean_reward"], evaluation["components"]) == ("main", 0.5, {"state": 0.25})


def test_what_a_receipt_lacks_is_missing_and_not_zero() -> None:
    summary = summarise([{"kind": "train", "run": "warm", "trainer": "sft", "curve": [{"step": 1, "loss": 2.0}]}])
    assert summary["runs"]["warm"]["mean_reward"] is None
    assert summary["runs"]["warm"]["rollouts"] is None


def test_two_receipts_of_one_name_are_refused() -> None:
    with pytest.raises(ConfigError, match="two receipts are of main"):
        summarise([TRAIN, TRAIN])
