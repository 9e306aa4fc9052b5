"""From judged groups to what one policy's forward/backward takes: advantages on tokens, zero filter, denominator, buffers.

Everything here is per policy: one policy's volume never scales another's gradient.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from platoon.rows.advantages import AppliedAdvantages, ErrorCounters, apply_advantages, filter_zero_advantages
from platoon.rows.assembly import AssembledRows, assemble
from platoon.rows.block import RowBlock, concat
from platoon.train.step.settings import StepSettings
from platoon.train.step.staleness import JudgedGroup


@dataclass(frozen=True, eq=False)
class Microbatch:
    """One policy's rows of one microbatch. rows: None where nothing is sent. trained_tokens: of what is sent."""

    policy: str
    rows: AssembledRows | None = None
    row_count: int = 0
    trained_tokens: int = 0
    errors: ErrorCounters = ErrorCounters()  # noqa: RUF009  because it is a frozen value of zeros

    @property
    def sent_rows(self) -> int:
        return self.rows.row_count if self.rows is not None else 0


def assemble_microbatch(groups: Sequence[JudgedGroup], policy: str, settings: StepSettings) -> Microbatch:
    """The rows of `policy` in the order of the groups. Groups without rows for it add nothing."""
    parts = [_part(group, policy, settings) for group in groups if policy in group.rows]
    if not parts:
        return Microbatch(policy)
    block = concat([part[0] for part in parts])
    applied = _joined([part[1] for part in parts])
    preserving = settings.losses[policy].is_zero_preserving
    kept = filter_zero_advantages(applied, is_enabled=settings.filter_zero, is_zero_preserving=preserving)
    rows = assemble(block, applied, kept.kept_K, denominator=kept.represented_tokens) if kept.is_sent else None
    # The denominator counts the rows that were dropped, too; what was trained does not.
    trained = int(applied.trained_tokens_R[kept.kept_K].sum()) if kept.is_sent else 0
    return Microbatch(policy, rows, block.row_count, trained, applied.errors)


def _part(group: JudgedGroup, policy: str, settings: StepSettings) -> tuple[RowBlock, AppliedAdvantages]:
    output = group.group.output
    assert output.block is not None and output.values_R is not None
    kept = group.rows[policy]
    block = output.block.select(kept)
    filter_errors = settings.filter_errors.get(group.group.draw.entry, True)
    return block, apply_advantages(block, output.values_R[kept], filter_errors=filter_errors)


def _joined(parts: Sequence[AppliedAdvantages]) -> AppliedAdvantages:
    counters = [part.errors for part in parts]
    return replace(
        parts[0],
        advantages_T=np.concatenate([part.advantages_T for part in parts]),
        is_trained_T=np.concatenate([part.is_trained_T for part in parts]),
        trained_tokens_R=np.concatenate([part.trained_tokens_R for part in parts]),
        is_zero_R=np.concatenate([part.is_zero_R for part in parts]),
        errors=ErrorCounters(
            sum(item.detected_action_tokens for item in counters),
            sum(item.suppressed_positive_action_tokens for item in counters),
            sum(item.retained_nonpositive_action_tokens for item in counters),
            sum(item.emptied_rows for item in counters),
        ),
    )
