"""The time budget of a start: when to stop so that the step under way and its save still fit."""

from __future__ import annotations

from collections.abc import Callable

MARGIN_S = 120.0
# Of a budget too short for the margin, this share is kept for saving.
SHORT_BUDGET_SHARE = 0.25


class TimeBudget:
    """budget_s: seconds from `started_at` on the clock, None for no bound."""

    def __init__(self, budget_s: float | None, clock: Callable[[], float], started_at: float | None = None) -> None:
        self._budget_s, self._clock = budget_s, clock
        self._started_at = clock() if started_at is None else started_at
        self._longest_step_s = 0.0
        self._longest_save_s = 0.0

    def step_took(self, seconds: float) -> None:
        self._longest_step_s = max(self._longest_step_s, seconds)

    def save_took(self, seconds: float) -> None:
        self._longest_save_s = max(self._longest_save_s, seconds)

    @property
    def margin_s(self) -> float:
        """What is kept for ending well: the margin, or the longest step and save seen so far where they take longer."""
        assert self._budget_s is not None
        margin_s = max(MARGIN_S, self._longest_step_s + self._longest_save_s)
        return min(margin_s, max(self._budget_s * SHORT_BUDGET_SHARE, self._longest_save_s))

    def left_s(self) -> float | None:
        """Seconds until the run should stop, at least 0; None without a budget."""
        if self._budget_s is None:
            return None
        return max(0.0, self._started_at + self._budget_s - self.margin_s - self._clock())
