"""`platoon harbor plan` of tasks that are refused, overlaid or none: every reason, and exit 1 for a refusal."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from platoon import exits
from platoon.envs.harbor.fetch import fetch
from platoon.envs.harbor.options import HarborOptions
from platoon.envs.harbor.publish import HarborCache
from tests.cli.conftest import plan

pytestmark = pytest.mark.unit


def test_a_refusal_tells_every_problem(task: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with (task / "environment/docker-compose.yaml").open("a") as file:
        file.write("    privileged: true\n    pid: host\n")
    assert plan(str(task)) == exits.FAILED
    shown = " ".join(capsys.readouterr().out.split())
    assert "task is refused: compose: db.pid: is not planned" in shown
    assert "and compose: db.privileged: is a privilege" in shown
    assert plan(str(task), "--json") == exits.FAILED
    assert len(json.loads(capsys.readouterr().out)["problems"]) == 2


BAD_COMPOSE = "services: {main: {}, web: {build: ./nope, pid: host}}\n"
PID = "compose: web.pid: is not planned: it changes what a container may do on its host (an overlay's [[compose]] can unset it)"
NOPE = "compose: web.build.context: environment/nope is no directory of the task"
FRUM = "image: Dockerfile:1: unknown instruction FRUM"
FILES = [
    "task_config: tests/test.sh: a task needs tests, and this file is missing",
    "task_config: instruction.md: is missing, or no file",
]
WRONG = 'task_config: task.toml: environment.memory_mb: must be a whole number, got "lots"'


@pytest.mark.parametrize(
    ("toml", "compose", "told"),
    [
        ("", BAD_COMPOSE, [PID, NOPE, *FILES, FRUM]),
        ('[environment]\nmemory_mb = "lots"\n', BAD_COMPOSE, [WRONG, PID, NOPE, *FILES, FRUM]),
        # A prebuilt image needs no Dockerfile; what it is called is decisive, and so is how the tests run.
        ('[environment]\ndocker_image = "x"\nmemory_mb = "lots"\n', BAD_COMPOSE, [WRONG, PID, NOPE, *FILES]),
        (
            "[environment]\ndocker_image = 1\n",
            BAD_COMPOSE,
            ["task_config: task.toml: environment.docker_image: must be text, got 1", *FILES],
        ),
        ("", "services: {main: {build: {context: ., dockerfile: Other}, pid: host}}\n", [PID.replace("web", "main"), *FILES]),
        ("", "services: {main: {build: nope}}\n", [NOPE.replace("web", "main"), *FILES]),
    ],
)
def test_no_fault_hides_another(task: Path, capsys: pytest.CaptureFixture[str], toml: str, compose: str, told: list[str]) -> None:
    """Nor is anything told that only follows from one."""
    (task / "task.toml").write_text(toml + "[verifer]\n")
    (task / "environment/docker-compose.yaml").write_text(compose)
    (task / "environment/Dockerfile").write_text("FRUM x\n")
    (task / "environment/Other").write_text("FROM x\n")
    (task / "instruction.md").unlink()
    (task / "tests/test.sh").unlink()
    assert plan(str(task), "--json") == exits.FAILED
    found = json.loads(capsys.readouterr().out)
    assert found["problems"] == told
    assert found["refused"] == told[0]
    if len(told) > 1:
        assert found["warnings"] == ["task.toml: verifer is read by nothing (did you mean verifier?)"]


def test_privileges_and_overlays(task: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with (task / "environment/docker-compose.yaml").open("a") as file:
        file.write("    privileged: true\n    pid: host\n")
    overlay = tmp_path / "overlay"
    overlay.mkdir()
    (overlay / "overlay.toml").write_text('[[compose]]\nservice = "db"\nunset = ["pid"]\n')
    assert plan(str(task), "--json", "--refuse", "privileges=false", "--overlay", str(overlay)) == exits.DONE
    assert json.loads(capsys.readouterr().out)["stack"]["privileges"] == {"db": {"privileged": True}}


def test_what_a_stack_has_beside_commands(task: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    compose = """
services:
  main: {volumes: ["./f:/f:ro", "cache:/c", "/anonymous"], tmpfs: [/t]}
  db: {image: x, cap_add: [SYS_ADMIN], privileged: true, volumes: ["${HOST_AGENT_LOGS_PATH}/db:/l"]}
  judge: {image: y, expose: [80]}
