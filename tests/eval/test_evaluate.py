from __future__ import annotations

import asyncio
import io
import json
import os
import shutil
import signal
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from platoon import exits
from platoon.artifacts.receipts import read_receipt
from platoon.core.outcome import Outcome
from platoon.errors import ConfigError, PlatoonError, Problem, ServiceError
from platoon.eval.config_defs import EvaluationConfig
from platoon.eval.launch import EvalRequest, evaluate
from platoon.eval.opening import OpenedPolicy
from platoon.eval.plan import PlannedRollout, plan_rollouts, safe_name
from platoon.eval.results import Weights, provenance, weights_of
from platoon.host.console import Console
from platoon.host.processes import ProcessIdentity, this_process
from platoon.train.components.entries import EntryTasks
from platoon.train.run_directory.lease import live_holder
from platoon.train.trainer.signals import StopRequest
from tests.processes import wait_for

pytestmark = pytest.mark.unit

ENTRY = {"service": "harbor", "harness": "platoon-bash"}


@dataclass(frozen=True)
class Played:
    outcome: Outcome
    rollout_id: str = "r"
    trajectories: tuple[Any, ...] = ()
    seconds: dict[str, float] = field(default_factory=lambda: {"total": 2.0, "grade": 0.5})
    tokens: dict[str, int] = field(default_factory=lambda: {"prompt": 10, "completion": 4})
    calls: int = 2


def scored(reward: float, parsed: float = 1.0) -> Played:
    return Played(Outcome("scored", {"reward": reward, "parsed": parsed}, metadata={"test_output": "1 passed"}))


class Evaluation:
    """An evaluation without service and sandboxes. `played` lists what was asked for."""

    def __init__(self, directory: Path, results: Any, *, died: Any = None, per_task: int = 2, **inference: Any) -> None:
        values = {
            "inference": {
                "model_name": "local/small",
                "renderer_name": "chat_template",
                "workflow": {"num_rollouts_per_task": per_task, "num_concurrent_workers": 2},
                **inference,
            },
            "environments": [ENTRY],
            "tinker_base_url": "local",
            "seed": 7,
        }
        self.config = EvaluationConfig.model_validate(values)
        entries = (EntryTasks(self.config.environments[0], None, ("a", "b/c")),)  # type: ignore[arg-type]
        weights = Weights("tinker://x/sampler_weights/final", "sha256:w", "main", 8, 9)
        self.request = EvalRequest(
            self.config, "after", weights, entries, directory / "out", directory, receipt=directory / "eval.json"
        )
        self.results, self.died = results, died
        self.played: list[PlannedRollout] = []
        self.opened = self.most = self.running = 0
        self.told = ""

    def run(self, **changes: Any) -> int:
        told = io.StringIO()
        with Console(told) as console:
            try:
                return evaluate(replace(self.request, **changes), console, self._open, self._player)
            finally:
                self.told = told.getvalue()

    @asynccontextmanager
    async def _player(self, request: EvalRequest, opened: OpenedPolicy):
        yield self._play

    @asynccontextmanager
    async def _open(self, request: Any):
        self.opened += 1
        yield OpenedPolicy(None, self.died)  # type: ignore[arg-type]

    async def _play(self, rollout: PlannedRollout, directory: Path) -> Played:
        self.played.append(rollout)
        self.running += 1
        self.most = max(self.most, self.running)
        try:
            await asyncio.sleep(0)
            result = self.results(rollout)
            if asyncio.iscoroutine(result):
                result = await result
        finally:
            self.running -= 1
        messages = [{"role": "assistant", "content": f"{rollout.task_id} {rollout.index}"}]
        shown = [{"role": "tool", "content": "seen"}]
        root = {
            "task": {"goal": "do it"},
            "misc": {},
            "steps": [{"misc": {"message": item, "observed": shown}} for item in messages],
        }
        (directory / "trajectories").mkdir()
        (directory / "trajectories" / "r-1.json").write_text(json.dumps({"id": "x", "trajectories": {"t": root}}))
        return result


def rewards(rollout: PlannedRollout) -> Played:
    return scored({("a", 0): 1.0, ("a", 1): 0.5, ("b/c", 0): 0.0}.get((rollout.task_id, rollout.index), 0.25))


