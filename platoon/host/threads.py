"""Blocking calls whose answer may never come: in threads that nothing joins, neither the loop at its end nor the process."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import TypeVar

T = TypeVar("T")


async def in_daemon_thread(call: Callable[[], T]) -> T:
    """What `call` returns or raises. A caller that is cancelled leaves the thread behind, and what it answers later is dropped.

    For calls that wait for a peer that may be gone. `asyncio.to_thread` is for work that ends by itself: the loop joins
    its threads.
    """
    loop = asyncio.get_running_loop()
    answer: asyncio.Future[T] = loop.create_future()

    def settle(result: T | None, error: BaseException | None) -> None:
        if answer.done():
            return
        if error is not None:
            answer.set_exception(error)
        else:
            answer.set_result(result)  # type: ignore[arg-type]  # because without an error it is the call's

    def work() -> None:
        result, failure = None, None
        try:
            result = call()
        except BaseException as error:
            failure = error
        # The loop is closed when the call outlived it: nobody is left to tell.
        with suppress(RuntimeError):
            loop.call_soon_threadsafe(settle, result, failure)

    threading.Thread(target=work, name="blocking call", daemon=True).start()
    return await answer
