"""One start, its saves, and resuming: supervised training on the fake service."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from platoon.errors import PlatoonError, ServiceError
from platoon.testing.fake_tinker import FakeStatusError, Killed
from platoon.train.checkpoints.saving import Cadence
from platoon.train.policy.learner import UpdateRejected

pytestmark = pytest.mark.unit


def rows(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_a_run_saves_at_launch_on_its_cadence_and_at_the_end(sft_runs: Any) -> None:
    sft_runs.train(5, Cadence(every=2, recovery_every=1))
    saved = rows(sft_runs.run_dir / "checkpoints.jsonl")
    names = ["recovery-000000", "recovery-000001", "000002", "recovery-000003", "000004", "recovery-000005", "final"]
    assert [row["name"] for row in saved] == names
    assert [row["batch"] for row in saved] == [0, 1, 2, 3, 4, 5, 5]
    assert saved[-1]["final"] is True
    assert saved[-1]["optimizer_steps"] == 5
    assert saved[4]["sft"]["epoch"] == 1 and saved[4]["sft"]["place"] == 1
    assert [row["step"] for row in rows(sft_runs.run_dir / "metrics.jsonl")] == [1, 2, 3, 4, 5]


def test_u81_u82_a_longer_plan_goes_on_with_the_optimizer_at_the_next_batch(
    sft_runs: Any, tmp_path: Path, make_sft_runs: Callable[[Path], Any]
) -> None:
    sft_runs.train(3)
    sft_runs.train(6)
    other = make_sft_runs(tmp_path / "undisturbed")
    other.train(6)
    assert sft_runs.service.named("forward_backward") == other.service.named("forward_backward")
    assert len(sft_runs.service.named("create_training_client_from_state_with_optimizer")) == 1
    assert sft_runs.service.named("create_training_client_from_state") == []
    first, second = (rows(runs.run_dir / "checkpoints.jsonl")[-1] for runs in (sft_runs, other))
    assert first["rows_digest"] == second["rows_digest"]
    weights = [runs.service.checkpoints[row["state_path"]] for runs, row in ((sft_runs, first), (other, second))]
    assert weights[0] == weights[1]


def test_a_finished_run_trains_and_saves_nothing_more(sft_runs: Any) -> None:
    sft_runs.train(3)
    before = len(sft_runs.service.named("optim_step"))
    run = sft_runs.train(3)
    assert run.ended and len(sft_runs.service.named("optim_step")) == before
    assert rows(sft_runs.run_dir / "checkpoints.jsonl")[-1]["name"] == "recovery-000003"


def killing(at: int, moment: str, service: Any) -> None:
    """Ends the caller at the `at`th operation of the service, before or after its effect."""
    left = [at]

    def count(operation: str) -> None:
        left[0] -= 1
        if left[0] == 0:
            raise Killed(operation)

    setattr(service, moment, count)


def undisturbed(runs: Any, steps: int, cadence: Cadence) -> tuple[str, Any]:
    runs.train(steps, cadence)
    last = rows(runs.run_dir / "checkpoints.jsonl")[-1]
    return last["rows_digest"], runs.service.checkpoints[last["state_path"]]


@pytest.mark.parametrize("moment", ["before", "after"])
def test_u81_a_kill_at_any_call_of_the_service_resumes_to_the_same_weights(
    moment: str, tmp_path: Path, make_sft_runs: Callable[[Path], Any]
) -> None:
    cadence = Cadence(recovery_every=2)
    expected = undisturbed(make_sft_runs(tmp_path / "whole"), 4, cadence)
    for at in range(1, 60):
        runs = make_sft_runs(tmp_path / f"kill{at}")
        killing(at, moment, runs.service)
        try:
            runs.train(4, cadence)
        except Killed:
            setattr(runs.service, moment, lambda operation: None)
            assert undisturbed(runs, 4, cadence) == expected, f"killed {moment} call {at}"
            steps = [row["step"] for row in rows(runs.run_dir / "metrics.jsonl")]
            assert steps == [1, 2, 3, 4]
            assert weights_kept(runs) == set()
        else:
            assert at > 15
            return
    raise AssertionError("the run makes more calls than expected")


def test_a_full_disk_while_a_checkpoint_is_written_keeps_the_last_whole_one(sft_runs: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    import platoon.train.checkpoints.saving as saving

    whole = saving.append_json_line

    def full(path: Path, value: Any) -> None:
        if value["name"] == "recovery-000002":
            raise OSError(28, "No space left on device", str(path))
        whole(path, value)

    monkeypatch.setattr(saving, "append_json_line", full)
    with pytest.raises(PlatoonError, match=r"recovery-000002 could not be written: .*No space left"):
        sft_runs.train(3, Cadence(recovery_every=1))
    assert rows(sft_runs.run_dir / "checkpoints.jsonl")[-1]["name"] == "recovery-000001"
    monkeypatch.setattr(saving, "append_json_line", whole)
    assert sft_runs.train(3, Cadence(recovery_every=1)).ended


def weights_kept(runs: Any) -> set[str]:
    """What the service holds beside what rows name, which must all be there."""
    named = {row[key] for row in rows(runs.run_dir / "checkpoints.jsonl") for key in ("state_path", "sampler_path")}
    held = set(runs.service.checkpoints)
    assert named <= held
    return held - named


@pytest.mark.parametrize("operation", ["save_state", "save_weights_for_sampler"])
def test_a_save_that_the_service_refuses_leaves_nothing_on_it(operation: str, sft_runs: Any) -> None:
    def full(name: str) -> None:
        if name == operation and (first or sft_runs.service.named("optim_step")):
            raise FakeStatusError(500, "cannot be written in state/checkpoints: No space left on device")

    first = True
    sft_runs.service.before = full
    with pytest.raises(ServiceError, match=r"No space.*; nothing was trained yet; the same command begins again"):
        sft_runs.train(3, Cadence(recovery_every=1))
    first = False
    with pytest.raises(ServiceError, match=r"in state/checkpoints: No space.*; the last whole checkpoint is kept, and the same"):
        sft_runs.train(3, Cadence(recovery_every=1))
    assert weights_kept(sft_runs) == set()
    sft_runs.service.before = lambda name: None
    assert sft_runs.train(3, Cadence(recovery_every=1)).ended
    assert weights_kept(sft_runs) == set()


def test_what_a_service_could_not_delete_the_next_start_deletes(sft_runs: Any) -> None:
    def full(name: str) -> None:
        if name in {"save_weights_for_sampler", "delete_checkpoint"}:
            raise FakeStatusError(500)

    sft_runs.service.before = full
    with pytest.raises(ServiceError):
        sft_runs.train(1)
    assert len(sft_runs.service.checkpoints) == 1
    sft_runs.service.before = lambda name: None
    assert sft_runs.train(1).ended
    assert weights_kept(sft_runs) == set()


@pytest.mark.parametrize("operation", ["forward_backward", "optim_step", "save_state", "create_lora_training_client"])
def test_a_service_that_dies_ends_every_wait(operation: str, sft_runs: Any) -> None:
    sft_runs.service.hang.add(operation)

    async def train() -> None:
        run = sft_runs.start(3)
        asyncio.get_running_loop().call_later(0.1, run.waits.fail, "it exited with code 1")
        await run.run()

    with pytest.raises(ServiceError, match="it exited with code 1"):
        asyncio.run(asyncio.wait_for(train(), 10))


def test_a_stop_saves_what_is_done_and_leaves_the_rest(sft_runs: Any) -> None:
    run = sft_runs.start(5)
    sft_runs.service.after = lambda operation: run.stop.ask("TERM") if operation == "optim_step" else None
    asyncio.run(run.run())
    assert not run.ended and run.stop.reason == "TERM"
    assert rows(sft_runs.run_dir / "checkpoints.jsonl")[-1]["name"] == "000001_interrupted"
    sft_runs.service.after = lambda operation: None
    assert sft_runs.train(5).ended
    assert [row["step"] for row in rows(sft_runs.run_dir / "metrics.jsonl")] == [1, 2, 3, 4, 5]


def test_an_answer_that_is_not_finite_is_refused_before_the_step_counts(sft_runs: Any) -> None:
    sft_runs.service.optimizer_metrics = {"grad_norm": float("nan")}
    with pytest.raises(UpdateRejected, match="grad_norm"):
        sft_runs.train(2)
    assert rows(sft_runs.run_dir / "checkpoints.jsonl")[-1]["batch"] == 0


def test_a_refused_key_is_one_line_of_configuration(sft_runs: Any) -> None:
    from platoon.errors import ConfigError

    def refuse(operation: str) -> None:
        raise FakeStatusError(401)

    sft_runs.service.before = refuse
    with pytest.raises(ConfigError, match="TINKER_API_KEY"):
        sft_runs.train(1)


def test_checkpoints_the_service_lost_are_passed_over(sft_runs: Any) -> None:
    sft_runs.train(4, Cadence(recovery_every=1))
    saved = rows(sft_runs.run_dir / "checkpoints.jsonl")
    for row in saved[-2:]:
        del sft_runs.service.checkpoints[row["state_path"]]
    run = sft_runs.train(5)
    assert run.start_point.step == 3 and [passed.name for passed in run.start_point.passed_over] == ["final", "recovery-000004"]
    assert json.loads((sft_runs.run_dir / "lock.json").read_text())["policies_restore"] == ["final", "recovery-000004"]
    assert run.ended


def test_a_checkpoint_the_service_cannot_read_gives_way_to_the_one_before(sft_runs: Any) -> None:
    sft_runs.train(4, Cadence(recovery_every=1))
    newest = rows(sft_runs.run_dir / "checkpoints.jsonl")[-2:]

    def refuse(operation: str) -> None:
        if operation == "create_training_client_from_state_with_optimizer" and left:
            raise FakeStatusError(500, f"checkpoint {left.pop()} is damaged")

    left = ["b", "a"]
    sft_runs.service.before = refuse
    run = sft_runs.train(5)
    assert not left
    assert [passed.name for passed in run.start_point.passed_over] == [row["name"] for row in reversed(newest)]
    assert run.start_point.step == 3
    assert "checkpoint a is damaged" in sft_runs.console.getvalue()
    assert run.ended