def test_an_evaluation_reports_means_components_and_one_example(tmp_path: Path) -> None:
    together = asyncio.Barrier(2)

    async def meet(rollout: PlannedRollout) -> Played:
        await together.wait()
        return rewards(rollout)

    evaluation = Evaluation(tmp_path, meet)
    assert evaluation.run() == exits.DONE
    assert evaluation.most == 2
    receipt = read_receipt(tmp_path / "eval.json", "evaluation")
    assert (receipt["run"], receipt["step"], receipt["seed"], receipt["name"]) == ("main", 8, 7, "after")
    figures = receipt["figures"]
    assert (figures["reward_mean"], figures["rollouts"], figures["valid"], figures["errored"]) == (0.4375, 4, 4, 0)
    assert figures["components"] == {"parsed": 1.0, "reward": 0.4375}
    assert figures["tokens"] == {"completion": 16, "prompt": 40}
    assert figures["outcomes"] == {"scored": 4}
    assert receipt["tasks"] == [
        {"task": "a", "reward_mean": 0.75, "rollouts": 2},
        {"task": "b/c", "reward_mean": 0.125, "rollouts": 2},
    ]
    assert receipt["example"]["task"] == "a"
    assert receipt["example"]["messages"] == [
        {"role": "tool", "content": "seen"},
        {"role": "assistant", "content": "a 0"},
    ]
    assert receipt["example"]["test_output"] == "1 passed"
    report = json.loads((tmp_path / "out" / "reports" / "final_report.json").read_text())
    assert report["summary"]["success_rate"] == 0.25
    assert report["summary"]["success_at_k"] == 0.5
    lines = (tmp_path / "out" / "reports" / "task_results.jsonl").read_text().splitlines()
    assert [json.loads(line)["task_id"] for line in lines] == ["a", "b/c"]


def test_the_last_line_says_where_the_report_is(tmp_path: Path) -> None:
    evaluation, told = Evaluation(tmp_path, rewards), io.StringIO()
    with Console(told) as console:
        evaluate(evaluation.request, console, evaluation._open, evaluation._player)
    assert "longest wait for a sample: 600 s (default)" in told.getvalue().splitlines()
    assert told.getvalue().splitlines()[-1] == f"report in {tmp_path / 'out/reports'}"
    assert (tmp_path / "out/reports/final_report.json").is_file()


def test_nothing_is_waited_for_once_all_rollouts_are_done(tmp_path: Path) -> None:
    seen: list[tuple[str, str]] = []

    class Seen(Console):
        def progress(self, stage: str, detail: str = "", waiting_for: str = "", *, patience_s: float = 0.0) -> None:
            seen.append((detail, waiting_for))

    evaluation = Evaluation(tmp_path, rewards)
    with Seen(io.StringIO()) as console:
        evaluate(evaluation.request, console, evaluation._open, evaluation._player)
    waits = [waiting_for for detail, waiting_for in seen if " of 4 rollouts" in detail]
    assert waits == ["rollouts"] * 4 + [""]


def test_the_same_seeds_before_and_after_whatever_else_is_in_the_split() -> None:
    before = plan_rollouts([("default", ("a", "b"))], 2)
    after = plan_rollouts([("default", ("new", "b", "a"))], 3)
    keys = {(item.task_id, item.index): item.position for item in after}
    assert all(keys[item.task_id, item.index] == item.position for item in before)
    assert len({item.position for item in after}) == 3
    assert [item.task_id for item in before] == ["a", "b", "a", "b"]


def test_only_a_measurement_counts(tmp_path: Path) -> None:
    kinds = {("a", 0): "invalid", ("a", 1): "timeout", ("b/c", 0): "error"}

    def results(rollout: PlannedRollout) -> Played:
        status = kinds.get((rollout.task_id, rollout.index))
        return scored(0.5) if status is None else Played(Outcome(status, failure_kind="grader", reason="no file"))  # type: ignore[arg-type]

    evaluation = Evaluation(tmp_path, results)
    assert evaluation.run() == exits.DONE
    figures = read_receipt(tmp_path / "eval.json")["figures"]
    assert (figures["reward_mean"], figures["valid"], figures["errored"]) == (0.5, 1, 3)
    assert figures["outcomes"] == {"error": 1, "invalid": 1, "scored": 1, "timeout": 1}
    assert "mean reward 0.500 over 1 rollout, 3 without a measurement: no file 3" in evaluation.told
    tasks = read_receipt(tmp_path / "eval.json")["tasks"]
    assert tasks[0] == {"task": "a", "reward_mean": None, "rollouts": 2}


def test_rollouts_that_never_asked_the_model_are_told(tmp_path: Path) -> None:
    outcome = Outcome("scored", {"reward": 0.0}, reason="context_overflow")
    evaluation = Evaluation(tmp_path, lambda rollout: Played(outcome, calls=0) if rollout.task_id == "a" else scored(1.0))
    assert evaluation.run() == exits.DONE
    assert "mean reward 0.500 over 4 rollouts, 2 graded without a model call: context_overflow 2" in evaluation.told


