"""`platoon harbor fetch`, `lock` and `verify` as a shell sees them: tables, JSON, exit codes, and what they leave."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from platoon import exits
from platoon.pipeline.sources import read_sources
from tests.cli.conftest import Run, write
from tests.envs.harbor.fakes.repositories import Repository

pytestmark = pytest.mark.process


def test_h022_fetch_resolves_what_moves_when_it_is_asked(tmp_path: Path, run: Run, repository: Repository) -> None:
    config = write(tmp_path / "c.yaml", {"dataset": f"git+{repository.url}@main"})
    code, out, told = run("harbor", "fetch", config)
    assert (code, out) == (exits.CONFIG, "")
    assert "run platoon harbor fetch CONFIG --update" in told
    code, out, told = run("harbor", "fetch", config, "--update", "--json")
    assert code == exits.DONE
    (row,) = map(json.loads, out.splitlines())
    assert set(row) == {"environment", "lock", "lock_digest", "resolved", "tasks", "excluded", "runnable", "refused", "fetched"}
    assert (row["environment"], row["tasks"], row["runnable"], row["fetched"]) == ("e0", 2, 1, 2)
    assert Path(row["lock"]).is_file()
    code, out, _ = run("harbor", "fetch", config)
    assert code == exits.DONE and f"e0: resolved to {repository.git('rev-parse', 'HEAD')}\n" in out
    table = " ".join(out.split())
    assert "environment ┃ tasks ┃ excluded ┃ runnable ┃ fetched" in table
    assert "e0: 1 refused as task_config: t2 (t2: instruction.md: is missing, or no file)" in table
    assert f"e0: lock {row['lock']} ({row['lock_digest'][:19]})" in table


def test_an_update_tells_what_moved(tmp_path: Path, run: Run, repository: Repository) -> None:
    config = write(tmp_path / "c.yaml", {"dataset": f"git+{repository.url}@main"})
    (first,) = map(json.loads, run("harbor", "fetch", config, "--update", "--json")[1].splitlines())
    assert first["resolved"] == repository.git("rev-parse", "HEAD") and "changes" not in first
    code, out, told = run("harbor", "fetch", config, "--update", "--json")
    assert (code, "changes" in out, "moved" in told) == (exits.DONE, False, False)
    repository.task("t1", {"instruction.md": "Another.\n"})
    repository.task("t3")
    shutil.rmtree(repository.path / "t2")
    commit = repository.commit()
    code, out, told = run("harbor", "fetch", config, "--update", "--json")
    row = json.loads(out)
    assert row["resolved"] == commit
    assert row["changes"] == {"since": first["resolved"], "changed": ["t1"], "new": ["t3"], "gone": ["t2"]}
    assert f"@main: moved from {first['resolved']} to {row['resolved']}: 1 changed: t1; 1 new: t3; 1 gone: t2\n" in told


def test_several_entries_and_all_their_problems(tmp_path: Path, run: Run, repository: Repository) -> None:
    commit = repository.git("rev-parse", "HEAD")
    Repository(tmp_path / "data").task("l1")
    good = [{"dataset": f"git+{repository.url}@{commit}"}, {"dataset": "data"}]
    config = write(tmp_path / "c.yaml", *good)
    code, out, _ = run("harbor", "fetch", config, "--json")
    assert (code, [json.loads(line)["tasks"] for line in out.splitlines()]) == (exits.DONE, [2, 1])
    config = write(
        tmp_path / "c.yaml", {"dataset": f"git+{repository.url}@{'0' * 40}"}, *good, {"dataset": f"git+{repository.url}"}
    )
    code, out, told = run("harbor", "fetch", config)
    assert (code, out) == (exits.CONFIG, "")
    assert "has no commit" in told and "--update" in told
    config = write(tmp_path / "c.yaml", {"dataset": "data", "tasks": "gone.txt"}, {"dataset": "nowhere"})
    code, _, told = run("harbor", "fetch", config)
    assert code == exits.CONFIG
    assert "gone.txt" in told and "nowhere" in told
    assert run("harbor", "fetch", config, "x")[0] == exits.USAGE


@pytest.mark.parametrize(
    ("command", "kind"),
    [
        (("harbor", "fetch"), "dataset"),
        (("harbor", "lock"), "dataset"),
        (("harbor", "images", "plan"), "dataset"),
        (("lock",), "dataset"),
        (("lock",), "dataset_dir"),
    ],
)
def test_exclusions_that_mean_no_task(tmp_path: Path, run: Run, command: tuple[str, ...], kind: str) -> None:
    for name in ("alpha", "beta"):
        Repository(tmp_path / "data").task(name)
    config = write(tmp_path / "c.yaml", {kind: "data"})
    model = ["inference={model_name: local/small, renderer_name: chat_template}", "tinker_base_url=local", "split=all"]

    def called(excluded: str) -> tuple[int, str]:
        override = f"environments.0.exclude_tasks={excluded}"
        if command[0] == "harbor":
            code, _, told = run(*command, config, override)
        else:
            assert run("resolve", config, *model, override, "--out", "r.json")[0] == exits.DONE
            code, _, told = run("lock", "r.json", "--base", ".", "--out", "l.json")
        return code, told

    if command[0] == "harbor":
        run("harbor", "fetch", config)
    code, told = called("[alpa]")
    assert (code, "environments.0.exclude_tasks: no task is called alpa (did you mean alpha?)" in told) == (exits.CONFIG, True), (
        told
    )
    assert called("[alpha]")[0] == exits.DONE
    if kind == "dataset":
        code, told = called("[alpha, beta]")
        rule = "environments.0.exclude_tasks: leaves none of the 2 tasks that can run (exclude fewer)"
        assert (code, rule in told) == (exits.CONFIG, True), told


@pytest.mark.parametrize(
    ("splits", "told"),
    [
        ({"train": ["t1"], "eval": ["t2"], "small": ["t2"]}, []),
        ({"eval": ["t1", "t2"], "train": ["t1"]}, ["split eval has 1 task that train has too: t1"]),
        (
            {"train": ["t2", "t1"], "eval": ["t2"], "all": ["t1", "t2"]},
            ["split eval has 1 task that train has too: t2", "split all has 2 tasks that train has too: t1, t2"],
        ),
        ({"dev": ["t1"], "eval": ["t1"]}, []),
    ],
)
def test_tasks_that_are_trained_on_and_evaluated(tmp_path: Path, run: Run, splits: dict[str, list[str]], told: list[str]) -> None:
    repository = Repository.make(tmp_path / "data")
    for name in ("t1", "t2"):
        repository.task(name)
    (tmp_path / "splits.json").write_text(json.dumps(splits))
    write(tmp_path / "e.yaml", {"dataset": "data", "splits": "splits.json"})
    for command in ("fetch", "lock"):
        code, _, err = run("harbor", command, "e.yaml")
        assert (code, [line for line in err.splitlines() if "warning" in line]) == (0, [f"warning: e0: {line}" for line in told])


def test_warnings_are_one_line_a_kind(tmp_path: Path, run: Run) -> None:
    """H502: of compose files that are not read."""
    for name in ("a", "b"):
        Repository(tmp_path / "data").task(name, {"environment/compose.yml": "services: {}\n"})
    code, _, told = run("harbor", "fetch", write(tmp_path / "c.yaml", {"dataset": "data"}))
    assert code == exits.DONE
    (line,) = [line for line in told.splitlines() if line.startswith("warning: ")]
    assert line.startswith("warning: e0: environment/compose.yml is not read")
    assert line.endswith("(2 tasks, such as a)")


def test_needed_files_that_an_ignore_file_leaves_out_are_told(tmp_path: Path, run: Run) -> None:
    """By `fetch` and `plan`, once for each line that does; one that no line names is missing and no more."""
    data = Repository(tmp_path / "data")
    data.task("a", {".gitignore": "*.toml\n!other.toml\n*.log\n"})
    data.task("b", {".gitignore": "# all\ntests/\n/*.md\n!/README.md\n"})
    data.task("c", {".gitignore": "*.log\n", "instruction.md": None})
    compose = {"environment/docker-compose.yaml": "services: {main: {build: .}, db: {image: redis:7}}\n"}
    data.task("d", {".gitignore": "docker-compose.yaml\nDockerfile\nsolution\n", "environment/Dockerfile": "FROM a\n", **compose})
    code, out, told = run("harbor", "fetch", write(tmp_path / "c.yaml", {"dataset": "data"}))
    assert code == exits.DONE and "3 refused as task_config" in out
    assert [line for line in told.splitlines() if line.startswith("warning: ")] == [
        "warning: e0: environment/Dockerfile is left out by Dockerfile in its .gitignore (task d)",
        "warning: e0: environment/docker-compose.yaml is left out by docker-compose.yaml in its .gitignore (task d)",
        "warning: e0: instruction.md is left out by /*.md in its .gitignore (task b)",
        "warning: e0: solution/solve.sh is left out by solution in its .gitignore (task d)",
        "warning: e0: task.toml is left out by *.toml in its .gitignore (task a)",
        "warning: e0: tests/test.sh is left out by tests/ in its .gitignore (task b)",
    ]
    assert "warning: task.toml is left out by *.toml in its .gitignore" in run("harbor", "plan", "data/a")[1]


def test_keys_of_a_task_that_nothing_reads_are_told(tmp_path: Path, run: Run) -> None:
    """By `fetch`, `lock`, its `--check`, `verify` and `plan`, each key with the known one that is near."""
    text = '[enviroment]\ncpus = 1\n[agent]\ntimeout = 5\n[metadata]\nany = 1\n[environment]\nmemory = "1G"\n["a\\u001bb"]\n'
    for name in ("a", "b"):
        Repository(tmp_path / "data").task(name, {"task.toml": text})
    config = write(tmp_path / "c.yaml", {"dataset": "data"})
    commands = (["fetch"], ["fetch"], ["lock"], ["lock", "--check"], ["verify"])
    told_by = [run("harbor", *command, config)[2] for command in commands]
    told_by.append(run("harbor", "plan", str(tmp_path / "data/a"))[1])
    for told in told_by:
        lines = [line for line in told.splitlines() if line.startswith("warning: ")]
        assert len(lines) == 3, told
        assert any("task.toml: enviroment is read by nothing (did you mean environment?)" in line for line in lines)
        assert any("task.toml: agent.timeout is read by nothing (did you mean timeout_sec?)" in line for line in lines)
        assert any(r"task.toml: a\x1bb is read by nothing" in line for line in lines)
    assert all("(2 tasks, such as a)" in told for told in told_by[:-1])


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["--lock", "x"], exits.CONFIG, "--lock: was removed (set lock: in service_kwargs"),
        (["--cache", "x"], exits.CONFIG, "--cache: was removed (set cache: in the site file)"),
        (["--workers", "0"], exits.USAGE, "workers"),
        (["--nothing"], exits.USAGE, "No such option"),
        (["environments.0.service_kwargs.dataset=git+https://u:s3cr3t@h/r"], exits.CONFIG, "must hold no user or password"),
        (["environments.0.service_kwargs.registry=https://h/r?token=s3cr3t"], exits.CONFIG, "must hold no credential"),
    ],
)
def test_what_fetch_does_not_take(tmp_path: Path, run: Run, arguments: list[str], code: int, words: str) -> None:
    Repository(tmp_path / "data").task("a")
    found, out, told = run("harbor", "fetch", write(tmp_path / "c.yaml", {"dataset": "data"}), *arguments)
    assert (found, out) == (code, "")
    assert words in told
    assert "s3cr3t" not in told


def test_files_that_name_no_environment(tmp_path: Path, run: Run) -> None:
    (tmp_path / "old.yaml").write_text("dataset: data\ntasks: [a]\n")
    code, _, told = run("harbor", "fetch", "old.yaml")
    assert code == exits.CONFIG
    assert "old.yaml: dataset: a dataset stands in an environment" in told
    config = write(tmp_path / "c.yaml", {"task_dirs": ["data/a"]})
    Repository(tmp_path / "data").task("a")
    assert "names no dataset to fetch" in run("harbor", "fetch", config)[2]
    (tmp_path / "bad.yaml").write_text("environments: [{name: a, service: harbor, servce_kwargs: {}}]\n")
    assert "did you mean service_kwargs?" in run("harbor", "fetch", "bad.yaml")[2]


STACK = """services:
  main: {}
  db: {image: "postgres:16"}
  judge: {build: {context: judge}}
