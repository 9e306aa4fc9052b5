"""Staleness by policy, assembly, and the digest of a step: values in, values out."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from platoon.rows.assembly import AssembledRows
from platoon.rows.merge import Call, TrajectoryCalls, build_block
from platoon.train.dispatch.draw import Draw, Fate
from platoon.train.dispatch.settled import SettledGroup
from platoon.train.objectives.loss import LossSettings
from platoon.train.objectives.policy_gradient import compute_training_metrics
from platoon.train.policy.wire import wire_rows
from platoon.train.step.assemble import assemble_microbatch
from platoon.train.step.digest import step_digest
from platoon.train.step.metrics import split_rows
from platoon.train.step.settings import StepSettings
from platoon.train.step.staleness import judge
from platoon.train.task_records.fates import Verdict
from platoon.train.workflow.output import GroupOutput

pytestmark = pytest.mark.unit

SETTINGS = StepSettings(
    2, 1, 1, {"default": {"main": 1, "helper": 0}}, {"main": LossSettings(), "helper": LossSettings("dro", {"beta": 0.1})}
)
Row = tuple[str, int, float]  # policy, version, value


def call(policy: str, version: int, first: int) -> Call:
    action = np.array([first, first + 1], dtype=np.uint32)
    return Call(np.array([1, first], dtype=np.uint32), action, np.full(2, -0.5, np.float32), policy, version)


def group(rows: list[Row], position: int = 0) -> SettledGroup:
    members = [
        TrajectoryCalls(index, 0, "policy", 0, 1.0, [call(policy, version, 10 * index + 2)])
        for index, (policy, version, _) in enumerate(rows)
    ]
    block = build_block(members, ("main", "helper"), ("policy",))
    values_R = np.array([value for _, _, value in rows])
    output = GroupOutput(block, values_R, (), Verdict.TRAINED, 1.0)
    return SettledGroup(Draw(1, position, position, "default", "task", 0), output, "sha256:0")


VERSIONS = {"main": 5, "helper": 3}


@pytest.mark.parametrize(
    ("rows", "by_datum", "kept", "stale", "fate"),
    [
        ([("main", 5, 1.0), ("main", 4, -1.0)], False, {"main": [0, 1]}, 0, Fate.CONSUMED),
        ([("main", 5, 1.0), ("main", 3, -1.0)], False, {}, 2, Fate.STALE),
        ([("main", 5, 1.0), ("main", 3, -1.0)], True, {"main": [0]}, 1, Fate.CONSUMED),
        ([("main", 3, 1.0), ("helper", 3, -1.0)], False, {"helper": [1]}, 1, Fate.CONSUMED),
        ([("main", 5, 1.0), ("helper", 2, -1.0)], True, {"main": [0]}, 1, Fate.CONSUMED),
        ([("main", 3, 1.0), ("helper", 2, -1.0)], True, {}, 2, Fate.STALE),
    ],
)
def test_p5_each_policys_rows_are_judged_by_its_own_clock(
    rows: list[Row], by_datum: bool, kept: dict[str, list[int]], stale: int, fate: Fate
) -> None:
    judged = judge(group(rows), VERSIONS, replace(SETTINGS, by_datum=by_datum))
    assert {policy: indices.tolist() for policy, indices in judged.rows.items()} == kept
    assert (judged.stale_rows, judged.fate) == (stale, fate)


def test_a_group_without_rows_is_failed_or_consumed() -> None:
    empty = group([("main", 5, 0.0)])
    nothing = replace(empty, output=GroupOutput(None, None, (), Verdict.FAILED, 1.0, error="gone"))
    assert judge(nothing, VERSIONS, SETTINGS).fate is Fate.FAILED


def test_p6_one_policys_volume_never_scales_anothers_gradient() -> None:
    """The denominator is the policy's own trained tokens, dropped zero rows included."""
    settled = group([("main", 5, 1.0), ("main", 5, 0.0), ("helper", 3, 2.0)])
    judged = judge(settled, VERSIONS, SETTINGS)
    main = assemble_microbatch([judged], "main", SETTINGS)
    assert main.rows is not None and (main.row_count, main.sent_rows, main.trained_tokens) == (2, 1, 2)
    assert main.rows.advantages_S[main.rows.is_trained_S] == pytest.approx([0.25, 0.25])
    helper = assemble_microbatch([judged], "helper", SETTINGS)
    assert helper.rows is not None and helper.trained_tokens == 2
    assert helper.rows.advantages_S[helper.rows.is_trained_S] == pytest.approx([1.0, 1.0])


def test_all_advantages_zero_sends_nothing_under_a_zero_preserving_loss_alone() -> None:
    settled = group([("main", 5, 0.0), ("helper", 3, 0.0)])
    judged = judge(settled, VERSIONS, SETTINGS)
    assert assemble_microbatch([judged], "main", replace(SETTINGS, filter_zero=False)).rows is None
    assert assemble_microbatch([judged], "helper", SETTINGS).sent_rows == 1


def test_u79_constant_groups_are_dropped_over_the_whole_batch_and_counted() -> None:
    constant = [judge(group([("main", 5, 0.0), ("main", 5, 0.0)], position), VERSIONS, SETTINGS) for position in range(3)]
    nothing = assemble_microbatch(constant, "main", SETTINGS)
    assert (nothing.rows, nothing.row_count, nothing.sent_rows) == (None, 6, 0)
    informative = judge(group([("main", 5, 1.0), ("main", 5, -1.0)], 3), VERSIONS, SETTINGS)
    mixed = assemble_microbatch([*constant, informative], "main", SETTINGS)
    assert mixed.rows is not None and (mixed.row_count, mixed.sent_rows) == (8, 2)
    # What is dropped still counts in the mean: two tokens a row.
    assert mixed.rows.advantages_S[mixed.rows.is_trained_S] == pytest.approx([1 / 16, 1 / 16, -1 / 16, -1 / 16])