volumes: {cache: }
"""
    (task / "environment/docker-compose.yaml").write_text(compose)
    (task / "environment/f").write_text("x")
    (task / "environment/Dockerfile").write_text("FROM alpine\nCOPY gone/ /x/\nRUN y\n")
    overlay = tmp_path / "overlay"
    overlay.mkdir()
    (overlay / "overlay.toml").write_text('[[compose]]\nservice = "judge"\nexternal = "j"\nscope = { a = "b" }\n')
    assert plan(str(task), "--overlay", str(overlay), "--refuse", "privileges=false") == exits.DONE
    shown = capsys.readouterr().out
    for text in (
        "/f from environment/f (read-only)",
        "/c from the volume cache",
        "/anonymous",
        "/t in memory",
        "/l from <logs agent/db>",
        "privileged, SYS_ADMIN",
        "the node service j",
        "a=b",
        "gone/ as an empty directory",
    ):
        assert text in " ".join(shown.split())


SEPARATE = '[verifier]\nenvironment_mode = "separate"\n'


def bind(source: str) -> dict[str, str]:
    return {"environment/docker-compose.yaml": f'services: {{main: {{volumes: ["{source}:/f:ro"]}}}}\n', "environment/a.swp": "x"}


@pytest.mark.parametrize(
    ("files", "refused"),
    [
        ({"tests/test.sh": None}, "task_config: tests/test.sh"),
        ({"environment/Dockerfile": "FROM alpine\nUSER nb\n"}, "agent_user: the Dockerfile ends in a USER"),
        ({"task.toml": "[environment]\ngpus = 2\n"}, "gpus: the task asks for 2 GPUs"),
        ({"task.toml": SEPARATE, "tests/Dockerfile": "COPY\n"}, "image: tests/Dockerfile:1"),
        ({"task.toml": SEPARATE, "tests/Dockerfile": "FROM x\nUSER nb\n"}, "agent_user: tests/Dockerfile ends in a USER"),
        ({"environment/docker-compose.yaml": 'services: {main: {user: "7"}}\n'}, "agent_user: the compose file sets the user"),
        ({"task.toml": '[agent]\nuser = "me"\n'}, "agent_user: the task sets [agent].user"),
        # What a fetch does not keep is not there: ignored files, empty directories.
        (bind("./a.swp"), "compose: main.volumes: environment/a.swp"),
        (bind("./hollow"), "compose: main.volumes: environment/hollow"),
        ({"environment/Dockerfile": "RUN x\n"}, "image: "),
        ({"task.toml": "[["}, "task_config: task.toml"),
    ],
)
def test_what_a_fetch_refuses(
    task: Path, files: dict[str, str | None], refused: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """By every rule of a fetch, in its words and over the files that it keeps."""
    (task / "environment/hollow").mkdir()
    for name, text in files.items():
        (task / name).unlink() if text is None else (task / name).write_text(text)
    assert plan(str(task)) == exits.FAILED
    assert f"task is refused: {refused}" in capsys.readouterr().out
    assert plan(str(task), "--json") == exits.FAILED
    found = json.loads(capsys.readouterr().out)
    assert found["problems"][0] == found["refused"]
    (row,) = fetch(HarborOptions.parse({"dataset": "task"}), tmp_path, HarborCache(tmp_path / "cache/harbor")).lock.tasks
    assert (row.refused, row.digest) == (found["refused"], found["digest"])


def test_it_is_what_a_fetch_makes(task: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert plan(str(task), "--json") == exits.DONE
    found = json.loads(capsys.readouterr().out)
    lock = fetch(HarborOptions.parse({"dataset": "task"}), tmp_path, HarborCache(tmp_path / "cache/harbor")).lock
    (row,) = lock.tasks
    same = {"flags": row.flags, "digest": row.digest, "input_files": row.input_files, "verifier_image": row.verifier_image}
    assert {key: found[key] for key in same} == same
    assert lock.plans == {found["stack_digest"]: found["stack"]}
    assert found["image"] == {**row.image, "kind": "build"}


def test_switches_of_refuse(task: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (task / "task.toml").write_text("[environment]\ngpus = 2\n[agent]\nuser = 7\n")
    assert plan(str(task), "--refuse", "gpus=false") == exits.FAILED
    assert "agent_user: " in capsys.readouterr().out
    assert plan(str(task), "--refuse", "gpus=false", "--refuse", "agent_user=false") == exits.DONE
    capsys.readouterr()
    assert plan(str(task), "--refuse", "sidecars=true", "--json") == exits.FAILED
    assert [text.partition(":")[0] for text in json.loads(capsys.readouterr().out)["problems"]] == ["stack", "gpus", "agent_user"]
    for text in ("gpu=false", "gpus=maybe", "gpus"):
        assert plan(str(task), "--refuse", text) == exits.USAGE
        assert text.partition("=")[0] in capsys.readouterr().err


OVERLAY = """
[match]
{match}
[[edit]]
file = "instruction.md"
pattern = "{pattern}"
replace = "nothing"
"""


@pytest.mark.parametrize(
    ("match", "arguments", "matches"),
    [
        ("", [], True),
        ('name = "t*"', [], True),
        ('name = "group/*"', [], False),
        ('name = "group/*"', ["--name", "group/task"], True),
        ('family = "web"', [], True),
        ('family = "web"', ["--index", "family=other"], False),
        ('family = "web"', ["--index", "family=web"], True),
        ('split = ["a", "b"]', [], False),
        ('split = ["a", "b"]', ["--index", "split=b"], True),
    ],
)
def test_overlays_apply_where_they_match(
    task: Path, tmp_path: Path, match: str, arguments: list[str], matches: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    (task / "task.toml").write_text('[metadata]\nfamily = "web"\nlist = [1]\n')
    overlay = tmp_path / "overlay"
    overlay.mkdir()
    (overlay / "overlay.toml").write_text(OVERLAY.format(match=match, pattern="db:5432"))
    assert plan(str(task), "--overlay", str(overlay), "--json", *arguments) == exits.DONE
    found = json.loads(capsys.readouterr().out)
    assert (found["overlays"], found["unrewritable_references"] == []) == ((["overlay"], True) if matches else ([], False))
    idle = f"the overlay overlay does not match {found['name']} (--name, --index)"
    assert (idle in found["warnings"]) is not matches
    lifted = "overlays match by [metadata]: a fetch has it where index: [{metadata: [family]}] lists it"
    assert (lifted in found["warnings"]) is ("family" in match and not arguments)
    # The task itself stays as it is.
    assert (task / "instruction.md").read_text() == "Ask db:5432.\n"
    (overlay / "overlay.toml").write_text(OVERLAY.format(match=match, pattern="nowhere"))
    assert plan(str(task), "--overlay", str(overlay), *arguments) == (exits.FAILED if matches else exits.DONE)
    assert ("overlay: overlay: instruction.md: the pattern matches 0 times" in capsys.readouterr().out) is matches


def test_a_field_is_given_with_its_value(task: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert plan(str(task), "--index", "split") == exits.USAGE
    assert "FIELD=VALUE" in capsys.readouterr().err


def test_what_fails_a_whole_fetch(task: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (task / "environment/out").symlink_to("/etc/hostname")
    assert plan(str(task)) == exits.CONFIG
    assert "leaves the task" in capsys.readouterr().err


def test_no_task(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert plan(str(tmp_path)) == exits.CONFIG
    assert "is no task" in capsys.readouterr().err
    (tmp_path / "tasks/t1").mkdir(parents=True)
    (tmp_path / "tasks/t1/task.toml").touch()
    for name, text in (
        ("nowhere", "no such file or directory"),
        ("tasks/t1/task.toml", "is no directory"),
        ("tasks", "platoon harbor plan tasks/t1"),
    ):
        assert plan(str(tmp_path / name)) == exits.CONFIG
        assert text in capsys.readouterr().err.replace(f"{tmp_path}/", "")