"""


def test_i005_i013_images_that_locked_tasks_need(tmp_path: Path, run: Run) -> None:
    """Those of sidecars among them, built ones and references that are pinned."""
    data = Repository(tmp_path / "data")
    image = {"environment/Dockerfile": "FROM debian:12\nRUN true\n"}
    stack = {"environment/docker-compose.yaml": STACK, "environment/judge/Dockerfile": "FROM alpine:3\nRUN true\n"}
    data.task("a", image)
    data.task("b", image)
    data.task("c", {"environment/Dockerfile": "FROM debian:12\nRUN false\n", **stack})
    data.task("d", {"task.toml": '[environment]\ndocker_image = "postgres:16"\n[verifier.environment]\ndocker_image = "judge:1"\n'})
    data.task("e", {"task.toml": '[environment]\ndocker_image = "left:1"\n'})
    data.task("f", {"task.toml": '[environment]\ndocker_image = "refused:1"\n', "instruction.md": None})
    config = write(tmp_path / "c.yaml", {"dataset": "data"})
    text = (tmp_path / "c.yaml").read_text()
    (tmp_path / "c.yaml").write_text(text.replace("  service: harbor", "  exclude_tasks: [e]\n  service: harbor"))
    code, out, told = run("harbor", "images", "plan", config)
    assert (code, out) == (exits.CONFIG, "")
    assert "e0 has no lock" in told and "run platoon harbor fetch CONFIG" in told
    lock = json.loads(run("harbor", "fetch", config, "--json")[1])["lock"]
    code, out, _ = run("harbor", "images", "plan", config, "--json")
    assert code == exits.DONE
    rows = [json.loads(line) for line in out.splitlines()]
    assert all(row["environments"] == ["e0"] and row["key"].startswith(("sha256:", "ref:")) for row in rows)
    shown = {(row["role"], row["kind"], row["tasks"], *row["base"], row["example"]) for row in rows}
    assert shown == {
        ("environment", "shared", 2, "debian:12", "a"),
        ("environment", "per_task", 1, "debian:12", "c"),
        ("service", "per_task", 1, "alpine:3", "c"),
        ("service", "prebuilt", 2, "postgres:16", "c"),
        ("verifier", "prebuilt", 1, "judge:1", "d"),
    }
    assert [row["tasks"] for row in rows] == [2, 2, 1, 1, 1]
    code, out, _ = run("harbor", "images", "plan", config)
    lines = [" ".join(line.replace("│", " ").split()) for line in out.splitlines()]
    assert f"{next(row['key'] for row in rows if row['kind'] == 'shared')[:19]} environment shared debian:12 a and 1 more" in lines
    assert "ref:postgres:16 service prebuilt c and 1 more" in lines
    assert lines[-1] == "3 images to build, 2 of registries"
    # A lock alone knows of no entry that leaves a task out.
    code, out, _ = run("harbor", "images", "plan", lock, "--json")
    assert code == exits.DONE and "ref:left:1" in out and "refused:1" not in out
    assert run("harbor", "images", "plan", str(tmp_path / "gone.lock.json"))[0] == exits.CONFIG
    assert run("harbor", "images", "plan")[0] == exits.USAGE


def test_a_terminated_fetch_leaves_nothing_running(tmp_path: Path, repository: Repository) -> None:
    """What it started ends with it, and staging is gone; the leftover check of this group looks for the sleeper."""
    (repository.path / "main.py").write_text("import pathlib, sys, time\npathlib.Path(sys.argv[1]).touch()\ntime.sleep(100)\n")
    started = tmp_path / "started"
    adapter = {"repo": repository.url, "commit": repository.commit(), "command": [sys.executable, "main.py", str(started)]}
    config = write(tmp_path / "c.yaml", {"adapter": adapter})
    (tmp_path / "site.yaml").write_text("cache: cache\n")
    argv = [sys.executable, "-m", "platoon", "harbor", "fetch", config, "--site", "site.yaml"]
    process = subprocess.Popen(argv, cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])})
    deadline = time.monotonic() + 60
    while not started.exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    process.send_signal(signal.SIGTERM)
    assert process.wait(timeout=30) == exits.TERMINATED
    assert list((tmp_path / "cache/harbor/.tmp").iterdir()) == []


def test_the_workflow_reads_what_an_entry_is_made_of(tmp_path: Path) -> None:
    """Files that the rule of the lock declares: overlays, registries and what lies beside them, and no lock that is written."""
    Repository(tmp_path / "data").task("a", {"tests/test.sh": None, "environment/data.csv": None, "instruction.md": None})
    Repository(tmp_path / "sub/tasks").task("r", {"tests/test.sh": None, "environment/data.csv": None, "instruction.md": None})
    (tmp_path / "sub/registry.json").write_text('[{"name": "n", "version": "1", "tasks": [{"name": "r", "path": "tasks/r"}]}]')
    (tmp_path / "over").mkdir()
    (tmp_path / "over/overlay.toml").write_text("")
    (tmp_path / "given.lock.json").write_text("{}")
    (tmp_path / "repo").mkdir()
    (tmp_path / "repo/main.py").write_text("")
    config = write(
        tmp_path / "c.yaml",
        {"dataset": "data", "overlays": ["over"], "lock": "written.lock.json"},
        {"dataset": "harbor://n@1", "registry": "sub/registry.json"},
        {"lock": "given.lock.json"},
        {"adapter": {"repo": "repo", "commit": "a" * 40, "command": ["x"]}},
        {"dataset": "git+https://host/r@main#x"},
    )
    found = [os.path.relpath(path, tmp_path) for path in read_sources(tmp_path / config).data]
    assert found == [
        "data/a/task.toml",
        "given.lock.json",
        "over/overlay.toml",
        "sub/registry.json",
        "sub/tasks/r/task.toml",
    ]


@pytest.mark.parametrize("second", ["l.lock.json", "./sub/../l.lock.json"])
def test_two_entries_that_would_write_the_same_lock(tmp_path: Path, run: Run, second: str) -> None:
    """The later one would overwrite it without a word, and the earlier one's tasks be lost."""
    data = Repository(tmp_path / "data")
    data.task("a")
    data.task("b")
    (tmp_path / "sub").mkdir()
    one = {"dataset": "data", "select": {"name": "a"}, "lock": "l.lock.json"}
    config = write(tmp_path / "c.yaml", one, {"dataset": "data", "select": {"name": "b"}, "lock": second})
    for command in (("fetch",), ("lock",), ("lock", "--check"), ("verify",)):
        code, out, told = run("harbor", command[0], config, *command[1:])
        assert (code, out) == (exits.CONFIG, "")
        assert "c.yaml: environments.1.service_kwargs.lock: environments e0 and e1 ask for different tasks" in told
        assert "give each a lock of its own" in told
    assert not (tmp_path / "l.lock.json").exists()
    # Who asks the same may share it.
    config = write(tmp_path / "c.yaml", one, {**one, "lock": second, "env": {"A": "b"}})
    assert run("harbor", "fetch", config)[0] == exits.DONE


