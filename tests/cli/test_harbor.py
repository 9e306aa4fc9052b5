"""`platoon harbor hash` and `platoon harbor fetch` as a shell sees them."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from platoon import exits
from tests.cli.conftest import Run

pytestmark = pytest.mark.unit


UNPRIVILEGED = 65534

# Vector A of the rule's specification.
VECTOR = {
    "task.toml": 'schema_version = "1.4"\n',
    "instruction.md": "Do it.\n",
    "environment/Dockerfile": "FROM scratch\n",
    "tests/test.sh": "#!/bin/bash\necho 1 > /logs/verifier/reward.txt\n",
}
VECTOR_DIGEST = "sha256:a12337cf8c38336479b07d803ca2fff3fca37ee21b3581bdd5dcca058a5be047"


@pytest.fixture
def unprivileged(run: Run, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A directory of a user whom modes bind, and that user for the test, once `run` has its own."""
    with TemporaryDirectory(prefix="platoon-test-") as place:
        monkeypatch.setenv("PLATOON_NODE_SCRATCH", place)
        before = os.geteuid()
        if before == 0:
            os.chown(place, UNPRIVILEGED, UNPRIVILEGED)
            os.seteuid(UNPRIVILEGED)
        try:
            yield Path(place)
        finally:
            os.seteuid(before)


def write(directory: Path, files: dict[str, str]) -> Path:
    directory.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (directory / name).parent.mkdir(parents=True, exist_ok=True)
        (directory / name).write_text(text)
    return directory


def test_hash(tmp_path: Path, run: Run) -> None:
    write(tmp_path / "a", VECTOR)
    assert run("harbor", "hash", "a")[:2] == (0, f"{VECTOR_DIGEST}\n")
    code, out, _ = run("harbor", "hash", "a", "a/../a", "--json")
    rows = [json.loads(line) for line in out.splitlines()]
    assert code == 0
    assert [row["digest"] for row in rows] == [VECTOR_DIGEST] * 2
    assert rows[0]["rule"] == "harbor-packager-v1"
    assert list(rows[0]["files"]) == ["environment/Dockerfile", "instruction.md", "task.toml", "tests/test.sh"]


def test_what_has_no_hash(tmp_path: Path, run: Run) -> None:
    code, _, told = run("harbor", "hash", "nowhere")
    assert code == exits.CONFIG
    assert told == "platoon: nowhere: no such file or directory (a task is a directory with a task.toml)\n"
    assert "site.yaml: is no directory" in run("harbor", "hash", "site.yaml")[2]
    (write(tmp_path / "b", VECTOR) / "tests/out").symlink_to("../../site.yaml")
    assert run("harbor", "hash", "b")[0] == exits.CONFIG


def test_what_is_larger_than_any_task_is_not_read(tmp_path: Path, run: Run) -> None:
    with (write(tmp_path / "a", VECTOR) / "tests/data").open("wb") as file:
        file.truncate(2 << 40)
    code, _, told = run("harbor", "hash", "a")
    assert code == exits.CONFIG and told.startswith("platoon: a: tests: the task holds more than 10737418240 bytes (put large data")


@pytest.mark.parametrize(
    ("make", "rule"),
    [
        (os.mkfifo, "is no directory"),
        (lambda path: path.symlink_to("/dev/zero"), "is no directory"),
        (lambda path: path.symlink_to(path), "cannot be read (Too many levels of symbolic links)"),
        (lambda path: os.mkfifo(write(path, {}) / "task.toml"), "is no task: its task.toml: is no regular file"),
        (lambda path: (write(path, {}) / "task.toml").mkdir(), "is no task: its task.toml: is no regular file"),
        (lambda path: (write(path, {}) / "task.toml").symlink_to("/dev/zero"), "is no task: its task.toml: is no regular file"),
    ],
)
@pytest.mark.parametrize("command", ["hash", "plan"])
def test_what_is_no_directory_of_a_task(tmp_path: Path, run: Run, make: Callable[[Path], object], rule: str, command: str) -> None:
    make(tmp_path / "task")
    code, out, told = run("harbor", command, "task")
    assert (code, out) == (exits.CONFIG, "") and told.startswith(f"platoon: task: {rule}")


def test_a_path_that_is_too_long_is_told_in_short(run: Run) -> None:
    code, _, told = run("harbor", "hash", "a" * 5000)
    assert code == exits.CONFIG and "cannot be read (File name too long)" in told and len(told) < 500


@pytest.mark.parametrize("name", ["task.toml", "tests/test.sh", "tests", "environment", "."])
@pytest.mark.parametrize("command", ["hash", "plan"])
def test_what_a_user_may_not_read_is_named(unprivileged: Path, run: Run, name: str, command: str) -> None:
    write(unprivileged / "task", VECTOR)
    (unprivileged / "task" / name).chmod(0)
    code, out, told = run("harbor", command, str(unprivileged / "task"))
    (unprivileged / "task" / name).chmod(0o700)
    assert (code, out) == (exits.CONFIG, "")
    assert "Permission denied" in told and "Errno" not in told and (name == "." or name in told)


