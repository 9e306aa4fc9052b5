"""Reading one task directory: what runs, what is refused and how the refusal reads."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest

from platoon.envs.harbor.format import TaskRefused, cut_canary, read_task
from platoon.envs.harbor.task_toml import TaskToml
from platoon.envs.harbor.templates import resolve_env
from tests.envs.harbor.task_toml_texts import REFUSED_BY_BOTH, REFUSED_HERE, TAKEN_BY_BOTH, TAKEN_HERE

pytestmark = pytest.mark.unit

MakeTask = Callable[..., Path]


def test_a_plain_task(make_task: MakeTask) -> None:
    task = read_task(make_task())
    assert task.instruction == "Do it.\n"
    assert (task.agent.timeout_sec, task.verifier.timeout_sec, task.verifier.separate) == (None, 600.0, False)
    assert task.has_solution is False


def test_settings_are_read_and_unknown_keys_ignored(make_task: MakeTask) -> None:
    toml = """
artifacts = ["out.txt", {source = "/data", exclude = ["*.tmp"]}]
future = true
[task]
name = "org/name"
[metadata]
difficulty = "easy"
day = 2026-01-01
[environment]
docker_image = "debian:12"
memory = "2G"
cpus = 1
allow_internet = false
workdir = "/app"
env = { A = "${HOST_A:-x}" }
build_timeout_sec = 10
gpu_types = ["H100"]
skills_dir = "/s"
storage = "10G"
unknown = { any = "thing" }
[environment.tpu]
type = "v5"
topology = "2x2"
[environment.healthcheck]
command = "true"
[[environment.mcp_servers]]
name = "s"
transport = "http"
url = "http://localhost:1/"
[agent]
timeout_sec = 60
user = "agent"
[verifier]
timeout_sec = 30.5
env = { B = "1" }
[[verifier.collect]]
command = "ls"
[solution]
env = { C = "2" }
"""
    task = read_task(make_task(files={"task.toml": toml, "solution/solve.sh": "true\n", "environment/Dockerfile": "FROM x\n"}))
    assert task.name == "org/name"
    assert (task.environment.memory_mb, task.environment.cpus, task.environment.network) == (2048, 1.0, "no-network")
    assert (task.agent.timeout_sec, task.agent.user, task.verifier.timeout_sec) == (60.0, "agent", 30.5)
    assert task.environment.mcp_servers[0].transport == "streamable-http"
    assert task.environment.healthcheck is not None
    assert task.environment.healthcheck.retries == 3
    assert [artifact.source for artifact in task.artifacts] == ["out.txt", "/data"]
    assert (task.has_solution, dict(task.solution_env)) == (True, {"C": "2"})


@pytest.mark.parametrize(
    ("files", "why"),
    [
        ({"task.toml": None}, "task.toml: is missing"),
        ({"task.toml": "a = [\n"}, "task.toml: "),
        ({"task.toml": "x = " + "[" * 5000}, "task.toml: "),
        ({"task.toml": ".".join("a" * 20_000) + " = 1\n"}, "task.toml: is nested deeper than 200 levels"),
        ({"task.toml": "[[a]]\n" * 100_000}, "task.toml: has keys of more than 20000 parts in all"),
        ({"task.toml": "[metadata]\nx = 0x" + "f" * 5000}, "task.toml: holds a number of more than 4300 digits (at line 2)"),
        (
            {"task.toml": f'a = """{"1" * 5000}\n"""\nx = {"1" * 5000}'},
            "task.toml: holds a number of more than 4300 digits (at line 3)",
        ),
        ({"task.toml": "version = 1\n"}, "task.toml: version: must be text, got 1"),
        ({"task.toml": "source = 2026-01-02\n"}, "task.toml: source: must be text, got 2026-01-02"),
        ({"task.toml": f"[environment]\ngpus = {'9' * 400}\n"}, "environment.gpus: must be at most 2147483647, got 999"),
        ({"task.toml": "artifacts = [" + "1," * 200_000 + "]"}, "task.toml: artifacts.0: must be a mapping, got 1"),
        ({"task.toml": "steps = [" + "{}," * 200_000 + "]"}, "task.toml: steps.0.name: is required"),
        ({"task.toml": "[environment.env]\n" + "".join(f"K{n} = 1\n" for n in range(9000))}, "must be text, got 1; and 8980 more"),
        ({"task.toml": "[environment.env]\n" + "K" * 300_000 + " = 1\n"}, "task.toml: environment.env.KKKK"),
        ({"task.toml": 'agent = "x"\n[verifier]\ntimeout_sec = "9"\n'}, "task.toml: agent: "),
        ({"task.toml": "[verifier]\ntimeout_sec = true\n"}, "task.toml: verifier.timeout_sec: must be a number, got true"),
        ({"task.toml": "[agent]\ntimeout_sec = nan\n"}, "task.toml: agent.timeout_sec: must be"),
        ({"task.toml": "[agent]\ntimeout_sec = -1\n"}, "task.toml: agent.timeout_sec: must be at least 0, got -1"),
        (
            {"task.toml": '[environment]\nnetwork_mode = "lan"\n'},
            "environment.network_mode: must be one of public, allowlist or no-network",
        ),
        ({"task.toml": '[environment]\nmemory = "2\\u212a"\n'}, 'memory: must be a size such as "2G", got "2\u212a"'),
        ({"task.toml": '[environment]\nmemory = "2T"\n'}, 'memory: must be a size such as "2G"'),
        (
            {"task.toml": '[environment]\nmemory = "2G"\nmemory_mb = 1\n'},
            'environment.memory: memory_mb is given too and differs, got "2G" and 1',
        ),
        ({"task.toml": '[environment]\nallowed_hosts = ["a"]\n'}, 'allowed_hosts: needs network_mode allowlist, got ["a"]'),
        (
            {"task.toml": '[verifier]\nenvironment_mode = "shared"\n[verifier.environment]\n'},
            "verifier.environment_mode: shared excludes [verifier.environment]",
        ),
        ({"task.toml": '[environment]\nos = "Windows"\n'}, "only linux is run, got Windows"),
        ({"task.toml": '[[steps]]\nname = "one"\n'}, "several steps"),
        # A step that Harbor would not take is told before that.
        ({"task.toml": '[[steps]]\nname = "a/b"\n'}, "steps.0.name: must be a portable directory name"),
        ({"task.toml": f'[[steps]]\nname = "{"a" * 256}"\n'}, "steps.0.name: must be a portable directory name"),
        (
            {"task.toml": '[[steps]]\nname = "One"\n[[steps]]\nname = "one"\n'},
            "steps: names are apart where case does not count, got one twice",
        ),
        ({"task.toml": '[[steps]]\nname = "o"\nmin_reward = "x"\n'}, "steps.0.min_reward"),
        ({"task.toml": 'multi_step_reward_strategy = "max"\n'}, "must be one of mean or final"),
        ({"task.toml": '[task]\nname = "../x"\n'}, "must be org/name"),
        ({"task.toml": '[task]\nauthors = ["me"]\n'}, "task.authors.0: must be"),
        ({"task.toml": "schema_version = 1.4\n"}, "schema_version: must be text"),
        ({"task.toml": '[environment]\nmemory = "2GB"\n'}, 'memory: must be a size such as "2G"'),
        ({"task.toml": "[environment]\ngpu_types = 3\n"}, "environment.gpu_types: must be a list"),
        ({"task.toml": '[environment.tpu]\ntype = "v5"\n'}, "environment.tpu.topology: is required"),
        ({"task.toml": '[agent]\nallowed_hosts = ["a"]\n'}, 'allowed_hosts: needs network_mode allowlist, got ["a"]'),
        ({"task.toml": '[verifier]\nallowed_hosts = ["a"]\n'}, 'allowed_hosts: needs network_mode allowlist, got ["a"]'),
        (
            {"task.toml": '[[environment.mcp_servers]]\nname = "m"\ntransport = "stdio"\ncommand = "x"\nheaders = {A = "b"}\n'},
            "mcp_servers.0.headers: transport stdio has none",
        ),
        ({"task.toml": '[[environment.mcp_servers]]\nname = "m"\n'}, "mcp_servers.0.url: is needed for transport sse"),
        ({"task.toml": '[[artifacts]]\nsource = "/a"\ndestination = "../b"\n'}, "must be a relative path without '..'"),
        ({"task.toml": '[[artifacts]]\nsource = "/a"\ndestination = "manifest.json"\n'}, "must not be manifest.json"),
        (
            {"task.toml": '[[artifacts]]\nsource = "a"\nservice = "db"\n'},
            'artifacts.0.source: is an absolute path for a service other than main, got "a"',
        ),
        ({"task.toml": '[[verifier.collect]]\ncommand = "x"\nservice = "-db"\n'}, "verifier.collect.0.service: must match"),
        ({"task.toml": 'artifacts = ["../x"]\n'}, "artifacts.0: must be a path without '..'"),
        ({"task.toml": '[environment]\ndocker_image = "a b\\nc"\n'}, "environment.docker_image: an image reference is such as"),
        ({"task.toml": '[environment]\ndocker_image = "https://x/y"\n'}, "environment.docker_image: an image reference is such as"),
        (
            {"task.toml": '[environment]\ndocker_image = "u:p@reg.io/x"\n'},
            "environment.docker_image: an image reference holds no user",
        ),
        (
            {"task.toml": '[verifier.environment]\ndocker_image = "UPPER"\n'},
            "verifier.environment.docker_image: an image reference",
        ),
        ({"task.toml": "[environment]\ncpus = -3\n"}, "environment.cpus: must be at least 0"),
        ({"task.toml": "[environment]\ncpus = inf\n"}, "environment.cpus: must be a finite number"),
        ({"task.toml": "[environment]\ncpus = 1e300\n"}, "environment.cpus: must be at most 1000000, got 1e+300"),
        ({"task.toml": "[environment]\nmemory_mb = -5\n"}, "environment.memory_mb: must be at least 0"),
        ({"task.toml": f"[environment]\nmemory_mb = {'9' * 40}\n"}, "environment.memory_mb: must be below"),
        ({"task.toml": "[environment]\nstorage_mb = -1\n"}, "environment.storage_mb: must be at least 0"),
        ({"task.toml": '[environment]\nworkdir = "rel"\n'}, "environment.workdir: must be an absolute path on one line"),
        ({"task.toml": '[environment]\nworkdir = "/a\\nb"\n'}, "environment.workdir: must be an absolute path on one line"),
        ({"task.toml": '[environment]\nworkdir = "/a\\u0000"\n'}, "environment.workdir: holds a NUL character"),
        ({"task.toml": '[agent]\nuser = "a\\nb"\n'}, "agent.user: must be a user's name"),
        ({"task.toml": "[verifier]\nuser = -1\n"}, "verifier.user: must be a user's name"),
        ({"task.toml": '[verifier]\nuser = "99999999999:0"\n'}, "verifier.user: must be a user's name"),
        ({"task.toml": '[[verifier.collect]]\ncommand = "x"\nuser = "a b"\n'}, "verifier.collect.0.user: must be a user's name"),
        ({"task.toml": '[[verifier.collect]]\ncommand = "x\\u0000"\n'}, "verifier.collect.0.command: holds a NUL character"),
        ({"task.toml": '[environment.env]\n"A=B" = "x"\n'}, "environment.env: a variable has a name on one line"),
        ({"task.toml": '[solution.env]\n"A\\n" = "x"\n'}, "solution.env: a variable has a name on one line"),
        ({"task.toml": '[verifier.env]\nA = "x\\u0000"\n'}, "verifier.env: holds a NUL character"),
        ({"task.toml": 'artifacts = ["/a\\u0000"]\n'}, "artifacts: holds a NUL character"),
        (
            {"task.toml": 'bad = "' + "x" * 500_000 + '"\n[environment]\ncpus = "' + "x:" * 200_000 + '"\n'},
            "environment.cpus: must be a",
        ),
        ({"instruction.md": None}, "instruction.md: is missing"),
        ({"instruction.md": "# canary x\n\n\n"}, "instruction.md: is empty"),
        ({"tests/test.sh": None}, "tests/test.sh: a task needs tests"),
        ({"tests/docker-compose.yaml": "services: {}\n"}, "verifier of several containers"),
    ],
)
def test_refusals(make_task: MakeTask, files: dict[str, str | None], why: str) -> None:
    with pytest.raises(TaskRefused) as caught:
        read_task(make_task(files=files))
    assert caught.value.refusal.startswith("task_config: ")
    assert why in caught.value.refusal
    assert caught.value.refusal.isprintable()
    # Each problem tells its value once, with the key it is of, and none in Python's words.
    assert all(problem.count(", got ") <= 1 for problem in caught.value.refusal.split("; "))
    assert not re.search(r"sys\.|datetime\.", caught.value.refusal)
    assert len(caught.value.refusal) < 12_000


def test_texts_are_taken_and_refused_as_harbor_does_it() -> None:
    """But for those that say why; Harbor's own verdicts are compared by hand."""
    for text in (*TAKEN_BY_BOTH, *TAKEN_HERE):
        TaskToml.model_validate(tomllib.loads(text))
    for text in (*REFUSED_BY_BOTH, *REFUSED_HERE):
        with pytest.raises(ValueError):
            pytest.fail(f"taken: {TaskToml.model_validate(tomllib.loads(text))!r}")


