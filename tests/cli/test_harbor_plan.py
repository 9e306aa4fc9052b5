"""`platoon harbor plan`: a table for people, an object for programs, exit 1 for a refusal."""

from __future__ import annotations

import json
from dataclasses import fields
from pathlib import Path

import pytest

from platoon import exits
from platoon.cli import plan_table
from platoon.cli.main import main
from platoon.envs.harbor.compose.stack_plan import ServicePlan
from platoon.envs.harbor.fetch import fetch
from platoon.envs.harbor.options import HarborOptions
from platoon.envs.harbor.publish import HarborCache
from platoon.images.dockerfile import ImagePlan

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
        assert run(str(task), *arguments) == exits.DONE
        shown = capsys.readouterr().out
        assert all(value in shown for value in (*variables.values(), *addresses)) and "***" not in shown


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
    assert "and compose: db.privileged: is a privilege" in shown
    assert run(str(task), "--json") == exits.FAILED
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
    assert run(str(task), "--json") == exits.FAILED
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
    assert run(str(task), "--json", "--refuse", "privileges=false", "--overlay", str(overlay)) == exits.DONE
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
    assert run(str(task), "--overlay", str(overlay), "--refuse", "privileges=false") == exits.DONE
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
    assert run(str(task)) == exits.FAILED
    assert f"task is refused: {refused}" in capsys.readouterr().out
    assert run(str(task), "--json") == exits.FAILED
    found = json.loads(capsys.readouterr().out)
    assert found["problems"][0] == found["refused"]
    (row,) = fetch(HarborOptions.parse({"dataset": "task"}), tmp_path, HarborCache(tmp_path / "cache/harbor")).lock.tasks
    assert (row.refused, row.digest) == (found["refused"], found["digest"])


def test_it_is_what_a_fetch_makes(task: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(str(task), "--json") == exits.DONE
    found = json.loads(capsys.readouterr().out)
    lock = fetch(HarborOptions.parse({"dataset": "task"}), tmp_path, HarborCache(tmp_path / "cache/harbor")).lock
    (row,) = lock.tasks
    same = {"flags": row.flags, "digest": row.digest, "input_files": row.input_files, "verifier_image": row.verifier_image}
    assert {key: found[key] for key in same} == same
    assert lock.plans == {found["stack_digest"]: found["stack"]}
    assert found["image"] == {**row.image, "kind": "build"}


def test_switches_of_refuse(task: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (task / "task.toml").write_text("[environment]\ngpus = 2\n[agent]\nuser = 7\n")
    assert run(str(task), "--refuse", "gpus=false") == exits.FAILED
    assert "agent_user: " in capsys.readouterr().out
    assert run(str(task), "--refuse", "gpus=false", "--refuse", "agent_user=false") == exits.DONE
    capsys.readouterr()
    assert run(str(task), "--refuse", "sidecars=true", "--json") == exits.FAILED
    assert [text.partition(":")[0] for text in json.loads(capsys.readouterr().out)["problems"]] == ["stack", "gpus", "agent_user"]
    for text in ("gpu=false", "gpus=maybe", "gpus"):
        assert run(str(task), "--refuse", text) == exits.USAGE
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
    assert run(str(task), "--overlay", str(overlay), "--json", *arguments) == exits.DONE
    found = json.loads(capsys.readouterr().out)
    assert (found["overlays"], found["unrewritable_references"] == []) == ((["overlay"], True) if matches else ([], False))
    idle = f"the overlay overlay does not match {found['name']} (--name, --index)"
    assert (idle in found["warnings"]) is not matches
    lifted = "overlays match by [metadata]: a fetch has it where index: [{metadata: [family]}] lists it"
    assert (lifted in found["warnings"]) is ("family" in match and not arguments)
    # The task itself stays as it is.
    assert (task / "instruction.md").read_text() == "Ask db:5432.\n"
    (overlay / "overlay.toml").write_text(OVERLAY.format(match=match, pattern="nowhere"))
    assert run(str(task), "--overlay", str(overlay), *arguments) == (exits.FAILED if matches else exits.DONE)
    assert ("overlay: overlay: instruction.md: the pattern matches 0 times" in capsys.readouterr().out) is matches


def test_a_field_is_given_with_its_value(task: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(str(task), "--index", "split") == exits.USAGE
    assert "FIELD=VALUE" in capsys.readouterr().err


def test_what_fails_a_whole_fetch(task: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (task / "environment/out").symlink_to("/etc/hostname")
    assert run(str(task)) == exits.CONFIG
    assert "leaves the task" in capsys.readouterr().err


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
    assert run(str(task), "--overlay", str(overlay)) == exits.DONE
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


def test_no_task(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(str(tmp_path)) == exits.CONFIG
    assert "is no task" in capsys.readouterr().err
    (tmp_path / "tasks/t1").mkdir(parents=True)
    (tmp_path / "tasks/t1/task.toml").touch()
    for name, text in (
        ("nowhere", "no such file or directory"),
        ("tasks/t1/task.toml", "is no directory"),
        ("tasks", "platoon harbor plan tasks/t1"),
    ):
        assert run(str(tmp_path / name)) == exits.CONFIG
        assert text in capsys.readouterr().err.replace(f"{tmp_path}/", "")


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
    assert run(str(task)) == exits.DONE
    shown, key = [], ""
    for line in capsys.readouterr().out.partition("stack, in the order")[0].splitlines():
        if line.startswith("│"):
            name, value = (cell.strip() for cell in line.strip("│").split("│", 1))
            key = name or key
            shown.append(f"{key}│{value}")
    wanted = SHOWN_SETTINGS.strip().splitlines()
    assert [line for line in wanted if line not in shown] == ([] if not stack else wanted[:2])
    assert run(str(task), "--json") == exits.DONE
    settings = json.loads(capsys.readouterr().out)["settings"]
    assert (settings["cpus"], settings["workdir"], settings["env"]["A"]) == (2, "/w", "${HOST_A}")
    assert [server["name"] for server in settings["mcp_servers"]] == ["clock", "files"]
    assert [artifact["source"] for artifact in settings["artifacts"]] == ["/a", "/b"]


def test_a_task_of_one_container(task: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (task / "environment/docker-compose.yaml").unlink()
    (task / "environment/Dockerfile").unlink()
    (task / "environment/compose.yaml").write_text("x")
    assert run(str(task), "--json") == exits.DONE
    found = json.loads(capsys.readouterr().out)
    assert (found["kind"], found["stack"], found["image"]) == ("single", None, {"kind": "none", "upload_environment": True})
    assert found["warnings"] == ["environment/compose.yaml is not read: Harbor reads docker-compose.yaml alone (rename it)"]
