"""Datasets that a program generates: run at a commit, in its own environment, its output read like a local directory."""

from __future__ import annotations

import json
import os
import sys
import textwrap
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from platoon.envs.harbor.options import HarborOptions
from platoon.errors import ConfigError, PlatoonError
from tests.envs.harbor.fakes.repositories import Repository
from tests.envs.harbor.sources.conftest import Fetching

pytestmark = pytest.mark.process

MakeRepository = Callable[..., Repository]

ADAPTER = """
    import json, os, sys
    from pathlib import Path
    args = sys.argv[1:]
    out = Path(args[args.index("--output-dir") + 1])
    seen = {"argv": args, "cwd": os.getcwd(), "env": dict(os.environ), "tree": sorted(map(str, Path("..").rglob("*")))}
    Path(os.environ["SEEN"]).write_text(json.dumps(seen))
    for name in ("one", "two"):
        for path, text in {"task.toml": "", "instruction.md": f"Do {name}.\\n", "tests/test.sh": "true\\n"}.items():
            (out / name / path).parent.mkdir(parents=True, exist_ok=True)
            (out / name / path).write_text(text + os.environ.get("MORE", ""))
"""


@pytest.fixture
def adapter(make_repository: MakeRepository) -> Repository:
    repository = make_repository("upstream")
    (repository.path / "adapters/mine").mkdir(parents=True)
    (repository.path / "adapters/mine/main.py").write_text(textwrap.dedent(ADAPTER))
    (repository.path / "adapters/other").mkdir()
    (repository.path / "adapters/other/large").write_text("x")
    return repository


def options(repository: Repository | str, commit: str, seen: Path, **more: Any) -> dict[str, Any]:
    return {
        "adapter": {
            "repo": repository if isinstance(repository, str) else repository.url,
            "commit": commit,
            "path": "adapters/mine",
            "command": [sys.executable, "main.py"],
            "env": {"SEEN": str(seen)},
            **more,
        }
    }


def test_h006_h015_h016_h018_an_adapter(adapter: Repository, fetching: Fetching, tmp_path: Path) -> None:
    commit = adapter.commit()
    fetched = fetching(options(adapter, commit, tmp_path / "seen", args=["--limit", "2"]))
    lock = fetched.lock
    assert [row.name for row in lock.tasks] == ["one", "two"]
    assert (lock.resolved, lock.dataset) == (commit, f"adapter:{adapter.url}@{commit}#adapters/mine")
    assert lock.source == {
        "kind": "adapter",
        "repo": adapter.url,
        "commit": commit,
        "path": "adapters/mine",
        "command": [sys.executable, "main.py"],
        "args": ["--limit", "2"],
        "env_names": ["SEEN"],
        "sparse": None,
    }
    assert str(tmp_path / "seen").encode() not in lock.to_bytes()
    seen = json.loads((tmp_path / "seen").read_text())
    assert seen["argv"][:2] == ["--limit", "2"]
    # The whole tree, in the adapter's folder.
    assert seen["cwd"].endswith("/adapters/mine")
    assert "../other/large" in seen["tree"]
    # The same tasks as a local directory give the same lock but for what names the source.
    for name in ("one", "two"):
        Repository(fetching.base / "local").task(
            name, {"task.toml": "", "instruction.md": f"Do {name}.\n", "tests/test.sh": "true\n", "environment/data.csv": None}
        )
    local = fetching({"dataset": "local"}).lock
    assert (
        replace(local, **{key: getattr(lock, key) for key in ("dataset", "resolved", "source", "inputs", "fetched_with")}) == lock
    )
    assert not list(fetching.cache.staging.iterdir())


def test_h015_sparse_checkouts(adapter: Repository, fetching: Fetching, tmp_path: Path) -> None:
    commit = adapter.commit()
    fetching(options(adapter, commit, tmp_path / "seen", sparse=["adapters/mine"]))
    assert "../other/large" not in json.loads((tmp_path / "seen").read_text())["tree"]


def test_h020_h021_a_commit_is_run_once(adapter: Repository, fetching: Fetching, tmp_path: Path) -> None:
    wanted = options(adapter, adapter.commit(), tmp_path / "seen")
    first = fetching(wanted)
    (tmp_path / "seen").unlink()
    assert fetching(wanted).lock == first.lock
    assert not (tmp_path / "seen").exists()
    # Not what the work tree holds: a local repository is taken at its commit too.
    (adapter.path / "adapters/mine/main.py").write_text("raise SystemExit(3)\n")
    local = options(str(adapter.path), wanted["adapter"]["commit"], tmp_path / "seen")
    assert [row.digest for row in fetching(local).lock.tasks] == [row.digest for row in first.lock.tasks]


