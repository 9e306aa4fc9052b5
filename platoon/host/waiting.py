"""Work that must come to its end although the caller is cancelled meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from contextlib import suppress
from typing import TypeVar

T = TypeVar("T")


async def finish(work: Awaitable[T]) -> T:
    """Awaits `work` to its end. A cancellation of the caller, or several, is raised after it, in place of its error."""
    task = asyncio.ensure_future(work)
    cancelled: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.wait((task,))
        except asyncio.CancelledError as error:
            cancelled = error
    if cancelled is not None:
        with suppress(Exception, asyncio.CancelledError):
            task.result()
        raise cancelled
    return task.result()
