"""`train`: idempotence, identity, receipts, and starting from another run's weights; on the fake service."""

from __future__ import annotations

import errno
import io
import json
import os
import shutil
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

from platoon import exits
from platoon.artifacts.receipts import read_receipt
from platoon.artifacts.row_log import append_json_line
from platoon.errors import ConfigError, HeldError, IdentityError, PlatoonError, ServiceError
from platoon.host.console import Console
from platoon.testing.fake_tinker import FakeFactory, FakeStatusError, FakeTinkerService
from platoon.testing.toy_model import TOY_TOKENIZER_DIR
from platoon.train.checkpoints.rows import checkpoint_rows
from platoon.train.components.entries import EntryTasks
from platoon.train.config_defs.run import RunConfig
from platoon.train.launch import TrainRequest, train
from platoon.train.run_directory.lease import Lease
from platoon.train.trainer.budget import TimeBudget
from platoon.train.trainer.build import TrainInputs

pytestmark = pytest.mark.unit


class Launches:
    def __init__(self, directory: Path) -> None:
        self.directory, self.service = directory, FakeTinkerService()
        lines = [{"messages": [{"role": "user", "content": f"{n}"}, {"role": "assistant", "content": f"{n}"}]} for n in range(5)]
        (directory / "chat.jsonl").write_text("\n".join(json.dumps(line) for line in lines))

    def request(self, run: str, steps: int | None = 3, parent: Path | None = None, **more: Any) -> TrainRequest:
        settings: Mapping[str, Any] = {"model_name": str(TOY_TOKENIZER_DIR), "renderer_name": "chat_template", "batch_size": 2}
        config = RunConfig(
            train={**settings, "max_training_steps": steps, **more},
            trainer="sft",
            trainer_options={"data": "chat.jsonl"},
            watchdog={"enabled": False},
        )
        inputs = TrainInputs(config, self.directory, {"datasets.lock.json": "sha256:1"}, {"shell": [("copy", "sha256:1")]})
        return TrainRequest(
            run, self.directory / "runs" / run, self.directory / "runs" / ".tinker", inputs, self.directory / f"{run}.json", parent
        )

    def train(self, request: TrainRequest) -> int:
        return train(request, Console(io.StringIO()), lambda: FakeFactory({None: self.service}))

    def told(self, request: TrainRequest) -> list[str]:
        """The lines of one start."""
        told = io.StringIO()
        assert train(request, Console(told), lambda: FakeFactory({None: self.service})) == exits.DONE
        return told.getvalue().splitlines()

    def receipt(self, run: str) -> dict[str, Any]:
        return read_receipt(self.directory / f"{run}.json", "train")


@pytest.fixture
def launches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Launches:
    monkeypatch.setenv("TINKER_API_KEY", "tml-test")
    return Launches(tmp_path)


def test_a_finished_run_only_gets_its_receipt_again(launches: Launches) -> None:
    request = launches.request("warm")
    assert launches.train(request) == exits.DONE
    receipt = launches.receipt("warm")
    assert receipt["steps"] == 3 and receipt["checkpoint"]["step"] == 3 and len(receipt["curve"]) == 3
    first = (launches.directory / "warm.json").read_bytes()
    (launches.directory / "warm.json").unlink()
    sessions = launches.service.sessions
    assert launches.train(request) == exits.DONE
    assert launches.service.sessions == sessions
    assert (launches.directory / "warm.json").read_bytes() == first


def test_the_last_line_says_where_the_run_is(launches: Launches) -> None:
    request = launches.request("warm")
    for receipt, more in ((request.receipt, f", receipt {request.receipt}"), (None, "")):
        assert launches.told(replace(request, receipt=receipt))[-1] == f"run in {request.run_dir}{more}"


def test_a_run_says_what_it_does_and_whether_there_was_anything_to_do(launches: Launches) -> None:
    request = launches.request("warm", 1)
    first, again = launches.told(request), launches.told(request)
    stages = ["starting: run warm", "loading the model", "preparing", "saving what it begins with"]
    stages += ["training", "training: step 1 of 1", "saving"]
    assert [line.partition(" (waiting")[0] for line in first[:-2]] == stages
    assert first[-2].startswith("run warm: 1 step done, checkpoint final")
    assert again[:-1] == [first[-2].replace("warm: ", "warm: already trained, nothing to do; ")]