def test_h026_a_local_repository_is_relative_to_the_configuration(
    adapter: Repository, fetching: Fetching, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    commit = adapter.commit()
    monkeypatch.chdir("/")
    lock = fetching(options("../upstream", commit, tmp_path / "seen")).lock
    assert lock.dataset == f"adapter:../upstream@{commit}#adapters/mine"
    assert str(tmp_path).encode() not in lock.to_bytes()


def test_the_environment_of_an_adapter(adapter: Repository, fetching: Fetching, tmp_path: Path) -> None:
    fetching.environment |= {"SECRET": "s3cr3t", "UV_CACHE_DIR": "/uv", "https_proxy": "http://proxy", "TOKEN": "t0k3n-value"}
    commit = adapter.commit()
    env = {"SEEN": str(tmp_path / "seen"), "API": "${TOKEN}", "OTHER": "${NOPE:-fallback}", "PLAIN": "a${TOKEN}"}
    lock = fetching(options(adapter, commit, tmp_path / "seen", env=env)).lock
    seen = json.loads((tmp_path / "seen").read_text())["env"]
    assert "SECRET" not in seen and "TOKEN" not in seen
    assert (seen["API"], seen["OTHER"], seen["PLAIN"]) == ("t0k3n-value", "fallback", "a${TOKEN}")
    assert (seen["UV_CACHE_DIR"], seen["https_proxy"], seen["PATH"]) == ("/uv", "http://proxy", os.environ["PATH"])
    assert lock.source["env_names"] == ["API", "OTHER", "PLAIN", "SEEN"]
    assert b"t0k3n" not in lock.to_bytes()
    # A host value is no part of what is asked for, its name is.
    fetching.environment["TOKEN"] = "another"
    assert fetching(options(adapter, commit, tmp_path / "seen", env=env)).lock.digest == lock.digest
    with pytest.raises(ConfigError, match=r"adapter\.env\.API: the variable GONE is not set here"):
        fetching(options(adapter, commit, tmp_path / "seen", env={**env, "API": "${GONE}"}))
    with pytest.raises(ConfigError, match=r"the variable NO NAME\\n is not set here"):
        fetching(options(adapter, commit, tmp_path / "seen", env={**env, "API": "${NO NAME\n}"}))


def test_output_and_checkout_in_arguments(adapter: Repository, fetching: Fetching, tmp_path: Path) -> None:
    commit = adapter.commit()
    more = {"args": ["--from={repo}", "--output-dir", "{output}"]}
    fetching(options(adapter, commit, tmp_path / "seen", **more))
    argv = json.loads((tmp_path / "seen").read_text())["argv"]
    assert argv[0].startswith(f"--from={fetching.cache.staging}")
    assert argv.count("--output-dir") == 1


def test_an_adapter_that_gives_other_tasks_says_so(adapter: Repository, fetching: Fetching, tmp_path: Path) -> None:
    fetching.environment["FROM_HOST"] = "\n"
    wanted = options(adapter, adapter.commit(), tmp_path / "seen", env={"SEEN": str(tmp_path / "seen"), "MORE": "${FROM_HOST}"})
    first = fetching(wanted)
    assert fetching(wanted, repair=True).lock == first.lock
    assert fetching.said == []
    fetching.environment["FROM_HOST"] = "\n\n"
    assert fetching(wanted, repair=True).lock != first.lock
    assert any("gave other tasks than before: 2 changed: one, two" in line for line in fetching.said)


@pytest.mark.parametrize(
    ("more", "program", "words"),
    [
        ({}, "import sys; print('TOKEN is', 's3cr3t', file=sys.stderr); sys.exit(3)", "ended with exit code 3\nTOKEN is ***"),
        ({}, "pass", "wrote no task"),
        ({"command": ["/nowhere/python"]}, "pass", "the program cannot be run: /nowhere/python"),
        ({"path": "nowhere"}, "pass", "the commit has no directory nowhere"),
        ({"path": "out"}, "pass", "the commit has no directory out"),
    ],
)
def test_adapters_that_fail(
    make_repository: MakeRepository, fetching: Fetching, tmp_path: Path, more: dict[str, Any], program: str, words: str
) -> None:
    repository = make_repository("upstream")
    (repository.path / "adapters/mine").mkdir(parents=True)
    (repository.path / "adapters/mine/main.py").write_text(program)
    (repository.path / "out").symlink_to("/etc")
    fetching.environment["TOKEN"] = "s3cr3t"
    wanted = options(repository, repository.commit(), tmp_path / "seen", env={"API": "${TOKEN}"}, **more)
    with pytest.raises(PlatoonError) as caught:
        fetching(wanted)
    assert words in str(caught.value)
    assert "s3cr3t" not in str(caught.value)
    assert not list(fetching.cache.staging.iterdir())


def test_an_adapter_that_makes_its_output_anew(make_repository: MakeRepository, fetching: Fetching) -> None:
    """Nothing is there for longer than a tick takes."""
    repository = make_repository("upstream")
    script = (
        'rm -rf "$2"; sleep 2.5; mkdir -p "$2/a/tests"; cd "$2/a"; touch task.toml; echo d | tee instruction.md > tests/test.sh\n'
    )
    (repository.path / "main.sh").write_text(script)
    adapter = {"repo": repository.url, "commit": repository.commit(), "command": ["sh", "main.sh"]}
    assert [row.name for row in fetching({"adapter": adapter}).lock.tasks] == ["a"]


@pytest.mark.parametrize(
    "script",
    [
        "true",
        'rm -rf "$2"',
        'rm -rf "$2"; echo x > "$2"',
        'rm -rf "$2"; ln -s nowhere "$2"',
        'rm -rf "$2"; ln -s /etc "$2"',
        'rm -rf "$2"; mkfifo "$2"',
    ],
)
def test_an_adapter_that_leaves_no_directory_of_tasks(make_repository: MakeRepository, fetching: Fetching, script: str) -> None:
    repository = make_repository("upstream")
    (repository.path / "main.sh").write_text(f"{script}\n")
    commit = repository.commit()
    with pytest.raises(ConfigError) as caught:
        fetching({"adapter": {"repo": repository.url, "commit": commit, "command": ["sh", "main.sh"]}})
    assert str(caught.value) == f"adapter: adapter:{repository.url}@{commit}: wrote no task (it must write to {{output}})"
    assert not list(fetching.cache.staging.iterdir())


def test_what_an_adapter_leaves_running_ends(make_repository: MakeRepository, fetching: Fetching, tmp_path: Path) -> None:
    """The leftover check of this group fails when the sleeper lives."""
    repository = make_repository("upstream")
    (repository.path / "adapters/mine").mkdir(parents=True)
    text = "import subprocess\nsubprocess.Popen(['sleep', '100'])\n"
    (repository.path / "adapters/mine/main.py").write_text(text)
    with pytest.raises(ConfigError, match="wrote no task"):
        fetching(options(repository, repository.commit(), tmp_path / "seen"))


def test_h024_links_in_the_output(make_repository: MakeRepository, fetching: Fetching, tmp_path: Path) -> None:
    repository = make_repository("upstream")
    (repository.path / "adapters/mine").mkdir(parents=True)
    text = textwrap.dedent(ADAPTER) + "\n(out / 'one' / 'tests' / 'link').symlink_to('/etc/passwd')\n"
    (repository.path / "adapters/mine/main.py").write_text(text)
    with pytest.raises(ConfigError, match="one: tests/link: a link to /etc/passwd leaves the task"):
        fetching(options(repository, repository.commit(), tmp_path / "seen"))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"commit": "main"}, "adapter.commit: must be a full commit"),
        ({"commit": "A" * 40}, "adapter.commit: must be a full commit"),
        ({"command": []}, "adapter.command: "),
        ({"path": "../x"}, "adapter.path: a path in a repository has no '..'"),
        ({"sparse": ["/x"]}, "adapter.sparse: a path in a repository is relative"),
        ({"comand": ["x"]}, "adapter.comand: unknown key (did you mean command?)"),
        ({"env": {"A-B": "x"}}, "adapter.env: must be a variable's name"),
        ({"args": ["\0"]}, "adapter.args: a word holds no NUL"),
        ({"repo": "git@host:x"}, "adapter.repo: must be a URL"),
    ],
)
def test_h007_what_is_no_adapter(change: dict[str, Any], words: str) -> None:
    value = {"repo": "r", "commit": "a" * 40, "command": ["x"], **change}
    with pytest.raises(ConfigError) as caught:
        HarborOptions.parse({"adapter": value}, key="")
    assert words in str(caught.value)


