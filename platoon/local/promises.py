"""Promises: the service answers every long operation with an id at once, and clients poll for the outcome.

A request id is an idempotency key: asking again with the same id gives the same promise. An outcome stays after it was fetched,
because the answer may have been lost on its way, and is dropped after a grace period. Runs on the event loop only.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

FETCHED_GRACE_S = 600.0
UNFETCHED_GRACE_S = 3600.0

Outcome = bytes | dict[str, Any]


@dataclass(eq=False)
class Promise:
    """One operation on its way. `finished_at` and `fetched_at` are monotonic seconds, None before."""

    request_id: str
    answer: dict[str, Any]
    future: asyncio.Future[Outcome] = field(default_factory=lambda: asyncio.get_running_loop().create_future())
    finished_at: float | None = None
    fetched_at: float | None = None
    on_cancel: Callable[[], None] | None = None

    def resolve(self, outcome: Outcome | BaseException) -> None:
        """Sets the outcome; later ones are ignored."""
        if self.future.done():
            return
        if isinstance(outcome, BaseException):
            self.future.set_exception(outcome)
            self.future.exception()  # Marks it as seen: a client may never ask.
        else:
            self.future.set_result(outcome)
        self.finished_at = time.monotonic()


class Promises:
    """All promises of a server by request id."""

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._promises: dict[str, Promise] = {}

    def __len__(self) -> int:
        return len(self._promises)

    def find(self, request_id: str) -> Promise | None:
        return self._promises.get(request_id)

    def open(self, request_id: str, **answer: Any) -> Promise:
        """A new promise whose first answer to the client is `{request_id, **answer}`."""
        promise = self._promises[request_id] = Promise(request_id, {"request_id": request_id, **answer})
        return promise

    def lose(self, request_id: str) -> None:
        """Forgets a promise, finished or not."""
        self._promises.pop(request_id, None)

    def sweep(self) -> None:
        """Drops outcomes whose grace is over."""
        now = self._now()
        for request_id, promise in list(self._promises.items()):
            if promise.finished_at is None:
                continue
            fetched = promise.fetched_at
            if now - (fetched or promise.finished_at) > (UNFETCHED_GRACE_S if fetched is None else FETCHED_GRACE_S):
                del self._promises[request_id]


class Turns:
    """Operations of one model in the order of their sequence numbers, whatever order they arrive in. The first number is 1."""

    MOST_WAITING = 4096

    def __init__(self) -> None:
        self.next = 1
        self._waiting: dict[int, Callable[[], None]] = {}

    def admit(self, sequence_id: int, start: Callable[[], None]) -> bool:
        """Calls `start` now if it is its turn, later when those before have come. False when it cannot be taken.

        A number whose turn is over, or that is waiting already, is not started twice.
        """
        if sequence_id < self.next or sequence_id in self._waiting:
            return True
        if len(self._waiting) >= self.MOST_WAITING:
            return False
        self._waiting[sequence_id] = start
        while (due := self._waiting.pop(self.next, None)) is not None:
            self.next += 1
            due()
        return True
