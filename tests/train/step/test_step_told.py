"""What a step tells a person while it takes its groups."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from platoon.train.step import step as module
from platoon.train.step.step import TrainStep

pytestmark = pytest.mark.unit


def test_each_group_counts_as_soon_as_it_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    """The last one too: what follows it is training, not a wait for it."""
    told: list[str] = []

    class Waits:
        async def alive(self, group: Any, what: str) -> Any:
            told.append(f"waiting for {what}")
            return await group

    async def take(interruptible: bool) -> object:
        return object()

    monkeypatch.setattr(module, "judge", lambda *arguments: object())
    settings: Any = SimpleNamespace(batch_size=2)
    waits: Any = Waits()
    source: Any = SimpleNamespace(take=take)
    step = TrainStep(source, {}, settings, waits, told.append)

    async def both() -> None:
        await step._take()
        await step._take()

    asyncio.run(both())
    assert [text for text, before in zip(told, ["", *told], strict=False) if text != before] == [
        "0 of 2 groups",
        "waiting for a group of rollouts",
        "1 of 2 groups",
        "waiting for a group of rollouts",
        "2 of 2 groups",
    ]
