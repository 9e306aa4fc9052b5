"""Which estimator an entry uses, from its configuration."""

from __future__ import annotations

from collections.abc import Sequence

from platoon.train.config_defs.entries import EnvironmentConfig
from platoon.train.credit.group import GroupCredit
from platoon.train.credit.keyed import KeyedCredit
from platoon.train.credit.protocol import CreditEstimator


def build_credit(entry: EnvironmentConfig, *, leave_one_out: bool, trained: Sequence[str]) -> CreditEstimator:
    """The entry's estimator; without `credit`, `group` for one trained policy and `keyed` by task, policy and role for several."""
    if entry.credit == "keyed":
        options = entry.credit_options
        return KeyedCredit(tuple(options["key"]), options.get("leave_one_out", False))
    if entry.credit is None and len(trained) > 1:
        return KeyedCredit(leave_one_out=leave_one_out)
    return GroupCredit(leave_one_out)
