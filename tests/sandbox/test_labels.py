"""The register of live sandboxes and the guarded start."""

from __future__ import annotations

import asyncio
import json
import os
from pathlib import Path
from typing import Any

import pytest

from platoon.sandbox.base import SandboxesShutDown, SandboxSpec
from platoon.sandbox.labels import LIVE, LiveSandboxes, start_guarded

pytestmark = pytest.mark.unit


class FakeSandbox:
    id = "fake"

    def __init__(self, error: Exception | None = None) -> None:
        self.stops, self.error = 0, error

    async def stop(self) -> None:
        self.stops += 1
        if self.error:
            raise self.error


class FakeProvider:
    """Starts what it is told to; `entered` is set once a start runs."""

    name = "fake"
    capabilities: frozenset[str] = frozenset()

    def __init__(self, behaviour: str = "gives") -> None:
        self.options: dict[str, Any] = {"behaviour": behaviour}
        self.sandbox = FakeSandbox()
        self.entered = asyncio.Event()
        self.spec: SandboxSpec | None = None

    async def start(self, spec: SandboxSpec) -> Any:
        self.spec = spec
        self.entered.set()
        match self.options["behaviour"]:
            case "hangs":
                await asyncio.sleep(300)
            case "stubborn":
                # As a runtime whose start cannot be taken back midway.
                try:
                    await asyncio.sleep(300)
                except asyncio.CancelledError:
                    await asyncio.sleep(0.01)
            case "fails":
                raise OSError("no space")
            case "leaves":
                error = OSError("may have left something")
                error.may_remain = True  # type: ignore[attr-defined]
                raise error
        return self.sandbox


def test_labels_of_the_process_and_of_blocks_reach_the_spec_and_choose_the_record(tmp_path: Path):
    async def main():
        live, provider = LiveSandboxes(), FakeProvider()
        live.labels = {"platoon.run": "/runs/a"}
        live.mirror_to(tmp_path / "records.json")
        with live.labelled({"platoon.worker": "7"}):
            started = await start_guarded(provider, SandboxSpec("x", labels={"own": "1"}), live=live)
        assert provider.spec.labels == {"own": "1", "platoon.run": "/runs/a", "platoon.worker": "7"}
        records = json.loads((tmp_path / "records.json").read_text())
        assert records[0]["labels"] == {"platoon.run": "/runs/a", "platoon.worker": "7"}
        assert records[0]["provider"].endswith(":FakeProvider") and records[0]["options"] == {"behaviour": "gives"}
        assert (tmp_path / "records.json").stat().st_mode & 0o777 == 0o600
        await started.stop()
        assert json.loads((tmp_path / "records.json").read_text()) == [] and live.live() == []

    asyncio.run(main())


def test_records_are_distinct_and_need_labels():
    live = LiveSandboxes()
    live.register("m:C", {}, {})
    live.register("m:C", {}, {"a": "1"})
    live.register("m:C", {}, {"a": "1"})
    assert live.records() == [{"provider": "m:C", "options": {}, "labels": {"a": "1"}}]


@pytest.mark.parametrize("behaviour", ["hangs", "stubborn"])
def test_u75_a_start_cancelled_midway_is_stopped(behaviour: str):
    async def main():
        live, provider = LiveSandboxes(), FakeProvider(behaviour)
        task = asyncio.create_task(start_guarded(provider, SandboxSpec("x", labels={"a": "1"}), live=live))
        await provider.entered.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert provider.sandbox.stops == (1 if behaviour == "stubborn" else 0)
        assert live.records() == []

    asyncio.run(main())


@pytest.mark.parametrize("behaviour", ["hangs", "stubborn"])
def test_u77_a_hung_start_has_its_own_bound(behaviour: str):
    async def main():
        live, provider = LiveSandboxes(), FakeProvider(behaviour)
        with pytest.raises(TimeoutError, match=r"within 0\.05 s"):
            await start_guarded(provider, SandboxSpec("x", labels={"a": "1"}), budget_s=0.05, live=live)
        assert provider.sandbox.stops == (1 if behaviour == "stubborn" else 0)
        assert live.records() == []

    asyncio.run(main())


@pytest.mark.parametrize(("behaviour", "registered"), [("fails", 0), ("leaves", 1)])
def test_a_failed_start_stays_registered_only_when_something_may_remain(behaviour: str, registered: int):
    async def main():
        live = LiveSandboxes()
        with pytest.raises(OSError):
            await start_guarded(FakeProvider(behaviour), SandboxSpec("x", labels={"a": "1"}), live=live)
        assert len(live.records()) == registered

    asyncio.run(main())


def test_after_shut_down_starts_raise_and_stops_work():
    async def main():
        live, provider = LiveSandboxes(), FakeProvider()
        await start_guarded(provider, SandboxSpec("x"), live=live)
        live.shut_down()
        with pytest.raises(SandboxesShutDown):
            await start_guarded(FakeProvider(), SandboxSpec("x"), live=live)
        assert await live.stop_live(5) == 1 and provider.sandbox.stops == 1 and live.live() == []

    asyncio.run(main())


def test_a_stop_that_fails_stays_registered():
    async def main():
        live, provider = LiveSandboxes(), FakeProvider()
        provider.sandbox.error = RuntimeError("busy")
        await start_guarded(provider, SandboxSpec("x", labels={"a": "1"}), live=live)
        assert await live.stop_live(5) == 0 and len(live.records()) == 1

    asyncio.run(main())


def test_a_forked_child_does_not_own_what_its_parent_started():
    token = LIVE.register("m:C", {}, {"a": "1"})
    try:
        child = os.fork()
        if child == 0:
            os._exit(0 if LIVE.records() == [] else 1)
        assert os.waitpid(child, 0)[1] == 0
        assert len(LIVE.records()) == 1
    finally:
        LIVE.unregister(token)
