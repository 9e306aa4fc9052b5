"""The pool of rollout permits: first come, first served, so that a large group is never overtaken.

A group reserves its permits through a lease and each of its rollouts runs inside `lease.rollout(i)`. A rolling lease is granted
permits one by one while it heads the queue and returns each when that rollout ends; another is granted whole and returns all when
it is closed. Everything happens on one event loop; nothing here waits but a rollout for its permit.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager


class PermitPool:
    """`size` permits. `changed` is called after permits came back or were granted."""

    def __init__(self, size: int, changed: Callable[[], None] = lambda: None, now: Callable[[], float] = time.monotonic) -> None:
        if size < 1:
            raise ValueError(f"a pool needs at least one permit, got {size}")
        self.size = size
        self.free = size
        self._queue: deque[Lease] = deque()
        self._changed = changed
        self.now = now

    @property
    def waiting(self) -> int:
        """Leases not wholly granted."""
        return len(self._queue)

    def ready_for(self, count: int, *, rolling: bool) -> bool:
        """Whether a lease of `count` would begin at once: nobody waits, and one permit (rolling) or all are free."""
        return not self._queue and self.free >= (1 if rolling else count)

    def lease(self, count: int, *, rolling: bool) -> Lease:
        """Reserves `count` permits behind everybody who waits. Raises ValueError for more than the pool can ever grant."""
        if not 1 <= count <= self.size:
            raise ValueError(f"a lease of {count} permits never fits into a pool of {self.size}")
        lease = Lease(self, count, rolling)
        self._queue.append(lease)
        self._grant()
        return lease

    def _grant(self) -> None:
        while self._queue:
            head = self._queue[0]
            missing = head.count - head.granted
            given = min(self.free, missing) if head.rolling else (missing if self.free >= missing else 0)
            self.free -= given
            head._receive(given)
            if head.granted < head.count:
                break
            self._queue.popleft()

    def _take_back(self, count: int) -> None:
        self.free += count
        assert self.free <= self.size
        self._grant()
        self._changed()

    def _leave(self, lease: Lease) -> None:
        if lease in self._queue:
            self._queue.remove(lease)


class Lease:
    """The permits of one group. Usable until `close`, which is idempotent and gives back whatever is left."""

    def __init__(self, pool: PermitPool, count: int, rolling: bool) -> None:
        self._pool = pool
        self.count = count
        self.rolling = rolling
        self.granted = 0
        self._held = 0
        self._unused = 0
        self._used: set[int] = set()
        self._waiters: deque[asyncio.Future[None]] = deque()
        self._closed = False

    @asynccontextmanager
    async def rollout(self, index: int) -> AsyncIterator[float]:
        """Holds the permit of member `index`; yields the seconds it was waited for, 0.0 when it was there.

        Raises IndexError for an index the lease does not have, RuntimeError for a second block of an index or a closed lease.
        """
        if not 0 <= index < self.count:
            raise IndexError(f"member {index} of a lease of {self.count}")
        if index in self._used or self._closed:
            raise RuntimeError(f"member {index} had its permit already" if index in self._used else "the lease is closed")
        self._used.add(index)
        waited_s = await self._acquire()
        try:
            yield waited_s
        finally:
            if self.rolling and not self._closed:
                self._give_back(1)

    def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        for waiter in self._waiters:
            waiter.cancel()
        self._pool._leave(self)
        self._give_back(self._held)

    async def _acquire(self) -> float:
        if self._unused:
            self._unused -= 1
            return 0.0
        began = self._pool.now()
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiters.append(waiter)
        try:
            await waiter
        except asyncio.CancelledError:
            if waiter in self._waiters:
                self._waiters.remove(waiter)
            elif waiter.done() and not waiter.cancelled():
                # The permit came in the same moment as the cancellation: it is this lease's to hand on.
                self._hand_on(1)
            raise
        return self._pool.now() - began

    def _receive(self, count: int) -> None:
        self.granted += count
        self._held += count
        self._hand_on(count)

    def _hand_on(self, count: int) -> None:
        self._unused += count
        while self._unused and self._waiters:
            waiter = self._waiters.popleft()
            if not waiter.done():
                self._unused -= 1
                waiter.set_result(None)

    def _give_back(self, count: int) -> None:
        self._held -= count
        if count:
            self._pool._take_back(count)