def test_h007_a_dataset_beside_it(fetching: Fetching) -> None:
    with pytest.raises(ConfigError, match="adapter: excludes dataset"):
        HarborOptions.parse({"dataset": "d", "adapter": {"repo": "r", "commit": "a" * 40, "command": ["x"]}})


UPSTREAM = """
    import argparse, shutil
    from pathlib import Path
    parser = argparse.ArgumentParser()
    parser.add_argument("--output-dir", type=Path, default=Path(__file__).parents[4] / "datasets")
    parser.add_argument("--limit", type=int)
    parser.add_argument("--overwrite", action="store_true")
    parser.add_argument("--task-ids", nargs="+")
    parser.add_argument("--source", type=Path, required=True)
    args = parser.parse_args()
    template = Path(__file__).parent / "task-template"
    for problem in sorted((args.source / "problems").iterdir())[: args.limit]:
        task = args.output_dir / f"bench-{problem.name}"
        shutil.copytree(template, task)
        (task / "instruction.md").write_text((problem / "statement").read_text())
        (task / "environment/app").mkdir()
        compose = task / "environment/docker-compose.yaml"
        compose.write_text(compose.read_text().replace("{problem_id}", problem.name))
"""
TEMPLATE = {
    "task.toml": 'schema_version = "1.1"\n[task]\nname = "bench/task"\n[environment]\ncpus = 2\nallow_internet = true\n',
    "tests/test.sh": "#!/bin/bash\ncurl http://proxy:8082/ > /logs/verifier/reward.txt\n",
    "environment/Dockerfile": "FROM debian:12\nCOPY app/ /app/\nRUN true\n",
    "environment/proxy.py": "print()\n",
    "environment/docker-compose.yaml": """
services:
  main:
    depends_on: {proxy: {condition: service_healthy}}
    environment: {PROBLEM_ID: "{problem_id}", JUDGE_URL: "http://proxy:8082"}
    networks: [front]
  proxy:
    image: python:3.12-slim
    command: [python3, /judge/proxy.py]
    expose: ["8082"]
    volumes: ["./proxy.py:/judge/proxy.py:ro", "${HOST_ARTIFACTS_PATH}/judge:/logs/judge"]
    healthcheck: {test: [CMD, "true"], interval: 5s, retries: 360}
    networks: [front, closed]
  engine:
    image: judge:1
    privileged: true
    volumes: ["${PROBLEMS_PATH}/{problem_id}:/problem:ro"]
    networks: [closed]
networks: {front: , closed: {internal: true}}
""",
}
SERVED_BY_A_NODE = """
[[compose]]
service = "engine"
external = "go-judge"
scope = { problem = "${PROBLEM_ID}" }
[[compose]]
service = "proxy"
unset = ["networks"]
[[compose]]
service = "main"
unset = ["networks"]
"""


