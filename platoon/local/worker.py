"""The one thread that runs torch: jobs in the order they came, token steps between them.

No lock guards models or samplers, because only this thread touches them. One job at most runs between two token steps while
sequences are being sampled, admissions apart, so neither training nor sampling starves the other.
"""

from __future__ import annotations

import asyncio
import os
import queue
import sys
import threading
import traceback
from collections.abc import Callable
from typing import Any, Protocol, TypeVar

Result = TypeVar("Result")

WORKER_LOST_EXIT_CODE = 71


class Stepper(Protocol):
    """What advances between jobs."""

    @property
    def busy(self) -> bool: ...

    def step(self) -> None: ...


class Worker:
    """Runs callables on its thread. Start it once, close it once."""

    def __init__(self, stepper: Stepper, threads: int, deterministic: bool = False) -> None:
        self._stepper = stepper
        self._threads = threads
        self._deterministic = deterministic
        self._jobs: queue.SimpleQueue[tuple[Callable[[], None], bool] | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, name="torch", daemon=True)
        self._works = threading.Event()

    def start(self) -> None:
        self._thread.start()

    def close(self, timeout_s: float = 30.0) -> None:
        """Ends the thread after the jobs before; sequences under way are left. While torch is imported no job has begun: that is
        not waited for."""
        self._jobs.put(None)
        if self._works.is_set():
            self._thread.join(timeout_s)

    def post(self, job: Callable[[], None], light: bool = False) -> None:
        """Queues a job that handles its own errors. Light ones do not count as the one job between token steps."""
        self._jobs.put((job, light))

    def call(self, function: Callable[[], Result]) -> asyncio.Future[Result]:
        """Queues a function and gives a future of the running loop for its result."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Result] = loop.create_future()

        def job() -> None:
            try:
                result = function()
            except Exception as error:
                hand_over(loop, _set_exception, future, error)
            else:
                hand_over(loop, _set_result, future, result)

        self.post(job)
        return future

    def _run(self) -> None:
        import torch

        torch.set_num_threads(self._threads)
        torch.use_deterministic_algorithms(self._deterministic)
        # Filling what is about to be overwritten anyway would cost more than the rest of the mode.
        torch.utils.deterministic.fill_uninitialized_memory = False
        self._works.set()
        try:
            self._work()
        except BaseException:
            # Without this thread no promise would ever be kept: clients must see the process end instead of waiting for ever.
            traceback.print_exc()
            sys.stderr.flush()
            os._exit(WORKER_LOST_EXIT_CODE)

    def _work(self) -> None:
        while True:
            heavy_done = False
            while not heavy_done:
                try:
                    entry = self._jobs.get(block=not self._stepper.busy)
                except queue.Empty:
                    break
                if entry is None:
                    return
                job, light = entry
                job()
                heavy_done = not light
            if self._stepper.busy:
                self._stepper.step()


def hand_over(loop: asyncio.AbstractEventLoop, function: Callable[..., None], *arguments: Any) -> None:
    """Calls `function` on the loop's thread; nothing happens when the loop has ended meanwhile."""
    try:
        loop.call_soon_threadsafe(function, *arguments)
    except RuntimeError:
        if not loop.is_closed():
            raise


def _set_result(future: asyncio.Future[Any], result: Any) -> None:
    if not future.done():
        future.set_result(result)


def _set_exception(future: asyncio.Future[Any], error: Exception) -> None:
    if not future.done():
        future.set_exception(error)
