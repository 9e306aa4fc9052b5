"""A run directory whose logs hold anything at all: a start works or refuses with 78, and a refusal touches nothing."""

from __future__ import annotations

import errno
import io
import json
import os
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from platoon import exits
from platoon.artifacts.receipts import read_receipt
from platoon.errors import ConfigError
from platoon.host.console import Console
from platoon.pipeline.summary import summarise
from platoon.report.data import report_of
from platoon.testing.fake_tinker import FakeFactory
from platoon.train.checkpoints.rows import CheckpointRow, checkpoint_rows
from platoon.train.launch import train
from platoon.train.trainer.metrics_log import CURVE, read_metrics
from tests.artifacts.test_reading import IRREGULAR
from tests.properties import examples
from tests.train.test_launch import Launches, state

pytestmark = pytest.mark.unit

LOGS = ("checkpoints.jsonl", "metrics.jsonl", "checkpoints_deleted.jsonl")
DELETED = {"path": "tinker://run/weights/000009", "name": "000009", "policy_version": 9, "result": "deleted", "time": 1.5}


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Launches:
    """A run of three steps that is done."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TINKER_API_KEY", "tml-test")
        launches = Launches(tmp_path_factory.mktemp("finished"))
        assert launches.train(launches.request("warm")) == exits.DONE
    (launches.directory / "runs/warm/checkpoints_deleted.jsonl").write_text(json.dumps(DELETED) + "\n")
    return launches


@pytest.fixture
def key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TINKER_API_KEY", "tml-test")


def attempt(finished: Launches, steps: int, log: str, lines: list[str], directory: Path) -> Path:
    """Trains on a copy of the finished run whose log has these lines."""
    run_dir = directory / "warm"
    shutil.copytree(finished.directory / "runs/warm", run_dir)
    (run_dir / log).write_text("".join(f"{line}\n" for line in lines))
    before = state(run_dir)
    request = replace(finished.request("warm", steps), run_dir=run_dir, receipt=directory / "receipt.json")
    try:
        assert finished.train(request) == exits.DONE
    except ConfigError as error:
        assert error.exit_code == exits.CONFIG
        if any(problem.file.startswith(f"{run_dir / log}:") for problem in error.problems):
            assert state(run_dir) == before
        raise
    return run_dir


def lines_of(finished: Launches, log: str) -> list[str]:
    return (finished.directory / "runs/warm" / log).read_text().splitlines()


def changed(line: str, key: str, value: Any) -> str:
    return json.dumps({**json.loads(line), key: value})


def record(**more: Any) -> dict[str, Any]:
    return {"file": "tasks/dispatch-s1-final.json", "sha256": "0" * 64, "format": 2, "start": 1, **more}


NO_COUNT = ("x", -1, 10**30, 1.5, None, True, [])
NO_TEXT = (3, [], "", "a\nb", {"a": 1})
NO_NUMBER = ("x", None, [], True, {}, 10**400)
NO_WEIGHTS = (
    {"helper": {}},
    {"helper": {"state_path": 3, "sampler_path": "tinker://run/sampler_weights/a"}},
    {"helper": {"state_path": "/etc/passwd", "sampler_path": "tinker://run/sampler_weights/a"}},
    {"../x": {"state_path": "tinker://run/weights/a", "sampler_path": "tinker://run/sampler_weights/a"}},
)
NO_PATH = (
    *("../../etc", "/etc/passwd", "file:///x", "tinker://", "tinker://run/weights", "tinker://run/weights/", "tinker:///weights/a"),
    *("tinker://run/weights/a/b", "tinker://run/weights/..", "tinker://../weights/a"),
    *("tinker://run/other/a", "tinker://r/weights/a b"),
)
OUTSIDE = ("../../other", "/etc/passwd", "tasks/dispatch-s1-../../x.json", 3)
ODD: dict[str, dict[str, tuple[Any, ...]]] = {
    "checkpoints.jsonl": {
        **dict.fromkeys(("batch", "start", "policy_version", "optimizer_steps", "epoch"), NO_COUNT),
        **dict.fromkeys(("name", "rows_digest"), NO_TEXT),
        "state_path": (*NO_TEXT, *NO_PATH, "tinker://run/sampler_weights/a"),
        "sampler_path": (*NO_TEXT, *NO_PATH, "tinker://run/weights/a"),
        "final": (1, "yes", None),
        "policies": (None, [], *NO_WEIGHTS),
        "dispatch": ([], {}, "x", *(record(file=file) for file in OUTSIDE), record(sha256="0"), record(format="2")),
        "sft": ([], {}, {"epoch": -1, "place": 0, "fingerprint": "x"}),
    },
    "metrics.jsonl": {
        "step": (0, *NO_COUNT),
        "start": NO_COUNT,
        **dict.fromkeys(("train/loss", "time/train", "train/trained_tokens", "time/step", "train/reward/parsed"), NO_NUMBER),
        "train/reward": ("nan", float("nan")),
        "train/tokens/prompt": (10**30, float("inf")),
        "rows_digest": (3, None),
    },
    "checkpoints_deleted.jsonl": {"path": (None, [], 3, {}, *NO_PATH)},
}
ODD_VALUES = [(log, key, value) for log, keys in ODD.items() for key, values in keys.items() for value in values]


@pytest.mark.parametrize(("log", "key", "value"), ODD_VALUES)
@pytest.mark.usefixtures("key")
def test_an_odd_value_is_refused_with_file_line_and_key(log: str, key: str, value: Any, finished: Launches, tmp_path: Path) -> None:
    lines = lines_of(finished, log)
    place = len(lines) // 2
    odd = [*lines[:place], changed(lines[place], key, value), *lines[place + 1 :]]
    with pytest.raises(ConfigError) as refusal:
        attempt(finished, 3, log, odd, tmp_path)
    problem = refusal.value.problems[0]
    assert (
        problem.file == f"{tmp_path / 'warm' / log}:{place + 1}"
        and problem.key.startswith(key)
        and "delete the line" in problem.advice
    )


@pytest.mark.parametrize("log", LOGS)
@pytest.mark.parametrize("row", ["[]", "3", "null", '"text"', "true", "{}"])
@pytest.mark.usefixtures("key")
def test_a_row_that_is_no_row_is_refused(row: str, log: str, finished: Launches, tmp_path: Path) -> None:
    lines = lines_of(finished, log)
    with pytest.raises(ConfigError, match=rf"{log}:{len(lines) + 1}: "):
        attempt(finished, 5, log, [*lines, row], tmp_path)


@pytest.mark.parametrize("log", LOGS)
@pytest.mark.parametrize("steps", [3, 5])
@pytest.mark.usefixtures("key")
def test_a_torn_last_line_is_no_row(log: str, steps: int, finished: Launches, tmp_path: Path) -> None:
    lines = lines_of(finished, log)
    run_dir = attempt(finished, steps, log, [*lines, lines[-1][: len(lines[-1]) // 2]], tmp_path)
    assert [row["step"] for row in read_metrics(run_dir)] == list(range(1, steps + 1))
    assert checkpoint_rows(run_dir)[-1]["batch"] == steps


@pytest.mark.usefixtures("key")
def test_many_faults_are_told_in_a_bounded_report(finished: Launches, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="190 more faults") as refusal:
        attempt(finished, 3, "metrics.jsonl", ['{"step": 0}'] * 200, tmp_path)
    assert len(refusal.value.problems) == 11


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8) | st.sampled_from([10**30, -1, "nan", "\ud800"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
    max_leaves=6,
)
KEYS = {
    "checkpoints.jsonl": [*CheckpointRow.model_fields, "unknown"],
    "metrics.jsonl": ["step", "start", "time/step", "train/reward/parsed", "optimizer/any", *CURVE],
    "checkpoints_deleted.jsonl": ["path", "name", "unknown"],
}


@examples(150)
@given(data=st.data())
@pytest.mark.usefixtures("key")
def test_any_json_in_a_log_works_or_is_refused(
    data: st.DataObject, finished: Launches, tmp_path_factory: pytest.TempPathFactory
) -> None:
    log = data.draw(st.sampled_from(LOGS))
    lines = lines_of(finished, log)
    place = data.draw(st.integers(0, len(lines)))
    value = data.draw(JSON)
    if place < len(lines) and data.draw(st.booleans()):
        row = json.loads(lines[place])
        for odd in data.draw(st.lists(st.sampled_from(KEYS[log]), min_size=1, max_size=2)):
            row[odd] = value
        lines[place] = json.dumps(row)
    else:
        lines[place : place + 1] = [json.dumps(value)]
    directory = tmp_path_factory.mktemp("any")
    try:
        attempt(finished, data.draw(st.sampled_from([2, 3, 4])), log, lines, directory)
    except ConfigError as error:
        str(error).encode()
    finally:
        shutil.rmtree(directory)


@pytest.mark.parametrize(
    "lost", [(), ("checkpoints.jsonl",), ("metrics.jsonl",)], ids=["alone", "with_checkpoints", "with_metrics"]
)
@pytest.mark.parametrize("steps", [3, 5])
@pytest.mark.usefixtures("key")
def test_a_trained_directory_without_its_identity_is_adopted_by_nobody(
    steps: int, lost: tuple[str, ...], finished: Launches, tmp_path: Path
) -> None:
    run_dir = tmp_path / "warm"
    shutil.copytree(finished.directory / "runs/warm", run_dir)
    for name in ("identity.json", *lost):
        (run_dir / name).unlink()
    before = state(run_dir)
    with pytest.raises(ConfigError, match=r"identity\.json: is missing, and .*\(bring the file back, or move .* away") as refusal:
        finished.train(replace(finished.request("warm", steps), run_dir=run_dir))
    assert refusal.value.exit_code == exits.CONFIG and state(run_dir) == before


@pytest.mark.usefixtures("key")
def test_a_directory_in_which_nothing_was_trained_is_any_runs(finished: Launches, tmp_path: Path) -> None:
    run_dir = tmp_path / "warm"
    (run_dir / "logs").mkdir(parents=True)
    for log in LOGS:
        (run_dir / log).write_text('{"na')
    assert finished.train(replace(finished.request("warm"), run_dir=run_dir, receipt=None)) == exits.DONE
    assert [row["step"] for row in read_metrics(run_dir)] == [1, 2, 3]


LOSSES: dict[str, Callable[[Path], object]] = {
    "deleted": Path.unlink,
    "emptied": lambda path: path.write_bytes(b""),
    "binary": lambda path: path.write_bytes(bytes(range(128, 256)) * 9),
    "blank": lambda path: path.write_bytes(b"\n \n"),
}
# What is there beside the lost log -> how it is told.
SIGNS: dict[str, tuple[Callable[[Path], object], str]] = {
    "metrics.jsonl": (lambda run_dir: None, "the metrics of 3 steps"),
    "checkpoints_deleted.jsonl": (lambda run_dir: None, "the names of 1 deleted path"),
    "draws": (lambda run_dir: made(run_dir / "tasks/dispatch-s1-000002.json"), "the draws of 1 checkpoint"),
    "rollouts": (lambda run_dir: made(run_dir / "rollouts/train/000001/events.jsonl"), "rollouts"),
}


def made(path: Path) -> None:
    path.parent.mkdir(parents=True)
    path.write_text("{}")


def copied(finished: Launches, directory: Path) -> Path:
    return shutil.copytree(finished.directory / "runs/warm", directory / "warm")


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("sign", SIGNS)
@pytest.mark.parametrize("steps", [3, 5])
@pytest.mark.usefixtures("key")
def test_a_run_whose_checkpoints_are_lost_is_not_trained_from_the_start(
    steps: int, sign: str, loss: str, finished: Launches, tmp_path: Path
) -> None:
    run_dir = copied(finished, tmp_path)
    for log in ("metrics.jsonl", "checkpoints_deleted.jsonl"):
        if log != sign:
            (run_dir / log).unlink()
    make, told = SIGNS[sign]
    make(run_dir)
    LOSSES[loss](run_dir / "checkpoints.jsonl")
    before = state(run_dir)
    with pytest.raises(ConfigError, match=rf"checkpoints\.jsonl: holds no checkpoint, and {told} of the run 'warm'") as refusal:
        finished.train(replace(finished.request("warm", steps), run_dir=run_dir))
    assert refusal.value.exit_code == exits.CONFIG and state(run_dir) == before
    assert all(advice in str(refusal.value) for advice in ("bring the file back", "move", "runs.warm-2"))


@pytest.mark.usefixtures("key")
def test_the_draws_of_a_save_that_a_kill_cut_short_are_no_sign(finished: Launches, tmp_path: Path) -> None:
    run_dir = tmp_path / "warm"
    made(run_dir / "tasks/dispatch-s1-recovery-000000.json")
    assert finished.train(replace(finished.request("warm"), run_dir=run_dir, receipt=None)) == exits.DONE


NAMES = (
    *LOGS,
    *("identity.json", "lock.json", "config.resolved.yaml", "sandboxes.json", "process.json", "process.lock", "logs/train.log"),
    *("logs/service-run.log", "tasks/dispatch-s1-000001.json", "policies/helper/checkpoints.jsonl"),
)
PLACES = ("logs", "tasks", "tasks/groups", "policies", "policies/helper", "rollouts", "rollouts/train")


@pytest.mark.parametrize("kind", [*IRREGULAR, "broken_link"])
@pytest.mark.parametrize("name", [*NAMES, *PLACES])
@pytest.mark.usefixtures("key")
def test_what_is_no_file_or_no_directory_is_refused_by_name(name: str, kind: str, finished: Launches, tmp_path: Path) -> None:
    run_dir = copied(finished, tmp_path)
    path = run_dir / name
    if path.is_dir():
        shutil.rmtree(path)
    path.unlink(missing_ok=True)
    path.parent.mkdir(parents=True, exist_ok=True)
    make = IRREGULAR[kind] if kind != "broken_link" else (lambda path: path.symlink_to("/nowhere/at/all"))
    if name in PLACES and kind == "directory":
        make = Path.touch
    make(path)
    for steps in (3, 5):
        with pytest.raises(ConfigError) as refusal:
            finished.train(replace(finished.request("warm", steps), run_dir=run_dir))
        assert refusal.value.exit_code == exits.CONFIG and str(refusal.value).startswith(f"{path}: ")
        assert "is not a" in str(refusal.value)


UNREADABLE: dict[str, Callable[[Path], object]] = {
    "deep": lambda path: path.write_bytes(b"[" * 100_000),
    "deep_object": lambda path: path.write_bytes(b'{"rule":' * 300 + b"1" + b"}" * 300),
    "not_utf8": lambda path: path.write_bytes(b"\xff\xfe"),
    "surrogate": lambda path: path.write_bytes(rb'{"rule": "\ud800"}'),
    "another_value": lambda path: path.write_bytes(b"[]"),
    "no_rule": lambda path: path.write_bytes(b'{"settings": {}}'),
    "odd_tasks": lambda path: path.write_bytes(b'{"rule": "run-identity/2", "tasks": {"shell": [["a"]]}}'),
    "huge": lambda path: os.truncate(path, 1 << 40),
}


@pytest.mark.parametrize("fault", UNREADABLE)
@pytest.mark.usefixtures("key")
def test_an_identity_that_does_not_read_is_one_error_that_says_what_to_do(fault: str, finished: Launches, tmp_path: Path) -> None:
    run_dir = copied(finished, tmp_path)
    (run_dir / "identity.json").chmod(0o644)
    UNREADABLE[fault](run_dir / "identity.json")
    with pytest.raises(ConfigError, match=r"identity\.json: (not a|is no) .*\(bring it back.*; or train it as") as refusal:
        finished.train(replace(finished.request("warm", 5), run_dir=run_dir))
    assert refusal.value.exit_code == exits.CONFIG and len(refusal.value.problems) == 1


@pytest.mark.usefixtures("key")
def test_an_identity_of_another_release_is_not_compared(finished: Launches, tmp_path: Path) -> None:
    run_dir = copied(finished, tmp_path)
    (run_dir / "identity.json").chmod(0o644)
    (run_dir / "identity.json").write_text('{"rule": "run-identity/9", "settings": {}}')
    with pytest.raises(ConfigError, match=r"begun by another release .*\(go on with that release; or train it as"):
        finished.train(replace(finished.request("warm", 5), run_dir=run_dir))


@pytest.mark.usefixtures("key")
def test_an_identity_that_may_not_be_read_is_refused(finished: Launches, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run_dir = copied(finished, tmp_path)
    opened = os.open

    def refuse(path: Any, *arguments: Any, **more: Any) -> int:
        if str(path).endswith("identity.json"):
            raise PermissionError(errno.EACCES, "Permission denied", str(path))
        return opened(path, *arguments, **more)

    monkeypatch.setattr("os.open", refuse)
    with pytest.raises(ConfigError, match=r"identity\.json: not a readable run identity: Permission denied \(bring it back"):
        finished.train(replace(finished.request("warm", 5), run_dir=run_dir))


@pytest.mark.parametrize("loss", [*LOSSES, "a_row"])
@pytest.mark.parametrize("steps", [3, 5])
@pytest.mark.usefixtures("key")
def test_figures_of_lost_metrics_are_not_known(steps: int, loss: str, finished: Launches, tmp_path: Path) -> None:
    run_dir = copied(finished, tmp_path)
    metrics = run_dir / "metrics.jsonl"
    LOSSES[loss](metrics) if loss != "a_row" else metrics.write_text("\n".join(lines_of(finished, "metrics.jsonl")[1:]) + "\n")
    told = io.StringIO()
    receipt = tmp_path / "receipt.json"
    request = replace(finished.request("warm", steps), run_dir=run_dir, receipt=receipt)
    assert train(request, Console(told), lambda: FakeFactory({None: finished.service})) == exits.DONE
    lost = 1 if loss == "a_row" else 3
    assert f"its figures are not known: {metrics} lacks {lost} of {steps} steps" in told.getvalue()
    assert "at the first step" not in told.getvalue()
    body = read_receipt(receipt, "train")
    assert body["figures"] == {"steps_without_metrics": lost} and report_of([body]).runs[0].ends is None
    row = summarise([body])["runs"]["warm"]
    assert row["steps_without_metrics"] == lost and row["reward_first"] is row["mean_reward"] is row["rollouts"] is None
