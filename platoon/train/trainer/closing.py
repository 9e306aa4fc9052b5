"""Closing: what was opened is closed last first, on every path, each within a bound; the first error is the one that is raised."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

CLOSE_TIMEOUT_S = 120.0


class Closing:
    """A stack of named closers around a piece of work."""

    def __init__(self) -> None:
        self._closers: list[tuple[str, Callable[[], Any]]] = []

    def add(self, name: str, closer: Callable[[], Any]) -> None:
        """closer: a function, or a coroutine function; called once."""
        self._closers.append((name, closer))

    async def run(self, work: Callable[[], Awaitable[None]]) -> None:
        """Does the work and closes. The work's error is raised unchanged, with what closing raised as notes."""
        error: BaseException | None = None
        try:
            await work()
        except BaseException as raised:
            error = raised
        notes: list[BaseException] = []
        while self._closers:
            name, closer = self._closers.pop()
            try:
                done = closer()
                if done is not None:
                    await asyncio.wait_for(done, CLOSE_TIMEOUT_S)
            except Exception as raised:
                raised.add_note(f"while closing {name}")
                notes.append(raised)
        if error is None and notes:
            error, notes = notes[0], notes[1:]
        if error is not None:
            for note in notes:
                error.add_note(f"{note.__notes__[-1]}: {type(note).__name__}: {note}")
            raise error
