"""Admission to one live environment: who may touch it when.

One gate belongs to one sandbox (or lease) and is shared by every view of it. Calls are `serial` (one at a time), `concurrent`
(declared safe to overlap others) or `exclusive` (grading, copies: alone, after everything that arrived before, before everything
that arrives later). Within a caller calls are granted in order, across callers in turn. A call that waits longer than
`queue_timeout_s` is refused and never runs; one that was granted through `run` runs to its end even when its caller is cancelled.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Literal, TypeVar

from platoon.errors import PlatoonError

T = TypeVar("T")
CallClass = Literal["serial", "concurrent", "exclusive"]

_CALLER: ContextVar[str | None] = ContextVar("gate_caller", default=None)
_HELD: ContextVar[frozenset[int]] = ContextVar("gates_held", default=frozenset())


class EnvBusy(PlatoonError):
    """A call waited longer than the queue's limit; it did not run."""


class GateClosed(PlatoonError):
    """The environment is closed; the call did not run."""


@contextmanager
def on_behalf_of(agent_id: str) -> Iterator[None]:
    """Calls made within are this agent's: it has one place in the queue of each gate."""
    token = _CALLER.set(agent_id)
    try:
        yield
    finally:
        _CALLER.reset(token)


def current_caller() -> str | None:
    return _CALLER.get()


@dataclass
class _Call:
    caller: str
    kind: CallClass
    arrival: int
    granted: asyncio.Future[None] = field(repr=False)


class ToolGate:
    """See the module. queue_timeout_s: None waits without limit."""

    def __init__(self, queue_timeout_s: float | None = 240.0) -> None:
        self._queue_timeout_s = queue_timeout_s
        self._arrivals = 0
        # A caller has one place, in the order of this dict; its own calls wait behind that place.
        self._waiting: dict[str, deque[_Call]] = {}
        self._running: dict[int, CallClass] = {}
        self._closed = False
        self._idle = asyncio.Event()
        self._idle.set()
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def idle(self) -> bool:
        """Nothing runs and nothing waits."""
        return not self._running and not self._waiting

    async def run(self, operation: Callable[[], Awaitable[T]], *, caller: str, kind: CallClass = "serial") -> T:
        """Runs `operation` once admitted; a cancelled caller does not cut it short. Raises EnvBusy or GateClosed."""
        call = await self._admit(caller, kind)
        result: asyncio.Future[T] = asyncio.get_running_loop().create_future()

        async def work() -> None:
            _HELD.set(_HELD.get() | {id(self)})
            try:
                value = await operation()
            except asyncio.CancelledError:
                result.cancel()
                raise
            except BaseException as error:
                if not result.done():
                    result.set_exception(error)
                    # Read here, so that an error nobody waits for any more is not reported as forgotten.
                    result.exception()
            else:
                if not result.done():
                    result.set_result(value)
            finally:
                self._release(call)

        task = asyncio.ensure_future(work())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return await asyncio.shield(result)

    @asynccontextmanager
    async def hold(self, *, caller: str, kind: CallClass = "exclusive") -> AsyncIterator[None]:
        """Admission for work that stops when it is cancelled. Raises EnvBusy or GateClosed."""
        call = await self._admit(caller, kind)
        token = _HELD.set(_HELD.get() | {id(self)})
        try:
            yield
        finally:
            _HELD.reset(token)
            self._release(call)

    async def close(self, timeout_s: float) -> bool:
        """Refuses what waits and what comes; waits for what runs. False when something still runs after `timeout_s`."""
        self._closed = True
        for calls in self._waiting.values():
            for call in calls:
                if not call.granted.done():
                    call.granted.set_exception(GateClosed("the environment is closed"))
        self._waiting.clear()
        try:
            await asyncio.wait_for(self._idle.wait(), timeout_s)
        except TimeoutError:
            return False
        return True

    async def _admit(self, caller: str, kind: CallClass) -> _Call:
        if id(self) in _HELD.get():
            raise RuntimeError("an environment's own code called back into its gate")
        if self._closed:
            raise GateClosed("the environment is closed")
        self._arrivals += 1
        call = _Call(caller, kind, self._arrivals, asyncio.get_running_loop().create_future())
        self._waiting.setdefault(caller, deque()).append(call)
        self._advance()
        try:
            async with asyncio.timeout(self._queue_timeout_s):
                await asyncio.shield(call.granted)
        except TimeoutError:
            if not self._withdraw(call):
                # Granted, or refused by `close`, at the same moment.
                call.granted.result()
                return call
            raise EnvBusy(f"the environment was busy for {self._queue_timeout_s:g} s; the call did not run") from None
        except asyncio.CancelledError:
            if not self._withdraw(call) and call.arrival in self._running:
                self._release(call)
            raise
        return call

    def _withdraw(self, call: _Call) -> bool:
        """Takes a waiting call out of the queue; False when it was granted (or refused) already."""
        calls = self._waiting.get(call.caller)
        if calls is None or call not in calls:
            return False
        calls.remove(call)
        if not calls:
            del self._waiting[call.caller]
        call.granted.cancel()
        self._advance()
        return True

    def _release(self, call: _Call) -> None:
        del self._running[call.arrival]
        if not self._running:
            self._idle.set()
        self._advance()

    def _advance(self) -> None:
        while (call := self._next()) is not None:
            calls = self._waiting.pop(call.caller)
            calls.popleft()
            if calls:
                self._waiting[call.caller] = calls
            self._running[call.arrival] = call.kind
            self._idle.clear()
            call.granted.set_result(None)

    def _next(self) -> _Call | None:
        """The call to grant now: heads of callers in turn, none that arrived after a waiting exclusive one."""
        kinds = self._running.values()
        if not self._waiting or "exclusive" in kinds:
            return None
        exclusive = (call for calls in self._waiting.values() for call in calls if call.kind == "exclusive")
        barrier = min(exclusive, key=lambda call: call.arrival, default=None)
        for calls in self._waiting.values():
            head = calls[0]
            if barrier is not None and head.arrival > barrier.arrival:
                continue
            if head.kind == "concurrent" or (head.kind == "serial" and "serial" not in kinds):
                return head
        if barrier is not None and not kinds and min(calls[0].arrival for calls in self._waiting.values()) == barrier.arrival:
            return barrier
        return None
