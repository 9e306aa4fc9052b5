"""Which estimator an entry uses, from its configuration."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from platoon.errors import Problem
from platoon.train.config_defs.entries import EnvironmentConfig
from platoon.train.credit import keyed
from platoon.train.credit.group import GroupCredit
from platoon.train.credit.keyed import KeyedCredit
from platoon.train.credit.protocol import CreditEstimator

NAMES = ("group", "keyed")


def problems(entries: Sequence[EnvironmentConfig]) -> Iterator[Problem]:
    """Unknown estimators and faulty options, with keys from the top of the configuration."""
    for index, entry in enumerate(entries):
        where = f"environments.{index}"
        if entry.credit is None or entry.credit == "group":
            if entry.credit_options:
                advice = "name an estimator" if entry.credit is None else "leave_one_out_baseline is in workflow_config"
                yield Problem("takes no options", key=f"{where}.credit_options", advice=advice)
        elif entry.credit == "keyed":
            for problem in keyed.problems(entry.credit_options):
                yield replace(problem, key=f"{where}.credit_options.{problem.key}")
        else:
            yield Problem(f"must be one of {', '.join(NAMES)}, got {entry.credit!r}", key=f"{where}.credit")


def build_credit(entry: EnvironmentConfig, *, leave_one_out: bool, trained: Sequence[str]) -> CreditEstimator:
    """The entry's estimator; without `credit`, `group` for one trained policy and `keyed` by task, policy and role for several."""
    if entry.credit == "keyed":
        options = entry.credit_options
        return KeyedCredit(tuple(options["key"]), options.get("leave_one_out", False))
    if entry.credit is None and len(trained) > 1:
        return KeyedCredit(leave_one_out=leave_one_out)
    return GroupCredit(leave_one_out)