def test_a_rollout_that_raises_is_errored_and_a_configuration_error_ends_everything(tmp_path: Path) -> None:
    def broken(rollout: PlannedRollout) -> Played:
        if rollout.task_id == "a":
            raise RuntimeError("boom")
        return scored(1.0)

    evaluation = Evaluation(tmp_path, broken)
    assert evaluation.run() == exits.DONE
    record = json.loads((tmp_path / "out/rollouts/a/rollout_0/metadata.json").read_text())
    assert (record["status"], record["failure_kind"], record["error"], record["reward"]) == (
        "errored",
        "unexpected:RuntimeError",
        "boom",
        None,
    )

    def refused(rollout: PlannedRollout) -> Played:
        raise ConfigError(Problem("the service refuses the key"))

    with pytest.raises(ConfigError, match="refuses the key"):
        Evaluation(tmp_path / "other", refused).run()
    assert not (tmp_path / "other" / "eval.json").exists()


def test_nothing_measured_is_a_failure_with_its_first_cause(tmp_path: Path) -> None:
    evaluation = Evaluation(tmp_path, lambda rollout: Played(Outcome("error", failure_kind="sandbox_start", reason="no space")))
    with pytest.raises(PlatoonError, match=r"none of 4 rollouts could be measured.*sandbox_start: no space"):
        evaluation.run()
    assert not (tmp_path / "eval.json").exists()


def test_finished_rollouts_are_kept_and_errored_ones_played_again(tmp_path: Path) -> None:
    evaluation = Evaluation(tmp_path, lambda rollout: scored(1.0) if rollout.index else Played(Outcome("error", failure_kind="x")))
    assert evaluation.run() == exits.DONE
    again = Evaluation(tmp_path, rewards)
    assert again.run() == exits.DONE
    assert sorted((item.task_id, item.index) for item in again.played) == [("a", 0), ("b/c", 0)]
    finished = (tmp_path / "eval.json").read_bytes()
    third = Evaluation(tmp_path, rewards)
    assert third.run() == exits.DONE
    assert (third.played, third.opened) == ([], 0)
    figures = again.told.splitlines()[-2].removeprefix("evaluation after: ")
    assert figures.startswith("mean reward ") and "nothing to do" not in again.told
    assert third.told.splitlines()[0] == f"evaluation after: already evaluated, nothing to do; {figures}"
    assert (tmp_path / "eval.json").read_bytes() == finished
    kept = Evaluation(tmp_path, rewards, retry_errored=False, resume=False)
    assert kept.run() == exits.DONE
    assert len(kept.played) == 4


def test_an_interrupted_rollout_leaves_nothing_that_counts(tmp_path: Path) -> None:
    half = tmp_path / "out" / "rollouts" / "a" / "rollout_0"
    half.mkdir(parents=True)
    (half / "events").mkdir()
    (half / "metadata.json").write_text('{"entry": "def')
    evaluation = Evaluation(tmp_path, rewards)
    assert evaluation.run() == exits.DONE
    assert len(evaluation.played) == 4
    assert not (half / "events").exists()


def test_rollouts_of_other_weights_are_refused(tmp_path: Path) -> None:
    evaluation = Evaluation(tmp_path, rewards)
    assert evaluation.run() == exits.DONE
    other = replace(evaluation.request.weights, digest="sha256:other")
    with pytest.raises(
        ConfigError, match=r"holds rollouts of another evaluation: weights is 'sha256:w' there.*give another --output-dir"
    ):
        evaluation.run(weights=other)


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, exits.TERMINATED), (signal.SIGINT, exits.INTERRUPTED)])
def test_a_signal_stops_cancels_and_keeps_what_is_done(tmp_path: Path, number: signal.Signals, code: int) -> None:
    cleaned: list[str] = []

    async def waits() -> Played:
        os.kill(os.getpid(), number)
        try:
            await asyncio.sleep(30)
        finally:
            cleaned.append("sandbox")
        raise AssertionError

    evaluation = Evaluation(tmp_path, lambda rollout: scored(1.0) if rollout.index == 0 else waits())
    assert evaluation.run() == code
    assert "sandbox" in cleaned
    assert evaluation.running == 0
    assert not (tmp_path / "eval.json").exists()
    again = Evaluation(tmp_path, rewards)
    assert again.run() == exits.DONE
    assert {item.index for item in again.played} == {1}


def test_the_time_budget_ends_with_its_own_code(tmp_path: Path) -> None:
    async def waits() -> Played:
        await asyncio.sleep(30)
        raise AssertionError

    evaluation = Evaluation(tmp_path, lambda rollout: waits())
    assert evaluation.run(time_budget_s=0.05) == exits.TRY_AGAIN


