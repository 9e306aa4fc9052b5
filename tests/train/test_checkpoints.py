"""Names and cadence of saves, participants, and what pruning may take."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from platoon.errors import ConfigError
from platoon.train.checkpoints.participants import Participants
from platoon.train.checkpoints.pruning import prunable
from platoon.train.checkpoints.saving import Cadence

pytestmark = pytest.mark.unit


class Part:
    def __init__(self, name: str, keys: Sequence[str]) -> None:
        self.name, self.keys = name, keys

    def capture(self) -> Any:
        return lambda name: dict.fromkeys(self.keys, name)

    def restore(self, row: Mapping[str, Any]) -> None: ...


@pytest.mark.parametrize(
    ("cadence", "names"),
    [
        (Cadence(), [None, None, None, None]),
        (Cadence(every=2), [None, "000002", None, "000004"]),
        (Cadence(recovery_every=1), ["recovery-000001", "recovery-000002", "recovery-000003", "recovery-000004"]),
        (Cadence(every=3, recovery_every=2), [None, "recovery-000002", "000003", "recovery-000004"]),
        (Cadence(every=1, unit_steps=1.5), [None, "000002", "000003", None]),
        (Cadence(every=2, unit_steps=1.5), [None, None, "000003", None]),
    ],
)
def test_a_permanent_save_takes_a_recovery_saves_place(cadence: Cadence, names: list[str | None]) -> None:
    assert [cadence.name(step) for step in (1, 2, 3, 4)] == names


@pytest.mark.parametrize("key", ["batch", "policies", "commit_seq", "state_path", "policy_version"])
def test_c2_reserved_keys_are_refused(key: str) -> None:
    with pytest.raises(ConfigError, match=f"'mine' asks for the reserved key '{key}'"):
        Participants().register(Part("mine", [key]))


def test_c2_a_claimed_key_and_a_hooks_reach_are_refused() -> None:
    participants = Participants()
    participants.register(Part("first", ["sft"]))
    with pytest.raises(ConfigError, match="the key 'sft' of 'first'"):
        participants.register(Part("second", ["sft"]))
    with pytest.raises(ConfigError, match="reserved key 'dispatch'"):
        participants.register(Part("hook", ["dispatch"]), hook=True)
    participants.register(Part("trainer", ["dispatch"]))


def test_c3_a_key_that_nobody_reads_is_fatal() -> None:
    participants = Participants()
    participants.register(Part("first", ["sft"]))
    participants.check({"name": "x", "batch": 1, "sft": {}}, "file")
    with pytest.raises(ConfigError, match="holds dispatch, which no part of this run reads"):
        participants.check({"name": "x", "dispatch": {}}, "file")


def row(name: str, version: int) -> dict[str, Any]:
    return {"name": name, "state_path": f"tinker://{name}", "sampler_path": "", "policy_version": version}


def test_pruning_leaves_the_newest_the_permanent_and_what_is_sampled() -> None:
    rows = [row(f"recovery-{index:06d}", index) for index in range(5)] + [row("000005", 5)]
    assert [found["name"] for found in prunable(rows, 2, 0, 5)] == ["recovery-000000", "recovery-000001", "recovery-000002"]
    assert [found["name"] for found in prunable(rows, 2, 3, 5)] == ["recovery-000000", "recovery-000001"]
    assert prunable(rows[:1], 1, None, 5) == []
    assert len(prunable(rows, 2, None, 0)) == 3


def test_a_run_prunes_beside_training(sft_runs: Any) -> None:
    sft_runs.train(6, Cadence(recovery_every=1), keep_recovery=2)
    deleted = sft_runs.service.named("delete_checkpoint")
    assert deleted and all("recovery-" in path for path in deleted)
    assert sft_runs.train(7, Cadence(recovery_every=1), keep_recovery=2).ended


def test_waiting_for_a_save_is_not_ended_by_a_cancelled_loop(sft_runs: Any, tmp_path: Path) -> None:
    """A start that is cancelled leaves no row without weights."""
    run = sft_runs.start(3, Cadence(recovery_every=1))
    sft_runs.service.hang.add("save_weights_for_sampler")

    async def cancel() -> None:
        task = asyncio.create_task(run.run())
        await asyncio.sleep(0.2)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    asyncio.run(cancel())
    assert not (sft_runs.run_dir / "checkpoints.jsonl").exists()