def test_h008_an_adapter_in_the_shape_of_upstreams(make_repository: MakeRepository, fetching: Fetching) -> None:
    """A package beside the problems it reads, a judge behind a proxy, an empty directory that its Dockerfile copies."""
    repository = make_repository("upstream")
    package = repository.path / "adapters/bench/src/bench_adapter"
    for name, text in {"main.py": textwrap.dedent(UPSTREAM), "__init__.py": ""}.items():
        (package / name).parent.mkdir(parents=True, exist_ok=True)
        (package / name).write_text(text)
    for name, text in TEMPLATE.items():
        (package / "task-template" / name).parent.mkdir(parents=True, exist_ok=True)
        (package / "task-template" / name).write_text(text)
    for problem in ("7", "36"):
        (repository.path / "problems" / problem).mkdir(parents=True)
        (repository.path / "problems" / problem / "statement").write_text(f"Solve {problem}.\n")
    (fetching.base / "over").mkdir()
    (fetching.base / "over/overlay.toml").write_text(SERVED_BY_A_NODE)
    adapter = {
        "repo": repository.url,
        "commit": repository.commit(),
        "path": "adapters/bench",
        "command": [sys.executable, "-m", "bench_adapter.main"],
        "args": ["--source", "{repo}"],
        "env": {"PYTHONPATH": "src"},
    }
    refused = fetching({"adapter": adapter}).lock
    assert {(row.refused or "").partition(":")[0] for row in refused.tasks} == {"compose"}
    lock = fetching({"adapter": adapter, "overlays": ["over"]}).lock
    assert lock.runnable == ("bench-36", "bench-7")
    for row in lock.tasks:
        plan = lock.stack_plan(row)
        assert plan is not None
        assert plan.externals["engine"].scope == {"problem": row.name.removeprefix("bench-")}
        assert (plan.order, plan.privileges, plan.host_env) == (("proxy", "main"), {}, [])
        assert row.image["empty_directories"] == ["app"]
