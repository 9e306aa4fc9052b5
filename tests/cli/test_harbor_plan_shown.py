"""What `platoon harbor plan` shows: a table for people, an object for programs, each setting in a form of its own."""

from __future__ import annotations

import json
from dataclasses import fields
from pathlib import Path

import pytest

from platoon import exits
from platoon.cli import plan_table
from platoon.envs.harbor.compose.stack_plan import ServicePlan
from platoon.images.dockerfile import ImagePlan
from tests.cli.conftest import plan

pytestmark = pytest.mark.unit


SEPARATE = '[verifier]\nenvironment_mode = "separate"\n'


def test_a_table_a_person_can_read(task: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    assert plan(str(task)) == exits.DONE
    shown = capsys.readouterr().out
    for text in ("task: sidecars", "postgres:16", "db (healthy)", "<self 5432>", "WORKDIR /app", "sha256:", "warning: db.restart"):
        assert text in shown
    # Long lines stay whole where they are piped.
    assert "pg_isready -h <self 5432>" in shown
    assert "warning: where a provider runs the stack on its host's network, services are at other addresses" in shown
    assert "\n  instruction.md:1 names db:5432\n" in shown


def test_a_table_hides_nothing_that_the_object_shows(task: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What a task's author wrote is no secret of this machine."""
    addresses = ["postgresql://u:pw@other/x", "https://other/?token=abc"]
    variables = {"A_URL": addresses[0], "PASSWORD": "shop", "HEADER": "Authorization: Bearer abcdefgh"}
    services = {"main": {"environment": variables}, "db": {"image": "x", "command": ["serve", addresses[1]]}}
    (task / "environment/docker-compose.yaml").write_text(json.dumps({"services": services}))
    (task / "task.toml").write_text(f"[environment.env]\nOWN = {json.dumps(addresses[0])}\n")
    for arguments in ((), ("--json",)):
        assert plan(str(task), *arguments) == exits.DONE
        shown = capsys.readouterr().out
        assert all(value in shown for value in (*variables.values(), *addresses)) and "***" not in shown


def test_one_object_for_programs(task: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert plan(str(task), "--json") == exits.DONE
    found = json.loads(capsys.readouterr().out)
    assert (found["kind"], found["refused"], found["stack"]["order"]) == ("sidecars", None, ["db", "main"])
    assert found["image"]["base"] == ["alpine"]
    assert found["unrewritable_references"] == [{"file": "instruction.md", "line": 1, "port": 5432, "service": "db"}]


SETTINGS = """
services:
  main:
    working_dir: /w
    user: root
    cpus: 2
    mem_limit: 512m
    command: serve "a b"
    environment: {A: "b c", U: "http://db:5432/x", K: "${KEY:-none}"}
    depends_on: {db: {condition: service_healthy}, judge: {condition: service_started, required: false}}
    tmpfs: ["/t:size=64m,mode=1777"]
    configs: [settings]
    ulimits: {nofile: {soft: 1, hard: 2}}
  db:
    image: postgres:16
    entrypoint: []
    command: [run, "a b", ""]
    user: "1000:1000"
    hostname: the-host
    container_name: the-container
    read_only: true
    cap_add: [NET_RAW]
    cap_drop: [ALL]
    security_opt: [no-new-privileges]
    stop_signal: SIGINT
    stop_grace_period: 3s
    shm_size: 32m
    expose: [5432]
    healthcheck: {test: "pg_isready", interval: 5s, timeout: 4s, retries: 7, start_period: 9s, start_interval: 2s}
    volumes: ["vol:/v:nocopy"]
  judge: {build: {context: judge, args: {U: "a value"}}, network_mode: none, healthcheck: {disable: true}}
  api: {image: q, ports: ["80"], hostname: front}
volumes: {vol: }
configs: {settings: {content: "text of it"}}
"""
SHOWN = """
main│directory│/w
main│user│root
main│cpus│2
main│memory│512 MiB
main│process│<the image's entrypoint> serve "a b"
main│environment│A=b c
main│environment│U=http://<ref db:5432>/x
main│environment│K=<host KEY, unset: none, empty: none>
main│waits for│db (healthy)
main│waits for│judge (started, if it comes up)
main│mounts│/t in memory, 64 MiB, mode 1777
main│files│/settings holding text of it
main│limits│nofile 1 to 2
db│image│postgres:16
db│entrypoint│none
db│command│run "a b" ""
db│user│1000:1000
db│hostname│the-host
db│also called│the-host, the-container
db│file system│read-only
db│capabilities│with NET_RAW
db│capabilities│without ALL
db│privileges│none are gained
db│stopped by│SIGINT
db│stopped within│3 s
db│shared memory│32 MiB
db│ports│5432/tcp
db│health│pg_isready
db│health│every 5 s, at most 4 s each, 7 failures in a row, free in the first 9 s, every 2 s then
db│mounts│/v from the volume vol (empty at first)
db│host network│listen PORT=5432
db│host network│token TOKEN
judge│network│none
judge│health│not checked
api│served by│the node service j
api│ports│80/tcp
api│also called│front
api│scope│a=b
"""


def test_every_setting_is_shown(task: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name, text in {
        "task.toml": SEPARATE,
        "environment/docker-compose.yaml": SETTINGS,
        "environment/judge/Dockerfile": "FROM judge-base\nARG U\n",
        "tests/Dockerfile": "FROM verifier-base\nRUN x\nENV A=b\n",
    }.items():
        (task / name).parent.mkdir(exist_ok=True)
        (task / name).write_text(text)
    overlay = tmp_path / "overlay"
    overlay.mkdir()
    (overlay / "overlay.toml").write_text(
        'compose_host_env = ["KEY"]\n[[compose]]\nservice = "api"\nexternal = "j"\nscope = { a = "b" }\n'
        '[[compose]]\nservice = "db"\nhost_network = { listen = ["PORT"], token = ["TOKEN"] }\n'
    )
    assert plan(str(task), "--overlay", str(overlay)) == exits.DONE
    shown = capsys.readouterr().out
    lines = set()
    service = key = ""
    for line in shown.splitlines():
        columns = [column.strip() for column in line.split("│")[1:-1]]
        if len(columns) == 3:
            service, key = columns[0] or service, columns[1] or key
            lines.add("│".join((service, key, columns[2])))
    assert set(SHOWN.split("\n")) - {""} <= lines
    for text in ("verifier image", "verifier-base", "ENV A b", "image of judge", "judge-base", "U=a value", "host variables"):
        assert text in shown


def test_every_field_of_a_service_has_a_form_of_its_own() -> None:
    """But for the ones that are plain words."""
    assert {item.name for item in fields(ServicePlan)} - set(plan_table.SETTINGS) == {"user", "hostname", "network"}
    assert {item.name for item in fields(ImagePlan)} - set(plan_table.IMAGE) == {"key", "target", "dockerfile", "inputs", "uploads"}


TASK_SETTINGS = """
artifacts = ["/a", {source = "/b", exclude = ["*.log", "x"], service = "db"}]
[environment]
cpus = 2
memory_mb = 512
workdir = "/w"
env = {A = "${HOST_A}", B = "b"}
[environment.healthcheck]
command = "true"
start_period_sec = 9
[[environment.mcp_servers]]
name = "clock"
url = "http://main:8000/mcp"
headers = {X = "${KEY}"}
[[environment.mcp_servers]]
name = "files"
transport = "stdio"
command = "python"
args = ["-m", "a b"]
"""
SHOWN_SETTINGS = """
cpus│2
memory│512 MiB
environment│A=${HOST_A}
environment│B=b
directory│/w
MCP servers│clock at http://main:8000/mcp (sse), X: ${KEY}
MCP servers│files at python -m "a b" (stdio)
health│true
health│every 5 s, at most 30 s each, 3 failures in a row, free in the first 9 s, every 5 s then
artifacts│/a
artifacts│/b of db without *.log, x
"""


@pytest.mark.parametrize("stack", [False, True])
def test_what_task_toml_gives_a_session_is_shown(task: Path, capsys: pytest.CaptureFixture[str], stack: bool) -> None:
    """Of a stack its limits stand in the rows of main, where the compose file may set others."""
    (task / "task.toml").write_text(TASK_SETTINGS)
    if not stack:
        (task / "environment/docker-compose.yaml").unlink()
    assert plan(str(task)) == exits.DONE
    shown, key = [], ""
    for line in capsys.readouterr().out.partition("stack, in the order")[0].splitlines():
        if line.startswith("│"):
            name, value = (cell.strip() for cell in line.strip("│").split("│", 1))
            key = name or key
            shown.append(f"{key}│{value}")
    wanted = SHOWN_SETTINGS.strip().splitlines()
    assert [line for line in wanted if line not in shown] == ([] if not stack else wanted[:2])
    assert plan(str(task), "--json") == exits.DONE
    settings = json.loads(capsys.readouterr().out)["settings"]
    assert (settings["cpus"], settings["workdir"], settings["env"]["A"]) == (2, "/w", "${HOST_A}")
    assert [server["name"] for server in settings["mcp_servers"]] == ["clock", "files"]
    assert [artifact["source"] for artifact in settings["artifacts"]] == ["/a", "/b"]


def test_a_task_of_one_container(task: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (task / "environment/docker-compose.yaml").unlink()
    (task / "environment/Dockerfile").unlink()
    (task / "environment/compose.yaml").write_text("x")
    assert plan(str(task), "--json") == exits.DONE
    found = json.loads(capsys.readouterr().out)
    assert (found["kind"], found["stack"], found["image"]) == ("single", None, {"kind": "none", "upload_environment": True})
    assert found["warnings"] == ["environment/compose.yaml is not read: Harbor reads docker-compose.yaml alone (rename it)"]