@pytest.mark.parametrize(
    ("dataset", "told"),
    [
        ("git+ext::sh -c true", "an address is one line without blanks"),
        ("foo::bar", "is of no known kind, foo:"),
        ("hf://nothing", "must be hf://org/name"),
        ("nowhere", "no such file or directory: nowhere"),
    ],
)
def test_a_dataset_that_is_no_reference_is_told_once(tmp_path: Path, run: Run, dataset: str, told: str) -> None:
    code, _, text = run("harbor", "fetch", write(tmp_path / "c.yaml", {"dataset": dataset}))
    assert code == exits.CONFIG
    assert text.count("environments.0.service_kwargs.dataset: ") == 1
    assert f"c.yaml: environments.0.service_kwargs.dataset: {told}" in text


def test_a_file_of_environments_is_validated(tmp_path: Path, run: Run) -> None:
    """As a configuration's entries are; `--tasks` reads the data too."""
    task = Repository(tmp_path / "data").task("t1")
    config = write(tmp_path / "c.yaml", {"dataset": "data"})
    for more in ([], ["--tasks"]):
        assert run("config", "validate", config, *more) == (exits.DONE, "c.yaml: a file of environments\n", "")
    (task / "environment/out").symlink_to("/etc/hostname")
    assert run("config", "validate", config)[0] == exits.DONE
    assert run("config", "validate", config, "--tasks")[0] == exits.CONFIG
    for options, told in (
        ({"dataset": "nowhere"}, "environments.0.service_kwargs.dataset: no such file or directory: nowhere"),
        ({"dataset": "data", "select": {"kind": 1}}, "environments.0.service_kwargs.select: data/select.kind: no task has"),
        ({"dataset": "data", "dataste": 1}, "environments.0.service_kwargs.dataste: unknown key"),
    ):
        code, _, told_now = run("config", "validate", write(tmp_path / "c.yaml", options))
        assert code == exits.CONFIG and told in told_now
