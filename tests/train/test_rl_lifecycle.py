"""Reinforcement learning on fake services: exact resume, several policies, staleness, stops."""

from __future__ import annotations

import asyncio
import hashlib
import json
import re
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from platoon.core.outcome import Outcome
from platoon.errors import ConfigError, PlatoonError, ServiceError
from platoon.testing.fake_tinker import Killed
from platoon.train.checkpoints.dispatch_state import DispatchState
from platoon.train.checkpoints.saving import Cadence
from platoon.train.dispatch.dispatcher import DispatchSettings
from platoon.train.metrics import undeclared
from platoon.train.trainer.metrics_log import read_metrics
from platoon.train.trainer.receipt import finished_row, refuse_unmeasured
from tests.train.rl_runs import ONE_POLICY, THREE_POLICIES, RlRuns

pytestmark = pytest.mark.unit

CADENCE = Cadence(recovery_every=2)


def rows(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def digests(runs: RlRuns) -> list[str]:
    return [row["rows_digest"] for row in read_metrics(runs.run_dir)]


def ends(runs: RlRuns) -> dict[str, Any]:
    """The weights of every trained policy at the last checkpoint."""
    row = rows(runs.run_dir / "checkpoints.jsonl")[-1]
    entries = {"main": row, **row.get("policies", {})}
    found = {}
    for policy, entry in entries.items():
        service = runs.services[f"http://{policy}" if policy != "main" else None]
        found[policy] = service.checkpoints[entry["state_path"]]
    return found


def test_a_run_publishes_each_step_and_its_metrics_are_declared(tmp_path: Path) -> None:
    runs = RlRuns(tmp_path)
    runs.train(4, CADENCE)
    assert [row["policy_version"] for row in rows(runs.run_dir / "checkpoints.jsonl")] == [0, 2, 4, 4]
    found = read_metrics(runs.run_dir)
    assert [row["step"] for row in found] == [1, 2, 3, 4]
    assert all(undeclared(row) == [] for row in found)
    assert found[0]["train/rollouts"] == 8 and found[0]["train/staleness/max"] == 0


def test_nothing_is_left_of_a_run(tmp_path: Path) -> None:
    RlRuns(tmp_path).train(2, CADENCE)
    assert not [path for path in (tmp_path / "run").rglob("*") if path.name.startswith(".")]


@pytest.mark.parametrize("policies", [ONE_POLICY, THREE_POLICIES], ids=["one", "three"])
def test_u81_a_kill_at_any_call_of_any_service_trains_the_same_rows(policies: Mapping[str, Any], tmp_path: Path) -> None:
    whole = RlRuns(tmp_path / "whole", policies)
    whole.train(4, CADENCE)
    calls = sum(len(service.calls) for service in whole.services.values())
    for at in range(2, calls, 2 if policies is ONE_POLICY else 5):
        runs = RlRuns(tmp_path / f"kill{at}", policies)
        left = [at]

        def kill(operation: str, left: list[int] = left) -> None:
            left[0] -= 1
            if left[0] == 0:
                raise Killed(operation)

        for service in runs.services.values():
            service.after = kill
        with pytest.raises(Killed):
            runs.train(4, CADENCE)
        for service in runs.services.values():
            service.after = lambda operation: None
        runs.train(4, CADENCE)
        assert digests(runs) == digests(whole), f"killed after call {at}"
        assert ends(runs) == ends(whole)


@pytest.mark.parametrize("stale_filter", ["group", "datum"])
def test_rollouts_may_span_publications_and_each_step_appears_once_after_a_kill(stale_filter: str, tmp_path: Path) -> None:
    runs = RlRuns(tmp_path, max_staleness=2, stale_filter=stale_filter)
    left = [30]

    def kill(operation: str) -> None:
        left[0] -= 1
        if left[0] == 0:
            raise Killed(operation)

    runs.service.after = kill
    with pytest.raises(Killed):
        runs.train(8, CADENCE)
    runs.service.after = lambda operation: None
    assert runs.train(8, CADENCE).ended
    found = read_metrics(runs.run_dir)
    assert [row["step"] for row in found] == list(range(1, 9))
    assert 0 < max(row["train/staleness/max"] for row in found) <= 2


def test_two_trained_policies_and_a_frozen_one(tmp_path: Path) -> None:
    runs = RlRuns(tmp_path, THREE_POLICIES)
    runs.train(3, CADENCE)
    main, helper, judge = runs.service, runs.services["http://helper"], runs.services["http://judge"]
    assert len(main.named("optim_step")) == len(helper.named("optim_step")) == 3
    assert set(helper.named("optim_step")) == {1e-3}
    assert judge.named("forward_backward") == [] and judge.checkpoints == {}
    sent = {bytes(tokens[:6]) for call in helper.named("forward_backward") for tokens in call}
    assert sent == {b"task-0"[:6]} | {f"task-{index}".encode()[:6] for index in range(6)}
    text = b"".join(bytes(tokens) for call in helper.named("forward_backward") for tokens in call)
    assert b" helper" in text and b" policy" not in text and b" judge" not in text
    last = rows(runs.run_dir / "checkpoints.jsonl")[-1]
    own = rows(runs.run_dir / "policies" / "helper" / "checkpoints.jsonl")[-1]
    assert last["policies"]["helper"]["state_path"] == own["state_path"]
    assert last["policies"]["helper"]["policy_version"] == 3
    assert "policies/helper/batch/rows_sent" in read_metrics(runs.run_dir)[-1]


def test_a_kill_between_the_two_saves_of_a_commit_goes_back_to_the_commit_before(tmp_path: Path) -> None:
    whole = RlRuns(tmp_path / "whole", THREE_POLICIES)
    whole.train(4, CADENCE)
    runs = RlRuns(tmp_path / "killed", THREE_POLICIES)
    saves = []

    def kill(operation: str) -> None:
        if operation == "save_state":
            saves.append(operation)
            if len(saves) == 2:
                raise Killed(operation)

    runs.service.before = kill
    with pytest.raises(Killed):
        runs.train(4, CADENCE)
    own = rows(runs.run_dir / "policies" / "helper" / "checkpoints.jsonl")
    assert [row["name"] for row in own] == ["recovery-000000", "recovery-000002"]
    assert [row["name"] for row in rows(runs.run_dir / "checkpoints.jsonl")] == ["recovery-000000"]
    runs.service.before = lambda operation: None
    run = runs.train(4, CADENCE)
    assert run.start_point.step == 0
    assert digests(runs) == digests(whole) and ends(runs) == ends(whole)


def test_a_stop_in_the_middle_of_a_step_keeps_its_groups(tmp_path: Path) -> None:
    whole = RlRuns(tmp_path / "whole", num_microbatches=2)
    whole.train(3, CADENCE)
    runs = RlRuns(tmp_path / "stopped", num_microbatches=2)
    run = runs.start(3, CADENCE)
    sent = []

    def stop(operation: str) -> None:
        if operation == "forward_backward":
            sent.append(operation)
            if len(sent) == 3:
                run.stop.ask("TERM")

    runs.service.after = stop
    asyncio.run(run.run())
    saved = rows(runs.run_dir / "checkpoints.jsonl")[-1]
    assert saved["name"] == "000001_interrupted"
    assert json.loads((runs.run_dir / saved["dispatch"]["file"]).read_text())["kept"]["groups"]
    runs.service.after = lambda operation: None
    runs.train(3, CADENCE)
    assert digests(runs) == digests(whole) and ends(runs) == ends(whole)


def test_groups_of_a_first_step_that_is_stopped_are_kept(tmp_path: Path) -> None:
    runs = RlRuns(tmp_path, num_microbatches=4)
    run = runs.start(2, CADENCE)
    runs.service.after = lambda operation: run.stop.ask("budget") if operation == "forward_backward" else None
    asyncio.run(run.run())
    saved = rows(runs.run_dir / "checkpoints.jsonl")
    assert [row["name"] for row in saved] == ["recovery-000000", "000000_interrupted"]
    assert json.loads((runs.run_dir / saved[-1]["dispatch"]["file"]).read_text())["kept"]["groups"]
    runs.service.after = lambda operation: None
    assert runs.train(2, CADENCE).ended


def test_a_service_that_dies_while_groups_are_awaited_ends_the_run(tmp_path: Path) -> None:
    runs = RlRuns(tmp_path)

    async def train() -> None:
        run = runs.start(3, CADENCE)
        runs.service.after = lambda operation: run.waits.fail("gone") if operation == "optim_step" else None
        await run.run()

    with pytest.raises(ServiceError, match="gone"):
        asyncio.run(asyncio.wait_for(train(), 10))
    runs.service.after = lambda operation: None
    assert runs.train(3, CADENCE).ended


def state_file(runs: RlRuns, row: int = -1) -> Path:
    return runs.run_dir / rows(runs.run_dir / "checkpoints.jsonl")[row]["dispatch"]["file"]


def stop_in_second_step(runs: RlRuns, steps: int) -> None:
    """A start that saves at 0, 1 and, interrupted in its second step, at 1 once more with groups that wait."""
    run = runs.start(steps, Cadence(recovery_every=1))
    sent: list[str] = []

    def stop(operation: str) -> None:
        if operation == "forward_backward":
            sent.append(operation)
            if len(sent) == 3:
                run.stop.ask("TERM")

    runs.service.after = stop
    asyncio.run(run.run())
    runs.service.after = lambda operation: None


def rewritten(path: Path, data: bytes) -> None:
    path.chmod(0o644)
    path.write_bytes(data)


def waiting_group(runs: RlRuns) -> Path:
    """A group that the newest checkpoint keeps and those before do not have."""
    newest, before = (DispatchState.from_dict(json.loads(state_file(runs, row).read_text())).digests for row in (-1, -2))
    return runs.run_dir / "tasks/groups" / min(newest - before).removeprefix("sha256:")


DAMAGES = {
    "state_gone": lambda runs: state_file(runs).unlink(),
    "state_changed": lambda runs: rewritten(state_file(runs), state_file(runs).read_bytes().replace(b"next", b"prev")),
    "state_cut": lambda runs: rewritten(state_file(runs), state_file(runs).read_bytes()[:-9]),
    "group_gone": lambda runs: waiting_group(runs).with_suffix(".json").unlink(),
    "group_cut": lambda runs: rewritten(waiting_group(runs).with_suffix(".json"), b"{"),
    "rows_gone": lambda runs: waiting_group(runs).with_suffix(".arrow").unlink(),
    "rows_cut": lambda runs: rewritten(waiting_group(runs).with_suffix(".arrow"), b"ARROW1"),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_draws_that_are_lost_take_their_checkpoint_out_and_the_one_before_trains_the_same_rows(damage: str, tmp_path: Path) -> None:
    whole = RlRuns(tmp_path / "whole", num_microbatches=2)
    whole.train(3, CADENCE)
    runs = RlRuns(tmp_path / "damaged", num_microbatches=2)
    stop_in_second_step(runs, 3)
    assert [row["name"] for row in rows(runs.run_dir / "checkpoints.jsonl")][-2:] == ["recovery-000001", "000001_interrupted"]
    DAMAGES[damage](runs)
    run = runs.train(3, CADENCE)
    [passed] = run.start_point.passed_over
    assert passed.name == "000001_interrupted" and str(runs.run_dir / "tasks") in passed.reason and run.start_point.step == 1
    assert json.loads((runs.run_dir / "lock.json").read_text())["policies_restore"] == ["000001_interrupted"]
    assert digests(runs) == digests(whole) and ends(runs) == ends(whole)


def test_a_checkpoint_without_its_draws_is_no_start_point(tmp_path: Path) -> None:
    runs = RlRuns(tmp_path)
    runs.train(2, CADENCE)
    log = runs.run_dir / "checkpoints.jsonl"
    *before, newest = rows(log)
    del newest["dispatch"]
    log.write_text("".join(f"{json.dumps(row)}\n" for row in (*before, newest)))
    run = runs.train(3, CADENCE)
    assert [passed.reason for passed in run.start_point.passed_over] == ["it names no draws"] and run.ended


def test_without_one_whole_checkpoint_a_start_is_refused_and_says_what_the_newest_lacks(tmp_path: Path) -> None:
    runs = RlRuns(tmp_path)
    runs.train(2, CADENCE)
    newest = state_file(runs)
    for file in (runs.run_dir / "tasks").glob("dispatch-*.json"):
        file.unlink()
    with pytest.raises(ConfigError, match=rf"none of its 3 checkpoints can .* newest, final: .*{newest.name}.*not there"):
        runs.train(3, CADENCE)


def test_draws_that_cannot_be_read_now_cost_no_checkpoint(tmp_path: Path) -> None:
    """A file system that is away is no reason to throw work away."""
    runs = RlRuns(tmp_path)
    runs.train(2, CADENCE)
    file = state_file(runs)
    held = file.rename(tmp_path / "held.json")
    file.symlink_to(file)
    with pytest.raises(PlatoonError, match=f"{file.name}.*cannot be read.*same command") as refusal:
        runs.train(3, CADENCE)
    assert refusal.value.exit_code == 1
    file.unlink()
    held.rename(file)
    run = runs.train(3, CADENCE)
    assert run.start_point.step == 2 and not run.start_point.passed_over


def test_draws_of_another_version_are_refused_and_cost_no_checkpoint(tmp_path: Path) -> None:
    runs = RlRuns(tmp_path)
    runs.train(2, CADENCE)
    log, file = runs.run_dir / "checkpoints.jsonl", state_file(runs)
    data = file.read_bytes().replace(b'"format": 2', b'"format": 3')
    rewritten(file, data)
    *before, newest = rows(log)
    newest["dispatch"]["sha256"] = hashlib.sha256(data).hexdigest()
    log.write_text("".join(f"{json.dumps(row)}\n" for row in (*before, newest)))
    with pytest.raises(ConfigError, match="format 3 cannot be read by this version"):
        runs.train(3, CADENCE)


GATEWAY = "the harness ended with exit code 1; BadRequestError: 400 max_tokens=4096 exceed the context"
FAULTS = {
    "error": (Outcome.infra("harness_crash", metadata={"detail": GATEWAY}), f"harness_crash: {GATEWAY}"),
    "overflow": (
        Outcome("scored", {"reward": 0.0}, reason="context_overflow", metadata={"detail": "16 tokens"}),
        "graded without one model call to train on: context_overflow: 16 tokens",
    ),
    "timeout": (Outcome("timeout", reason="agent_timeout", metadata={"detail": "503"}), "timeout: agent_timeout: 503"),
}


@pytest.mark.parametrize("steps", [1, 2])
@pytest.mark.parametrize("fault", FAULTS)
def test_a_plan_without_one_measured_rollout_is_no_finished_run(
    fault: str, steps: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("platoon.train.dispatch.setup.DispatchSettings", partial(DispatchSettings, retry_pauses_s=()))
    runs = RlRuns(tmp_path, batch_size=1)
    runs.faults = dict.fromkeys(range(steps), FAULTS[fault][0])
    for _ in range(2):
        with pytest.raises(PlatoonError, match=rf"not one rollout.*task 'task-.*{re.escape(FAULTS[fault][1])}") as error:
            runs.train(steps, CADENCE)
        assert error.value.exit_code == 1 and finished_row(runs.run_dir, steps) is None
    # What failed is played again, not lost.
    runs.faults = {}
    runs.train(steps, CADENCE)
    row = finished_row(runs.run_dir, steps)
    assert row is not None
    refuse_unmeasured("main", runs.run_dir, row)
    assert len(runs.service.named("optim_step")) == steps


def test_groups_without_a_row_end_the_run_long_before_its_plan(tmp_path: Path) -> None:
    """A window that no prompt fits into: every rollout is graded, none of them says a token."""
    runs = RlRuns(tmp_path, batch_size=2)
    runs.faults = dict.fromkeys(range(1000), FAULTS["overflow"][0])
    with pytest.raises(PlatoonError, match=r"4 groups in a row gave nothing to train on; the newest, task 'task-.*16 tokens"):
        runs.train(500, CADENCE)
    assert not runs.service.named("optim_step")


def test_one_measured_rollout_of_any_start_is_enough(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("platoon.train.dispatch.setup.DispatchSettings", partial(DispatchSettings, retry_pauses_s=()))
    runs = RlRuns(tmp_path, batch_size=1)
    runs.train(1, CADENCE)
    runs.faults = dict.fromkeys(range(1, 3), FAULTS["error"][0])
    assert runs.train(3, CADENCE).ended


def test_a_row_of_steps_that_measured_nothing_gives_no_receipt(tmp_path: Path) -> None:
    (tmp_path / "metrics.jsonl").write_text('{"step": 1, "train/rollouts": 8}\n{"step": 2, "train/reward": 0.0}\n')
    refuse_unmeasured("main", tmp_path, {"batch": 2})
    (tmp_path / "metrics.jsonl").write_text('{"step": 1, "train/reward": 0.0, "batch/rows": 0}\n')
    with pytest.raises(PlatoonError, match="not one rollout of its 1 step gave anything"):
        refuse_unmeasured("main", tmp_path, {"batch": 1})
