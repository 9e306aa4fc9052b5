"""What a group trains, from its members: one pure table."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from platoon.train.task_records.fates import Verdict
from platoon.train.workflow.output import MemberOutcome


def refusal(members: Sequence[MemberOutcome], min_successful: int) -> Verdict | None:
    """Why the group can train nothing, None when it may. Members without a rollout id returned no result."""
    trainable = [member for member in members if member.trainable]
    if len({member.reward_key for member in trainable}) > 1:
        return Verdict.REWARD_KEY_MISMATCH
    if not any(member.rollout_id for member in members):
        return Verdict.NO_RESULTS
    if not trainable:
        return Verdict.NO_COMPLETED_ROOT
    return Verdict.BELOW_MIN if len(trainable) < min_successful else None


def of_values(values_R: npt.NDArray[np.float64], action_count_R: npt.NDArray[np.int64]) -> Verdict:
    """`trained` when a row with action tokens has a value other than exactly 0; `uniform` otherwise; `no_datums` without rows."""
    if not len(values_R):
        return Verdict.NO_DATUMS
    return Verdict.TRAINED if bool(((values_R != 0) & (action_count_R > 0)).any()) else Verdict.UNIFORM