def test_a_budget_that_is_used_up_requeues_the_job_where_rollouts_were_done(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stops: list[StopRequest] = []
    requeued: list[int] = []

    @asynccontextmanager
    async def within(request: EvalRequest, stop: StopRequest):
        stops.append(stop)
        yield

    async def waits() -> Played:
        """Uses up the budget once all of the other task is done."""
        await asyncio.to_thread(wait_for, lambda: len(list(tmp_path.glob("out/rollouts/a/*/metadata.json"))) == 2)
        stops[-1].ask("budget")
        await asyncio.sleep(30)
        raise AssertionError

    monkeypatch.setattr("platoon.eval.launch._within_budget", within)
    monkeypatch.setattr("platoon.eval.launch.requeue_job", lambda say: requeued.append(1))
    evaluation = Evaluation(tmp_path, lambda rollout: scored(1.0) if rollout.task_id == "a" else waits())
    assert evaluation.run() == exits.TRY_AGAIN and not requeued, "nobody asked for it"
    shutil.rmtree(tmp_path / "out")
    assert evaluation.run(requeue=True) == exits.TRY_AGAIN and len(requeued) == 1
    assert evaluation.run(requeue=True) == exits.TRY_AGAIN and len(requeued) == 1, "nothing was done since"


def test_a_service_that_dies_ends_the_evaluation(tmp_path: Path) -> None:
    async def died() -> str:
        await asyncio.sleep(0.01)
        return "the local service ended: killed by 9"

    async def waits() -> Played:
        await asyncio.sleep(30)
        raise AssertionError

    with pytest.raises(ServiceError, match="killed by 9"):
        Evaluation(tmp_path, lambda rollout: waits(), died=died).run()


def test_the_output_directory_is_held_while_rollouts_are_played(tmp_path: Path) -> None:
    def holder() -> ProcessIdentity | None:
        found = live_holder(tmp_path / "out")
        return None if found is None else found.identity

    held: list[ProcessIdentity | None] = []

    def watched(rollout: PlannedRollout) -> Played:
        held.append(holder())
        return scored(1.0)

    assert Evaluation(tmp_path, watched).run() == exits.DONE
    assert held == [this_process()] * 4
    assert holder() is None


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, exits.TERMINATED), (signal.SIGINT, exits.INTERRUPTED)])
def test_a_signal_ends_the_opening_of_the_policy(tmp_path: Path, number: signal.Signals, code: int) -> None:
    cleaned: list[str] = []

    @asynccontextmanager
    async def opens(request: Any):
        os.kill(os.getpid(), number)
        try:
            await asyncio.sleep(30)
        finally:
            cleaned.append("service")
        yield OpenedPolicy(None)  # type: ignore[arg-type]

    evaluation = Evaluation(tmp_path, rewards)
    evaluation._open = opens  # type: ignore[method-assign]
    assert evaluation.run() == code
    assert cleaned == ["service"] and not evaluation.played


def test_an_empty_split_is_refused(tmp_path: Path) -> None:
    evaluation = Evaluation(tmp_path, rewards)
    empty = replace(evaluation.request.entries[0], tasks=())
    with pytest.raises(ConfigError, match="split: split 'eval' lists no task"):
        evaluation.run(entries=(empty,))


def test_file_names_of_tasks_are_safe_and_distinct() -> None:
    names = [safe_name("default", task) for task in ("a", "a/b", "a-b", "../a", "..", "x" * 200, "ä")]
    assert names[0] == "a"
    assert names[2] == "a-b"
    assert len(set(names)) == len(names)
    assert all("/" not in name and name.strip(".") and len(name) < 100 for name in names)
    assert safe_name("other", "a") != "a"


def test_provenance_leaves_the_site_out_and_names_what_decides(tmp_path: Path) -> None:
    config = Evaluation(tmp_path, rewards).config
    facts = provenance(config, Weights(), {"datasets.lock.json": "sha256:d", "config.yaml": "sha256:c"})
    sited = config.plain()
    sited["environments"][0]["service_kwargs"] = {"provider": "process", "provider_options": {"root": "/x"}}
    assert provenance(EvaluationConfig.model_validate(sited), Weights(), {"datasets.lock.json": "sha256:d"}) == facts
    sited["seed"] = 8
    assert provenance(EvaluationConfig.model_validate(sited), Weights(), {"datasets.lock.json": "sha256:d"}) != facts


def test_weights_come_from_a_training_receipt() -> None:
    checkpoint = {"sampler_path": "tinker://s", "weights": "sha256:w", "policy_version": 9}
    assert weights_of({"run": "main", "steps": 8, "checkpoint": checkpoint}) == Weights("tinker://s", "sha256:w", "main", 8, 9)