def test_a_run_that_nobody_named_is_the_run(launches: Launches) -> None:
    assert "the run: 1 step done, checkpoint final" in launches.told(launches.request("run", 1))[-2]


def test_a_longer_plan_extends_and_a_shorter_one_gives_the_receipt_back(launches: Launches) -> None:
    assert launches.train(launches.request("warm", 3)) == exits.DONE
    first = (launches.directory / "warm.json").read_bytes()
    assert launches.train(launches.request("warm", 5)) == exits.DONE
    assert launches.receipt("warm")["steps"] == 5
    assert len(launches.service.named("optim_step")) == 5
    assert launches.train(launches.request("warm", 3)) == exits.DONE
    assert json.loads(first)["checkpoint"]["weights"] == launches.receipt("warm")["checkpoint"]["weights"]
    assert launches.receipt("warm")["steps"] == 3


def state(directory: Path) -> dict[Path, tuple[int, int]]:
    return {path: (path.stat().st_mtime_ns, path.stat().st_size) for path in directory.rglob("*")}


@pytest.mark.parametrize(
    ("plan", "key", "planned"), [({"steps": 2}, "max_training_steps", 2), ({"steps": None, "num_epochs": 1}, "num_epochs", 3)]
)
def test_a_plan_shorter_than_what_was_trained_is_refused(plan: dict[str, Any], key: str, planned: int, launches: Launches) -> None:
    request = launches.request("warm", 5)
    launches.train(request)
    first = (launches.directory / "warm.json").read_bytes()
    before = state(request.run_dir)
    with pytest.raises(IdentityError) as refusal:
        launches.train(launches.request("warm", **plan))
    assert refusal.value.problems[0].key == f"train.{key}"
    assert f"planned for {planned} steps, but has trained 5" in str(refusal.value)
    assert all(word in str(refusal.value) for word in ("set it back", "runs.warm-2", "`of:`", "`from:`"))
    assert state(request.run_dir) == before and (launches.directory / "warm.json").read_bytes() == first
    assert launches.train(request) == exits.DONE
    assert len(launches.service.named("optim_step")) == 5


@pytest.mark.parametrize("which", ["state_path", "sampler_path"])
def test_a_receipt_never_names_weights_that_were_pruned(which: str, launches: Launches) -> None:
    launches.train(launches.request("warm", 3))
    path = launches.receipt("warm")["checkpoint"][which]
    request = launches.request("warm", 5)
    launches.train(request)
    append_json_line(request.run_dir / "checkpoints_deleted.jsonl", {"path": path, "name": "final", "result": "deleted"})
    rows = [json.loads(line) for line in (request.run_dir / "checkpoints.jsonl").read_text().splitlines()]
    others = [row for row in rows if row["batch"] == 3 and row[which] != path]
    shorter = launches.request("warm", 3)
    assert launches.train(shorter) == exits.DONE
    assert launches.receipt("warm")["checkpoint"]["name"] == others[-1]["name"] != "final"
    for row in others:
        append_json_line(request.run_dir / "checkpoints_deleted.jsonl", {"path": row[which], "result": "absent"})
    with pytest.raises(IdentityError, match="planned for 3 steps, but has trained 5"):
        launches.train(shorter)


def test_another_identity_touches_nothing_and_going_back_is_at_once(launches: Launches) -> None:
    request = launches.request("warm")
    launches.train(request)
    before = state(request.run_dir)
    with pytest.raises(IdentityError, match=r"train\.lora_rank: the run 'warm' was trained with 32, this configuration says 4"):
        launches.train(launches.request("warm", lora_rank=4))
    moved = replace(request.inputs, tasks={"shell": [("copy", "sha256:2")]})
    with pytest.raises(IdentityError, match=r"environment shell: its tasks are not those .* trained on: changed copy"):
        launches.train(replace(request, inputs=moved))
    assert state(request.run_dir) == before
    assert launches.train(request) == exits.DONE