def test_two_wrong_keys_are_both_named(make_task: MakeTask) -> None:
    with pytest.raises(TaskRefused) as caught:
        read_task(make_task(files={"task.toml": '[agent]\ntimeout_sec = "1"\n[environment]\ngpus = -1\n'}))
    assert "agent.timeout_sec" in caught.value.refusal
    assert "environment.gpus" in caught.value.refusal


def test_a_huge_settings_file_is_refused_unread(make_task: MakeTask) -> None:
    task = make_task()
    with (task / "task.toml").open("r+b") as file:
        file.truncate(1 << 30)
    with pytest.raises(TaskRefused, match="more than 1048576 bytes"):
        read_task(task)


def test_a_settings_file_that_is_no_file_or_no_text(make_task: MakeTask) -> None:
    task = make_task()
    (task / "task.toml").unlink()
    (task / "task.toml").mkdir()
    with pytest.raises(TaskRefused, match="no file"):
        read_task(task)
    (task / "task.toml").rmdir()
    (task / "task.toml").write_bytes(b"a = '\xff'\n")
    with pytest.raises(TaskRefused, match=r"not UTF-8 \(byte 5\)"):
        read_task(task)


def test_a_verifier_image_may_bring_the_tests(make_task: MakeTask) -> None:
    toml = '[verifier.environment]\ndocker_image = "x"\n'
    assert read_task(make_task(files={"task.toml": toml, "tests/test.sh": None})).verifier.separate


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("Do it.\n", "Do it.\n"),
        ("<!-- the CANARY string -->\n# canary GUID\n\n\nDo it.\n# canary\n", "Do it.\n# canary\n"),
        ("\n# canary\nDo it.\n", "\n# canary\nDo it.\n"),
        ("# no bird\nDo it.\n", "# no bird\nDo it.\n"),
    ],
)
def test_canary_lines_at_the_top_are_cut(text: str, kept: str) -> None:
    assert cut_canary(text) == kept


def test_templates_are_whole_values() -> None:
    host = {"A": "1", "EMPTY": ""}
    # A default is of one line, in Harbor too.
    assert resolve_env({"a": "${A:-x\ny}", "b": "${A\n:-x}"}, {"A\n": "z"}) == {"a": "${A:-x\ny}", "b": "z"}
    env = {"a": "${A}", "b": "${B:-two}", "c": "x${A}", "d": "${A}${A}", "e": "${EMPTY:-no}", "f": "${B:-}"}
    assert resolve_env(env, host) == {"a": "1", "b": "two", "c": "x${A}", "d": "${A}${A}", "e": "", "f": ""}
    with pytest.raises(KeyError, match="MISSING"):
        resolve_env({"a": "${MISSING}"}, host)
