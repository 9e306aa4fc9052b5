"""Bounded waits: every await of a training service has a deadline, and the death of a service ends all of them at once."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, TypeVar

from platoon.errors import ConfigError, PlatoonError, Problem, ServiceError
from platoon.sampling.service_errors import error_text

T = TypeVar("T")
REFUSED_KEY = frozenset({401, 403})
# What asking again cannot mend.
FINAL_STATUSES = frozenset({401, 403, 404, 422})


def status_of(error: BaseException) -> int | None:
    """The HTTP status of an SDK error, None for an error without one."""
    status = getattr(error, "status_code", None)
    return status if isinstance(status, int) else None


def key_refusal(error: BaseException, place: str) -> ConfigError | None:
    """A refused key as one line for a person, None for any other error."""
    if status_of(error) not in REFUSED_KEY:
        return None
    rule = f"the training service at {place} refused the key ({status_of(error)})"
    return ConfigError(Problem(rule, key="TINKER_API_KEY", advice="set a key that this service knows"))


@dataclass
class _Death:
    event: asyncio.Event = field(default_factory=asyncio.Event)
    reason: str = ""


class Waits:
    """Waits of one run.

    tell: called with what is waited for, and with "" when the wait is over. A failure, once set, is final: it ends the waits in
    flight and every later one.
    """

    def __init__(self, tell: Callable[[str], None] = lambda what: None) -> None:
        self._tell = tell
        self._active: list[str] = []
        self._death = _Death()

    @property
    def failure(self) -> str:
        """Why the service can no longer answer, empty while it can."""
        return self._death.reason

    def fail(self, reason: str) -> None:
        """Ends every wait with a ServiceError that gives `reason`. The first reason stays."""
        self._death.reason = self._death.reason or reason
        self._death.event.set()

    def quiet(self) -> Waits:
        """The same waits for work beside the run: nobody is told of them."""
        waits = Waits()
        waits._death = self._death
        return waits

    async def on(self, answer: Awaitable[T], *, timeout_s: float, what: str) -> T:
        """The answer. Raises ServiceError past `timeout_s`, when the service is dead, or for an error of the service itself."""
        try:
            return await self.alive(answer, what=what, timeout_s=timeout_s)
        except (PlatoonError, asyncio.CancelledError):
            raise
        except Exception as error:
            # An answer torn by the service's end is a consequence: the cause is what a person needs to read.
            reason = self.failure or error_text(error)
            raise ServiceError(f"{what}: {reason}") from error

    async def alive(self, answer: Awaitable[T], *, what: str, timeout_s: float | None = None) -> T:
        """The answer of something that is not the service's, as long as the service lives; its errors are raised as they are."""
        task = asyncio.ensure_future(_awaited(answer))
        dead = asyncio.ensure_future(self._death.event.wait())
        self._active.append(what)
        self._tell(what)
        try:
            await asyncio.wait({task, dead}, timeout=timeout_s, return_when=asyncio.FIRST_COMPLETED)
            if task.done():
                return task.result()
            if self.failure:
                raise ServiceError(f"{what}: {self.failure}")
            raise ServiceError(f"{what}: no answer within {timeout_s:g} s")
        finally:
            self._active.remove(what)
            self._tell(self._active[-1] if self._active else "")
            for left in (task, dead):
                if not left.done():
                    left.cancel()
                with suppress(asyncio.CancelledError, Exception):
                    await left


async def together(*works: Coroutine[Any, Any, T]) -> list[T]:
    """Runs all at once and gives their results in order. The first error ends the others and is raised as it is."""
    tasks = [asyncio.ensure_future(work) for work in works]
    try:
        return list(await asyncio.gather(*tasks))
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _awaited(answer: Awaitable[T]) -> T:
    return await answer