def test_u88_rows_that_a_prompt_did_not_go_on_from_are_counted() -> None:
    first = call("main", 5, 2)
    going_on = Call(np.array([1, 2, 2, 3, 9], np.uint32), first.action, first.logprobs, "main", 5)
    rendered_anew = Call(np.array([1, 2, 8, 9], np.uint32), first.action, first.logprobs, "main", 5)

    def splits(*calls: Call) -> int:
        agents = [TrajectoryCalls(member, 0, "policy", 0, 1.0, list(calls)) for member in range(2)]
        return split_rows(build_block(agents, ("main", "helper"), ("policy",)))

    assert (splits(), splits(first), splits(first, going_on)) == (0, 0, 0)
    assert splits(first, rendered_anew) == splits(first, going_on, rendered_anew) == 2
    assert splits(first, call("helper", 3, 2)) == 0


def test_masked_positions_have_advantage_zero_and_only_the_losss_inputs_go_out() -> None:
    judged = judge(group([("main", 5, 3.0)]), VERSIONS, SETTINGS)
    rows = assemble_microbatch([judged], "main", SETTINGS).rows
    assert rows is not None
    wire = wire_rows(rows, SETTINGS.losses["main"])
    assert set(wire.inputs_T) == {"logprobs", "advantages"}
    assert not wire.inputs_T["advantages"][~rows.is_trained_S].any()
    assert set(wire_rows(rows, LossSettings("gspo", {})).inputs_T) == {"logprobs", "advantages", "sequence_ratio_mask"}


def test_the_digest_of_a_step_does_not_depend_on_settle_order() -> None:
    first, second = (judge(group([("main", 5, 1.0)], position), VERSIONS, SETTINGS) for position in (0, 1))
    assert step_digest([first, second]) == step_digest([second, first])
    other = judge(group([("main", 5, 1.5)], 1), VERSIONS, SETTINGS)
    assert step_digest([first, other]) != step_digest([first, second])
    older = judge(group([("main", 4, 1.0)], 1), VERSIONS, SETTINGS)
    assert step_digest([first, older]) != step_digest([first, second])


@pytest.mark.parametrize(
    ("loss", "preserving", "bounds"),
    [
        (LossSettings(), True, (0.0, 5.0)),
        (LossSettings("importance_sampling", {}), True, None),
        (LossSettings("ppo", {"clip_low_threshold": 0.8, "clip_high_threshold": 1.2}), True, (0.8, 1.2)),
        (LossSettings("cispo", {"other": 1.0}), False, None),
        (LossSettings("dro", {"beta": 0.1}), False, None),
    ],
)
def test_which_losses_give_zero_advantages_no_gradient(loss: LossSettings, preserving: bool, bounds: object) -> None:
    assert loss.is_zero_preserving == preserving and loss.clip_bounds == bounds


def test_training_metrics_are_plain_means_over_microbatches_of_any_size() -> None:
    """Smallest and largest weights are averaged too; one trained token has no sample deviation, and that shows."""

    def sent(*rows: Row) -> AssembledRows:
        assembled = assemble_microbatch([judge(group(list(rows)), VERSIONS, SETTINGS)], "main", SETTINGS).rows
        assert assembled is not None
        return assembled

    loss = LossSettings("ppo", {"clip_low_threshold": 0.5, "clip_high_threshold": 2.0})
    small, large = sent(("main", 5, 1.0)), sent(*[("main", 5, 1.0)] * 3)
    # Weights: 1 and e in the small one; 1 / e, and once e^2, in the large one, which has three times the tokens.
    near = np.array([0.0, -0.5, 0.5], np.float32)
    far = np.full(9, -1.5, np.float32)
    far[4] = 1.5
    metrics = compute_training_metrics([(small, near), (large, far)], loss)
    e = math.e
    assert metrics == pytest.approx(
        {
            "kl_sample_train_v1": (-0.5 + (5 - 2) / 6) / 2,
            "kl_sample_train_v2": (0.25 + (5 + 4) / 12) / 2,
            "entropy": 0.5,
            "importance_weight_mean": ((1 + e) / 2 + (5 / e + e**2) / 6) / 2,
            "importance_weight_std": ((e - 1) / 2**0.5 + (e**2 - 1 / e) / 6**0.5) / 2,
            "importance_weight_min": (1 + 1 / e) / 2,
            "importance_weight_max": (e + e**2) / 2,
            "clip_frac_low": (0 + 5 / 6) / 2,
            "clip_frac_high": (1 / 2 + 1 / 6) / 2,
            "clip_frac_total": (1 / 2 + 1) / 2,
        }
    )
    untrained = replace(large, is_trained_S=np.zeros(9, np.bool_))
    assert compute_training_metrics([(small, near), (untrained, far)], loss) == compute_training_metrics([(small, near)], loss)
    alone = replace(small, is_trained_S=np.array([False, True, False]))
    deviation = compute_training_metrics([(small, near), (alone, near)], loss)["importance_weight_std"]
    assert math.isnan(deviation)
    assert compute_training_metrics([], LossSettings()) == compute_training_metrics([(untrained, far)], loss) == {}
