"""`platoon rollout` as a shell sees it, on a Harbor dataset in process sandboxes."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from platoon import exits
from platoon.artifacts.receipts import write_receipt
from platoon.cli.main import main
from platoon.errors import ConfigError
from platoon.eval.adhoc import AdhocRequest

pytestmark = pytest.mark.process

Run = Callable[..., tuple[int, str, str]]
TEST = """#!/bin/bash
[ "$(cat answer.txt 2>/dev/null)" = 42 ] && reward=1 || reward=0
echo $reward > "$PLATOON_SANDBOX_ROOT/logs/verifier/reward.txt"
"""
CONFIG = """
inference: {model_name: local/small, renderer_name: chat_template}
tinker_base_url: local
split: all
environments:
- service: harbor
  harness: platoon-bash
  service_kwargs: {dataset: tasks, provider: process}
"""


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    files = {
        "site.yaml": "cache: cache\nruns: runs\n",
        "eval.yaml": CONFIG,
        "tasks/t1/task.toml": "",
        "tasks/t1/instruction.md": "Put 42 into answer.txt.\n",
        "tasks/t1/environment/note.txt": "x\n",
        "tasks/t1/tests/test.sh": TEST,
        "tasks/t1/solution/solve.sh": "#!/bin/bash\necho 42 > answer.txt\n",
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    monkeypatch.setenv("PLATOON_SITE", str(tmp_path / "site.yaml"))
    monkeypatch.setenv("PLATOON_NODE_SCRATCH", str(tmp_path / "scratch"))
    monkeypatch.chdir(tmp_path)

    def call(*arguments: str, command: str = "rollout") -> tuple[int, str, str]:
        with pytest.raises(SystemExit) as stop:
            main([command, *arguments])
        captured = capsys.readouterr()
        assert isinstance(stop.value.code, int)
        return stop.value.code, captured.out, captured.err

    return call


def test_the_oracle_solves_its_task(run: Run, tmp_path: Path) -> None:
    code, out, err = run("eval.yaml", "--task", "t1", "--harness", "platoon-oracle", "--json", "--output-dir", "out")
    assert code == exits.DONE, err
    summary = json.loads(out)
    assert (summary["task"], summary["reward"], summary["outcome"]["status"]) == ("t1", 1.0, "scored")
    collection = json.loads((tmp_path / "out" / "trajectory_collection.json").read_text())
    (root,) = collection["trajectories"].values()
    assert root["misc"]["oracle"]["exit_code"] == 0
    assert root["task"]["goal"].strip() == "Put 42 into answer.txt."
    assert len(list((tmp_path / "out" / "rollouts" / "events").iterdir())) == 1


def test_a_person_reads_a_tree(run: Run, tmp_path: Path) -> None:
    code, out, _ = run("eval.yaml", "--task", "t1", "--harness", "platoon-noop")
    assert code == exits.DONE
    assert "no model call: Put 42" in out and "scored, reward 0.000, 0 calls" in out
    assert "runs/adhoc/" in out
    assert not list((tmp_path / "scratch").glob("platoon-sandboxes-*/process-*"))


@pytest.mark.parametrize(
    ("writes", "told"),
    [
        ("true", "error, verifier_no_reward: reward_file_missing: neither reward.json nor reward.txt is there"),
        (": > {}", "error, verifier_no_reward: reward_file_empty: reward.txt is empty"),
        ("echo ten > {}", "error, verifier_no_reward: reward_file_malformed: reward.txt is no number: 'ten'"),
        ("ln -s nowhere {}", "invalid, reward_file_not_regular: reward.txt"),
        ("kill -9 $PPID; sleep 60; echo 1 > {}", "error, verifier_no_reward: reward_file_missing"),
        ("kill -9 0", "error, verifier_no_reward: reward_file_missing"),
        ("truncate -s 2G {}", "invalid, reward_file_too_large: reward.txt"),
    ],
)
def test_a_reward_that_is_none_is_shown_with_its_own_reason(run: Run, tmp_path: Path, writes: str, told: str) -> None:
    script = writes.format('"$PLATOON_SANDBOX_ROOT/logs/verifier/reward.txt"')
    (tmp_path / "tasks/t1/tests/test.sh").write_text(f"#!/bin/bash\n{script}\n")
    code, out, _ = run("eval.yaml", "--task", "t1", "--harness", "platoon-noop")
    assert code == exits.FAILED
    assert told in out


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("--task", "t9"), "t1"),
        (("--task", "t1", "--harness", "platoon-nope"), "platoon-"),
        (("--task", "t1", "--model", "local/nope"), "--model: the embedded service has no base model"),
        (("--task", "t1", "inference.model_name=local/nope"), "inference.model_name: the embedded service has no base model"),
    ],
)
def test_refusals_come_before_anything_starts(run: Run, arguments: tuple[str, ...], told: str) -> None:
    code, _, err = run("eval.yaml", *arguments)
    assert code == exits.CONFIG and told in err
    assert not Path("runs").exists()


def test_a_refusal_leaves_what_another_rollout_made_meanwhile(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def other_rollout(*_: object) -> None:
        (tmp_path / "same/rollouts").mkdir(parents=True)
        (tmp_path / "same/tokens.parquet").write_text("theirs")
        raise ConfigError("refused")

    monkeypatch.setattr("platoon.eval.adhoc.find_task", other_rollout)
    assert run("eval.yaml", "--task", "t1", "--output-dir", "same")[0] == exits.CONFIG
    assert (tmp_path / "same/tokens.parquet").read_text() == "theirs" and (tmp_path / "same/rollouts").is_dir()


def test_two_rollouts_of_one_second_go_to_two_places(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("platoon.cli.rollout.time.strftime", lambda *_: "now")
    for _ in range(2):
        assert run("eval.yaml", "--task", "t1", "--harness", "platoon-noop")[0] == exits.DONE
    assert sorted(path.name for path in (tmp_path / "runs/adhoc").iterdir()) == ["now-t1", "now-t1-2"]


def test_a_task_of_another_split_is_told_with_its_split(run: Run, tmp_path: Path) -> None:
    for name in ("t3", "t2"):
        shutil.copytree(tmp_path / "tasks/t1", tmp_path / "tasks" / name)
    (tmp_path / "splits.json").write_text('{"train": ["t3", "t1"], "eval": ["t2"]}')
    config = tmp_path / "eval.yaml"
    config.write_text(
        CONFIG.replace("split: all", "split: train").replace("provider: process", "provider: process, splits: splits.json")
    )
    code, _, err = run("eval.yaml", "--task", "t2")
    assert code == exits.CONFIG and "task 't2' is of the split eval (--split eval plays it)" in err
    assert "task 'default::t2' is of the split eval" in run("eval.yaml", "--task", "default::t2")[2]
    assert "no task is called 'nine' (the split has: t1, t3)" in run("eval.yaml", "--task", "nine")[2]
    assert "no task is called 't22' (did you mean t2?)" in run("eval.yaml", "--task", "t22")[2]
    assert not (tmp_path / "runs").exists()
    assert run("eval.yaml", "--task", "t2", "--split", "eval", "--harness", "platoon-noop")[0] == exits.DONE


@pytest.mark.parametrize("name", ["t2", "default::t2"])
def test_a_task_that_is_excluded_or_refused_is_told_as_that(run: Run, tmp_path: Path, name: str) -> None:
    shutil.copytree(tmp_path / "tasks/t1", tmp_path / "tasks/t2")
    config = tmp_path / "eval.yaml"
    text = config.read_text()
    config.write_text(text.replace("  service_kwargs:", "  exclude_tasks: [t2]\n  service_kwargs:"))
    why = f"--task: task '{name}' is excluded (environments.0.exclude_tasks names it)"
    code, _, err = run("eval.yaml", "--task", name)
    assert code == exits.CONFIG and why in err
    config.write_text(text)
    (tmp_path / "tasks/t2/environment").mkdir(exist_ok=True)
    (tmp_path / "tasks/t2/environment/Dockerfile").write_text("FRUM x\n")
    assert f"--task: task '{name}' is refused: image: " in run("eval.yaml", "--task", name)[2]


UNTRAINED = "the weights are untrained: --of RECEIPT plays those of a run"


@pytest.mark.parametrize(
    ("arguments", "path", "version", "untrained"),
    [
        (("--of", "train.json"), "tinker://run/sampler", 9, False),
        (("--model-path", "tinker://mine"), "tinker://mine", 0, False),
        ((), None, 0, True),
        (("tinker_base_url=http://127.0.0.1:9",), None, 0, False),
        (("--harness", "platoon-noop"), None, 0, False),
    ],
)
def test_which_weights_play(
    run: Run, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...], path: str | None, version: int, untrained: bool
) -> None:
    paths = {"state_path": "tinker://run/state", "sampler_path": "tinker://run/sampler"}
    checkpoint = {**paths, "weights": "sha256:w", "policy_version": 9}
    body = {"run": "main", "trainer": "rl", "steps": 9, "checkpoint": checkpoint, "policies": {}}
    write_receipt(Path("train.json"), "train", body)
    asked: list[AdhocRequest] = []

    async def play(request: AdhocRequest) -> None:
        asked.append(request)
        raise ConfigError("enough")

    monkeypatch.setattr("platoon.eval.adhoc.play", play)
    monkeypatch.setenv("TINKER_API_KEY", "tml-none")
    code, _, err = run("eval.yaml", "--task", "t1", *arguments)
    assert code == exits.CONFIG, err
    assert (asked[0].opening.model_path, asked[0].opening.version) == (path, version)
    assert (UNTRAINED in err) == untrained


@pytest.mark.parametrize(
    ("arguments", "untrained"),
    [((), True), (("--checkpoint", "tinker://mine"), False), (("environments.0.harness=platoon-noop",), False)],
)
def test_an_evaluation_of_the_base_model_is_told(
    run: Run, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...], untrained: bool
) -> None:
    monkeypatch.setattr("platoon.eval.launch.evaluate", lambda request, console: exits.DONE)
    code, _, err = run("eval.yaml", *arguments, command="eval")
    assert code == exits.DONE, err
    assert ("the weights are untrained: --of RECEIPT evaluates those of a run" in err) == untrained


def test_weights_are_of_a_receipt_or_of_a_path(run: Run) -> None:
    assert run("eval.yaml", "--task", "t1", "--of", "a.json", "--model-path", "tinker://b")[0] == exits.USAGE
    code, _, err = run("eval.yaml", "--task", "t1", "--of", "a.json")
    assert code == exits.CONFIG and "a.json" in err


@pytest.mark.model
def test_the_embedded_service_plays_a_task(run: Run, tmp_path: Path) -> None:
    """The base is untrained, so only the path is proved: sampled over HTTP, played in a sandbox, graded, stored token for token."""
    arguments = ("--task", "t1", "--json", "--output-dir", "out", "--seed", "3")
    limits = ("inference.workflow.rollout_config.inference_params.max_completion_tokens=8", "deterministic=true")
    code, out, err = run("eval.yaml", *limits, *arguments)
    assert code == exits.DONE, err
    summary = json.loads(out)
    assert summary["outcome"]["status"] == "scored" and summary["total_steps"] >= 1
    import pyarrow.parquet as pq

    rows = pq.read_table(tmp_path / "out" / "tokens.parquet").to_pylist()
    assert sum(flag & 1 for row in rows for flag in row["flags"]) == summary["tokens"]["completion"]
    assert all(value < 0 for row in rows for value, flag in zip(row["logprobs"], row["flags"], strict=True) if flag & 1)


def test_an_evaluation_by_the_oracle_starts_no_service(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor does it need a key or a model that there is; with an entry that asks one, it does."""
    monkeypatch.delenv("TINKER_API_KEY", raising=False)
    oracle = CONFIG.replace("platoon-bash", "platoon-oracle").replace("tinker_base_url: local\n", "")
    (tmp_path / "eval.yaml").write_text(oracle)
    code, _, err = run("eval.yaml", "--receipt", "receipt.json", command="eval")
    assert code == exits.DONE, err
    assert json.loads((tmp_path / "receipt.json").read_text())["figures"]["reward_mean"] == 1.0
    assert "service" not in err and "sample" not in err and "weights" not in err, err
    assert not list(tmp_path.rglob("service.log"))
    asking = "- {name: asks, service: harbor, harness: platoon-bash, service_kwargs: {dataset: tasks, provider: process}}\n"
    (tmp_path / "eval.yaml").write_text(oracle + asking)
    code, _, err = run("eval.yaml", command="eval")
    assert code == exits.CONFIG and "TINKER_API_KEY: must be set" in err