def test_a_run_starts_from_another_ones_weights_with_a_fresh_optimizer(launches: Launches) -> None:
    launches.train(launches.request("warm"))
    parent = launches.directory / "warm.json"
    assert launches.train(launches.request("main", 2, parent)) == exits.DONE
    warm, main = launches.receipt("warm"), launches.receipt("main")
    assert launches.service.named("create_training_client_from_state") == [warm["checkpoint"]["state_path"]]
    assert main["parent"] == {"run": "warm", "step": 3, "weights": warm["checkpoint"]["weights"]}
    launches.train(launches.request("warm", 4))
    with pytest.raises(IdentityError, match=r"from\.step"):
        launches.train(launches.request("main", 2, parent))


def test_a_live_trainer_is_refused_with_75(launches: Launches) -> None:
    request = launches.request("warm")
    with Lease(request.run_dir):
        path = request.run_dir / "process.json"
        holder = json.loads(path.read_text())
        path.write_text(json.dumps({**holder, "pid": 1, "start_ticks": _start_of(1)}))
        with pytest.raises(HeldError) as refusal:
            launches.train(request)
    assert refusal.value.exit_code == exits.TRY_AGAIN
    path.unlink()


@pytest.mark.parametrize("moved", [False, True])
def test_a_trainer_whose_lease_is_deleted_saves_if_it_can_and_ends(
    moved: bool, launches: Launches, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("platoon.train.run_directory.lease.RENEW_EVERY_S", 0.01)
    monkeypatch.setattr("platoon.train.run_directory.lease.LOOK_EVERY_S", 0.01)
    request = launches.request("warm", 500)
    away = request.run_dir.with_name("away")

    def delete(operation: str) -> None:
        if len(launches.service.named("optim_step")) == 2:
            if moved and request.run_dir.exists():
                request.run_dir.rename(away)
            elif not moved:
                (request.run_dir / "process.json").unlink(missing_ok=True)

    launches.service.before = delete
    with pytest.raises(PlatoonError, match=r"process\.json: was deleted") as end:
        launches.train(request)
    assert end.value.exit_code == exits.FAILED
    rows = checkpoint_rows(away if moved else request.run_dir)
    trained = len(launches.service.named("optim_step"))
    assert trained < 500 and not request.receipt.exists()
    if moved:
        assert not request.run_dir.exists() and [row["batch"] for row in rows] == [0]
        return
    assert rows[-1]["batch"] == trained and rows[-1]["name"].endswith("_interrupted")
    launches.service.before = lambda operation: None
    assert launches.train(launches.request("warm", trained + 1)) == exits.DONE
    assert len(launches.service.named("optim_step")) == trained + 1


def _start_of(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19])


def closed(place: Path, reason: int) -> Callable[..., Any]:
    """`tempfile.TemporaryFile` where a file system refuses a place, whoever this process is."""
    made = tempfile.TemporaryFile

    def make(*arguments: Any, dir: Path, **more: Any) -> Any:
        if dir.is_relative_to(place):
            raise OSError(reason, os.strerror(reason), str(dir))
        return made(*arguments, dir=dir, **more)

    return make


