"""The two judgements on a draw: what its group trains (verdict) and what finally became of it (fate)."""

from __future__ import annotations

from enum import StrEnum


class Verdict(StrEnum):
    """The workflow's statement on a group, made when its members have settled."""

    TRAINED = "trained"  # at least one action token has a non-zero advantage
    UNIFORM = "uniform"  # there are rows, and every advantage is zero
    REWARD_KEY_MISMATCH = "reward_key_mismatch"  # members report different rewards: comparing them would mix scales
    NO_RESULTS = "no_results"  # no member returned a result
    BELOW_MIN = "below_min"  # fewer trainable members than `min_successful_group_size`
    NO_COMPLETED_ROOT = "no_completed_root"  # results, but none whose root was measured
    NO_DATUMS = "no_datums"  # measured members without a row to train on
    FAILED = "failed"  # the group itself failed: its workflow raised or gave no answer in time
    UNKNOWN = "unknown"  # a workflow that gives no verdicts


class Fate(StrEnum):
    """What finally became of a draw; every position of the order gets exactly one."""

    CONSUMED = "consumed"
    STALE = "stale"
    FAILED = "failed"
    SKIPPED = "skipped"
    REJECTED = "rejected"
    LOST = "lost"
