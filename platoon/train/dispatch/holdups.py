"""What kept groups from starting, as shares of wall time."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable


class HoldUps:
    """Wall time by the first reason found, since the last reading."""

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._since = self._began = now()
        self.reason: str | None = None
        self._seconds: defaultdict[str, float] = defaultdict(float)

    def switch(self, reason: str | None) -> None:
        """From now on `reason` holds starts up; None when nothing does."""
        self._settle()
        self.reason = reason

    def shares(self) -> dict[str, float]:
        """Share of each reason in [0, 1] since the last call, which begins anew."""
        self._settle()
        window_s = self._since - self._began
        shares = {reason: seconds / window_s for reason, seconds in sorted(self._seconds.items())} if window_s > 0 else {}
        self._began = self._since
        self._seconds.clear()
        return shares

    def _settle(self) -> None:
        now = self._now()
        if self.reason is not None:
            self._seconds[self.reason] += now - self._since
        self._since = now