def test_a_directory_without_a_task_has_no_hash(tmp_path: Path, run: Run) -> None:
    (tmp_path / "empty").mkdir()
    write(tmp_path / "tasks/t1", VECTOR)
    code, out, told = run("harbor", "hash", "empty")
    assert (code, out) == (exits.CONFIG, "")
    assert told.startswith("platoon: empty: is no task: its task.toml: no such file or directory")
    assert "children" not in told
    code, out, told = run("harbor", "hash", "tasks")
    assert (code, out) == (exits.CONFIG, "")
    assert "its children are tasks: platoon harbor hash tasks/t1" in told


def test_fetch_prints_one_object_an_entry(tmp_path: Path, run: Run) -> None:
    """`platoon harbor fetch CONFIG --json`: what the spec names, and what is excluded and refused."""
    for number in range(3):
        toml = f'[metadata]\nfamily = "f{number}"\n' + ('[agent]\nuser = "me"\n' if number == 2 else "")
        write(tmp_path / f"tasks/t{number}", {**VECTOR, "task.toml": toml, "environment/Dockerfile": ""})
        (tmp_path / f"tasks/t{number}/environment/Dockerfile").unlink()
    entry = (
        "- name: NAME\n  service: harbor\n  harness: platoon-bash\n"
        "  service_kwargs: {dataset: tasks, provider: process, index: [{metadata: [family]}], HOLDOUT}\n"
    )
    text = "train: {model_name: local/small, renderer_name: chat_template, max_training_steps: 1, batch_size: 1}\nenvironments:\n"
    text += entry.replace("NAME", "one").replace("HOLDOUT", "holdout: {fraction: 0.3, group_by: family}")
    text += entry.replace("NAME", "two").replace(", HOLDOUT", "")
    (tmp_path / "c.yaml").write_text(text)
    code, out, _ = run("harbor", "fetch", "c.yaml", "--json")
    assert code == 0
    one, two = (json.loads(line) for line in out.splitlines())
    assert set(one) == {
        "environment",
        "lock",
        "lock_digest",
        "resolved",
        "tasks",
        "excluded",
        "runnable",
        "refused",
        "fetched",
        "holdout",
    }
    assert (one["environment"], one["tasks"], one["runnable"], one["fetched"]) == ("one", 3, 2, 3)
    assert one["holdout"]["eval"] + one["holdout"]["train"] == 2
    assert len(one["holdout"]["eval_digest"]) == 64
    assert Path(one["lock"]).is_file()
    assert [item["task"] for item in one["refused"]] == ["t2"] and one["refused"][0]["refused"].startswith("agent_user: the task")
    assert set(two) == set(one) - {"holdout"}
    assert (two["fetched"], two["lock_digest"]) == (0, one["lock_digest"])
    code, out, _ = run("harbor", "fetch", "c.yaml")
    assert code == 0
    assert "one: 1 refused as agent_user: t2 (t2: the task sets " in out
    (named,) = (json.loads(line)["splits"] for line in run("harbor", "fetch", "c.yaml", "--json", "--splits")[1].splitlines()[:1])
    assert sorted([*named["train"], *named["eval"]]) == ["t0", "t1"] and len(named["eval"]) == one["holdout"]["eval"]
    assert f"one: eval has 1: {named['eval'][0]}" in out and f"one: train has 1: {named['train'][0]}" in out
    # What is excluded is neither trained on nor held out, nor told as refused; the split is the same.
    excluding = ("c.yaml", f"environments.0.exclude_tasks=[{named['train'][0]}, t2]")
    code, out, told = run("harbor", "fetch", *excluding, "--json", "--splits")
    left = json.loads(out.splitlines()[0])
    assert (left["tasks"], left["excluded"], left["runnable"]) == (3, 2, 1)
    assert left["refused"] == []
    assert left["splits"] == {"train": [], "eval": named["eval"]}
    assert left["holdout"] == {**one["holdout"], "train": 0}
    assert "warning: one: no task is left to train: all of its tasks are excluded (exclude fewer)" in told
    code, out, told = run("harbor", "lock", *excluding)
    assert "one: train has no task\n" in out and "one: 1 refused" not in out
    (tmp_path / "left.yaml").write_text(text.replace("name: one\n", f"name: one\n  exclude_tasks: [{named['train'][0]}]\n"))
    assert "warning: one: no task is left to train" in run("prepare", "left.yaml")[2]
    code, _, told = run("harbor", "fetch", "c.yaml", "environments.0.service_kwargs.dataset=gone", "environments.1.name=one")
    assert code == exits.CONFIG
    assert "command line: environments.0.service_kwargs.dataset: no such file or directory: gone" in told
    assert "environments.1.name" in told