@pytest.mark.parametrize("reason", [errno.EACCES, errno.EROFS, errno.ENOSPC, errno.ENOTDIR])
@pytest.mark.parametrize(("key", "below"), [("receipt", "deep/warm.json"), ("run_dir", "runs/warm"), ("state_dir", ".tinker")])
def test_a_place_that_cannot_be_written_is_found_before_anything_is_trained(
    key: str, below: str, reason: int, launches: Launches, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = launches.directory / "place"
    if reason == errno.ENOTDIR:
        place.touch()
    else:
        place.mkdir()
        monkeypatch.setattr("tempfile.TemporaryFile", closed(place, reason))
    changes: dict[str, Any] = {key: place / below}
    with pytest.raises(ConfigError, match=f"cannot be written: {place}: {os.strerror(reason)}") as refusal:
        launches.train(replace(launches.request("warm"), **changes))
    assert refusal.value.exit_code == exits.CONFIG and launches.service.sessions == 0
    assert not (launches.directory / "runs").exists() and (place.is_file() or not list(place.iterdir()))


def test_a_receipt_that_is_a_directory_is_refused(launches: Launches) -> None:
    with pytest.raises(ConfigError, match="--receipt: is a directory"):
        launches.train(replace(launches.request("warm"), receipt=launches.directory))
    assert launches.service.sessions == 0


def test_a_finished_run_in_a_place_that_cannot_be_written_gives_its_receipt(
    launches: Launches, monkeypatch: pytest.MonkeyPatch
) -> None:
    request = launches.request("warm")
    launches.train(request)
    monkeypatch.setattr("tempfile.TemporaryFile", closed(launches.directory / "runs", errno.EROFS))
    assert launches.train(replace(request, receipt=launches.directory / "again.json")) == exits.DONE


@pytest.mark.parametrize("key", [None, "sk-wrong"])
def test_a_key_that_cannot_be_one_is_refused_before_anything_is_written(
    key: str | None, launches: Launches, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("TINKER_API_KEY")
    if key is not None:
        monkeypatch.setenv("TINKER_API_KEY", key)
    with pytest.raises(ConfigError, match="TINKER_API_KEY"):
        launches.train(launches.request("warm"))
    assert not (launches.directory / "runs").exists()


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("{", "not a JSON line"),
        ('{"messages": [], "messages": [{"role": "user"}]}', "not a JSON line: the key 'messages' is given twice"),
        ('{"messages": []}', "at least one message"),
        ('{"messages": [{"content": "x"}]}', "a role"),
    ],
)
def test_a_fault_of_the_data_names_its_line(text: str, rule: str, launches: Launches) -> None:
    with (launches.directory / "chat.jsonl").open("a") as file:
        file.write(f"\n{text}\n")
    with pytest.raises(ConfigError, match=rule) as refusal:
        launches.train(launches.request("warm"))
    assert refusal.value.problems[0].file.endswith("chat.jsonl:6")


def model_of(directory: Path, template: str | None = None) -> str:
    """A copy of the toy model, with another template."""
    model = directory / "model"
    shutil.copytree(TOY_TOKENIZER_DIR, model)
    if template is not None:
        (model / "chat_template.jinja").write_text(template)
    return str(model)


def templated(template: str) -> Callable[[Path], dict[str, Any]]:
    return lambda directory: {"model_name": model_of(directory, template)}


def with_settings(model: str = str(TOY_TOKENIZER_DIR), **kwargs: Any) -> Callable[[Path], dict[str, Any]]:
    return lambda directory: {"model_name": model, "renderer_kwargs": kwargs}


RENDERER_FAULTS: dict[str, tuple[Callable[[Path], dict[str, Any]], str]] = {
    "template": (templated("{% for %}"), r"train\.model_name: its chat template is no"),
    "refuses": (templated("{{ raise_exception('never') }}"), "renderer_kwargs.tool_call_parser|never"),
    "no_reply": (templated("{{ messages[0].content }}"), "chat.jsonl:1: cannot be rendered"),
    "no_tokenizer": (lambda directory: {"model_name": str(directory)}, r"train\.model_name: not a readable tokenizer"),
    "setting": (with_settings(colour=1), r"train\.renderer_kwargs\.colour: unknown key"),
    "type": (with_settings(reasoning_tags=5), r"train\.renderer_kwargs\.reasoning_tags: must be auto"),
    "parser": (with_settings(tool_call_parser="no"), r"train\.renderer_kwargs\.tool_call_parser: 'no' is"),
    "of_a_service": (with_settings("org/model", colour=1), r"train\.renderer_kwargs\.colour: unknown key"),
    "small_window": (lambda directory: {"context_window_length": 2}, r"train\.context_window_length: no prompt fits into 2 tokens"),
    "large_window": (
        lambda directory: {"model_name": "local/small", "context_window_length": 10**9},
        r"train\.context_window_length: the embedded service's local/small takes at most",
    ),
    "no_base": (with_settings("local/none"), r"train\.model_name: the embedded service has no base model"),
}


@pytest.mark.parametrize("fault", RENDERER_FAULTS)
def test_a_renderer_that_renders_nothing_is_refused_before_anything_is_made(
    fault: str, launches: Launches, monkeypatch: pytest.MonkeyPatch
) -> None:
    if fault in ("no_base", "large_window"):
        monkeypatch.setenv("TINKER_BASE_URL", "local")
    settings, rule = RENDERER_FAULTS[fault]
    with pytest.raises(ConfigError, match=rule) as refusal:
        launches.train(launches.request("warm", **settings(launches.directory)))
    assert refusal.value.exit_code == exits.CONFIG
    assert not (launches.directory / "runs").exists() and launches.service.sessions == 0


