"""Blocking calls that nobody joins."""

from __future__ import annotations

import asyncio
import threading

import pytest

from platoon.host.threads import in_daemon_thread

pytestmark = pytest.mark.unit


def test_an_answer_and_an_error_come_through() -> None:
    def fails() -> None:
        raise KeyError("x")

    assert asyncio.run(in_daemon_thread(lambda: 7)) == 7
    with pytest.raises(KeyError):
        asyncio.run(in_daemon_thread(fails))


def test_a_call_that_blocks_holds_up_neither_its_caller_nor_the_loop() -> None:
    release, left = threading.Event(), threading.Event()

    def blocks() -> None:
        release.wait(30)
        left.set()

    async def run() -> None:
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(in_daemon_thread(blocks), 0.01)

    asyncio.run(run())
    assert not left.is_set()
    release.set()
    assert left.wait(10)
