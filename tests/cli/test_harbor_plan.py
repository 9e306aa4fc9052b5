"""`platoon harbor plan`: a table for people, an object for programs, exit 1 for a refusal."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from platoon import exits
from platoon.cli.main import main

pytestmark = pytest.mark.unit

COMPOSE = """
services:
  main:
    depends_on: {db: {condition: service_healthy}}
    environment: {URL: "http://db:5432/x"}
  db:
    image: postgres:16
    restart: always
    expose: [5432]
    healthcheck: {test: "pg_isready -h localhost:5432"}
"""


@pytest.fixture
def task(tmp_path: Path) -> Path:
    files = {
        "task.toml": 'schema_version = "1.4"\n',
        "instruction.md": "Ask db:5432.\n",
        "tests/test.sh": "true\n",
        "environment/Dockerfile": "FROM alpine\nRUN x\nWORKDIR /app\n",
        "environment/docker-compose.yaml": COMPOSE,
    }
    for name, text in files.items():
        target = tmp_path / "task" / name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text)
    return tmp_path / "task"


def run(*arguments: str) -> int:
    with pytest.raises(SystemExit) as stop:
        main(["harbor", "plan", *arguments])
    assert isinstance(stop.value.code, int)
    return stop.value.code


def test_a_table_a_person_can_read(task: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    assert run(str(task)) == exits.DONE
    shown = capsys.readouterr().out
    for text in ("task: sidecars", "postgres:16", "db (healthy)", "<self 5432>", "WORKDIR /app", "sha256:", "warning: db.restart"):
        assert text in shown
    # Long lines stay whole where they are piped.
    assert "pg_isready -h <self 5432>" in shown
    assert "instruction.md:1 names db:5432" in shown


def test_one_object_for_programs(task: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(str(task), "--json") == exits.DONE
    found = json.loads(capsys.readouterr().out)
    assert (found["kind"], found["refused"], found["stack"]["order"]) == ("sidecars", None, ["db", "main"])
    assert found["image"]["base"] == ["alpine"]
    assert found["unrewritable_references"] == [{"file": "instruction.md", "line": 1, "port": 5432, "service": "db"}]


def test_a_refusal_tells_every_problem(task: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with (task / "environment/docker-compose.yaml").open("a") as file:
        file.write("    privileged: true\n    pid: host\n")
    assert run(str(task)) == exits.FAILED
    shown = " ".join(capsys.readouterr().out.split())
    assert "task is refused: compose: db.pid: is not planned" in shown
    assert "and db.privileged: is a privilege" in shown
    assert run(str(task), "--json") == exits.FAILED
    assert len(json.loads(capsys.readouterr().out)["problems"]) == 2


def test_privileges_and_overlays(task: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with (task / "environment/docker-compose.yaml").open("a") as file:
        file.write("    privileged: true\n    pid: host\n")
    overlay = tmp_path / "overlay"
    overlay.mkdir()
    (overlay / "overlay.toml").write_text('[[compose]]\nservice = "db"\nunset = ["pid"]\n')
    assert run(str(task), "--json", "--privileges", "--overlay", str(overlay)) == exits.DONE
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
    assert run(str(task), "--overlay", str(overlay), "--privileges") == exits.DONE
    shown = capsys.readouterr().out
    for text in (
        "/f from environment/f (read-only), /c from the volume cache, /anonymous, /t in memory",
        "/l from <logs agent/db>",
        "privileged, SYS_ADMIN",
        "the node service j",
        "a=b",
        "gone/ as an empty directory",
    ):
        assert text in " ".join(shown.split())


def test_another_refusal_of_the_task(task: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (task / "tests/test.sh").unlink()
    assert run(str(task)) == exits.FAILED
    assert "task_config: tests/test.sh" in " ".join(capsys.readouterr().out.split())


def test_no_task(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(str(tmp_path)) == exits.CONFIG
    assert "is no task" in capsys.readouterr().err
    (tmp_path / "tasks/t1").mkdir(parents=True)
    (tmp_path / "tasks/t1/task.toml").touch()
    for name, text in (
        ("nowhere", "no such directory"),
        ("tasks/t1/task.toml", "is no directory"),
        ("tasks", "platoon harbor plan tasks/t1"),
    ):
        assert run(str(tmp_path / name)) == exits.CONFIG
        assert text in capsys.readouterr().err.replace(f"{tmp_path}/", "")


def test_a_task_of_one_container(task: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (task / "environment/docker-compose.yaml").unlink()
    (task / "environment/Dockerfile").unlink()
    (task / "environment/compose.yaml").write_text("x")
    assert run(str(task), "--json") == exits.DONE
    found = json.loads(capsys.readouterr().out)
    assert (found["kind"], found["stack"], found["image"]) == ("single", None, {"kind": "none", "upload_environment": True})
    assert found["warnings"] == ["environment/compose.yaml is not read: Harbor reads docker-compose.yaml alone (rename it)"]