def test_a_budget_that_is_used_up_requeues_the_job_of_a_run_that_got_further(
    launches: Launches, monkeypatch: pytest.MonkeyPatch
) -> None:
    request = replace(launches.request("warm", steps=5000), time_budget_s=0.1)
    metrics, requeued = request.run_dir / "metrics.jsonl", []

    def budget_of(steps: int) -> None:
        """The clock of the budget stands still until so many steps are told."""

        def clock() -> float:
            return float(metrics.exists() and metrics.read_bytes().count(b"\n") >= steps) if steps else 1.0

        monkeypatch.setattr("platoon.train.trainer.run.TimeBudget", lambda budget_s, *_: TimeBudget(budget_s, clock, 0.0))

    monkeypatch.setattr("platoon.train.launch.requeue_job", lambda say: requeued.append(len(metrics.read_bytes().splitlines())))
    budget_of(1)
    assert launches.train(request) == exits.TRY_AGAIN and not requeued, "nobody asked for it"
    trained = len(metrics.read_bytes().splitlines())
    budget_of(trained + 1)
    assert launches.train(replace(request, requeue=True)) == exits.TRY_AGAIN
    assert len(requeued) == 1 and requeued[0] > trained
    budget_of(0)
    assert launches.train(replace(request, requeue=True)) == exits.TRY_AGAIN
    assert len(requeued) == 1, "a start without a step would be followed by another"


def test_renderers_of_every_policy_that_agents_sample_are_looked_at(launches: Launches) -> None:
    config = RunConfig(
        train={"model_name": str(TOY_TOKENIZER_DIR), "renderer_name": "chat_template", "batch_size": 1, "max_training_steps": 1},
        environments=[{"service": "none", "harness": "platoon-noop"}],
        policies={"helper": {"renderer_kwargs": {"colour": 1}}, "judge": {"trainable": False, "renderer_kwargs": {"smell": 1}}},
        agents={"roles": {"helper": {"policy": "helper"}, "judge": {"policy": "judge"}}},
    )
    entry = EntryTasks(config.environments[0], cast("Any", None), ("task",))
    request = replace(launches.request("main"), inputs=TrainInputs(config, launches.directory, entries=[entry]))
    with pytest.raises(ConfigError) as refusal:
        launches.train(request)
    keys = [problem.key for problem in refusal.value.problems]
    assert keys == ["policies.helper.renderer_kwargs.colour", "policies.judge.renderer_kwargs.smell"]
    assert not (launches.directory / "runs").exists()


def test_a_renderer_that_got_worse_leaves_a_run_as_it_was(launches: Launches) -> None:
    model = model_of(launches.directory)
    request = launches.request("warm", model_name=model)
    launches.train(request)
    before = state(request.run_dir)
    template = Path(model) / "chat_template.jinja"
    whole = template.read_text()
    template.write_text("{% for %}")
    with pytest.raises(ConfigError, match="its chat template is no template: line 1"):
        launches.train(launches.request("warm", 5, model_name=model))
    assert state(request.run_dir) == before
    template.write_text(whole)
    assert launches.train(launches.request("warm", 5, model_name=model)) == exits.DONE


def test_a_start_that_trained_nothing_holds_a_mended_configuration_to_nothing(launches: Launches) -> None:
    """The service alone knows what is wrong here, so the directory is made."""

    def refuse(operation: str) -> None:
        if operation == "create_lora_training_client":
            raise FakeStatusError(422, "no such rank")

    launches.service.before = refuse
    with pytest.raises(ServiceError, match="no such rank"):
        launches.train(launches.request("warm"))
    assert (launches.directory / "runs/warm/identity.json").exists()
    launches.service.before = lambda operation: None
    assert launches.train(launches.request("warm", lora_rank=4)) == exits.DONE
    with pytest.raises(IdentityError, match=r"train\.lora_rank"):
        launches.train(launches.request("warm"))
