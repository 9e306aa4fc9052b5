"""Waiting that ends well under cancellation: clean-up runs to its end before the cancellation goes on."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import Any


async def see_through(work: Awaitable[Any], timeout_s: float) -> bool:
    """Waits until `work` is done, through cancellations of the caller, at most `timeout_s` seconds; whether it was done in time.

    Work that is not done goes on by itself. A cancellation that came meanwhile is raised at the end. Errors of the work are not
    raised: ask for them in `work`.
    """
    task = asyncio.ensure_future(work)
    loop = asyncio.get_running_loop()
    deadline = loop.time() + timeout_s
    cancelled: asyncio.CancelledError | None = None
    while not task.done() and loop.time() < deadline:
        try:
            await asyncio.wait([task], timeout=deadline - loop.time())
        except asyncio.CancelledError as error:
            cancelled = error
    if cancelled is not None:
        raise cancelled
    return task.done()
