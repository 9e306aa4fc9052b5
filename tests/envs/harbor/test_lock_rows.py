"""What compose files, overlays, users and builds become in a lock, as a fetch makes it: one test or more a row of the checklist."""

from __future__ import annotations

import asyncio
import json
import logging
from pathlib import Path
from typing import Any

import pytest

from platoon import exits
from platoon.envs.harbor.fetch import fetch
from platoon.envs.harbor.lock import HarborLock
from platoon.envs.harbor.options import HarborOptions
from platoon.envs.harbor.publish import HarborCache
from platoon.envs.harbor.service import HarborService
from platoon.errors import ConfigError
from tests.envs.harbor.conftest import Locked, MakeTask

pytestmark = pytest.mark.unit


def test_h027_the_file_lies_over_harbors_base(locked: Locked) -> None:
    toml = '[environment]\ncpus = 1\nmemory_mb = 512\n[environment.env]\nA = "task"\n'
    row, plan = locked(
        'services: {main: {cpus: 3, environment: {A: "file", B: "file"}, command: [serve]}}\n', files={"task.toml": toml}
    )
    assert row.refused is None
    main = plan["main"]
    assert (main["cpus"], main["memory_mb"], main["init"]["command"]) == (3.0, 512, ["serve"])
    # task.toml's environment is laid over it when a session opens.
    assert main["env"] == {"A": "file", "B": "file"}


@pytest.mark.parametrize(
    ("compose", "kind"),
    [
        (None, "single"),
        ("services: {main: {}}\n", "trivial"),
        ("version: '3'\nservices: {main: }\n", "trivial"),
        ("services: {main: {working_dir: /x}}\n", "main_only"),
        ("name: x\nservices: {main: {}}\n", "main_only"),
        ("services: {main: {}, db: {image: x}}\n", "sidecars"),
    ],
)
def test_h030_h031_what_kind_of_stack_a_lock_says(locked: Locked, compose: str | None, kind: str) -> None:
    row, plan = locked(compose)
    assert (row.refused, row.flags["stack"]) == (None, kind)
    assert (row.compose is None) == (plan == {}) == (kind in ("single", "trivial"))


def test_h028_interpolation(locked: Locked) -> None:
    toml = '[environment.env]\nSET = "s"\n'
    compose = 'services: {main: {environment: {A: "${NO:-x}", B: "${SET:?e}", C: "a$$b", D: "${SET:+y}", E: "${NO-z}"}}}\n'
    _, plan = locked(compose, files={"task.toml": toml})
    assert {key: plan["main"]["env"][key] for key in "ABCDE"} == {"A": "x", "B": "s", "C": "a$b", "D": "y", "E": "z"}
    row, _ = locked('services: {main: {environment: {A: "${NO:?give it}"}}}\n', files={"task.toml": toml})
    assert row.refused is not None
    assert row.refused.startswith("compose: main.environment")
    assert "give it" in row.refused


def test_h029_harbors_variables(locked: Locked, tmp_path: Path) -> None:
    toml = "[environment]\ncpus = 2\nmemory_mb = 1024\n"
    compose = """
services:
  main:
    cpus: ${CPUS}
    mem_limit: ${MEMORY}
    volumes: ["${CONTEXT_DIR}/data.csv:/d/data.csv:ro"]
  db:
    image: x
    volumes: ["${HOST_AGENT_LOGS_PATH}:/logs-of-agents"]
"""
    row, plan = locked(compose, files={"task.toml": toml})
    assert row.refused is None
    assert (plan["main"]["cpus"], plan["main"]["memory_mb"]) == (2.0, 1024)
    assert [bind["source"] for bind in plan["main"]["binds"]] == [{"task": "environment/data.csv"}]
    assert [bind["source"] for bind in plan["services"]["db"]["binds"]] == [{"logs": "agent"}]
    assert str(tmp_path) not in json.dumps(plan)


@pytest.mark.parametrize(
    ("settings", "key"),
    [
        ("{image: x, devices: [/dev/kvm]}", "devices"),
        ("{image: x, nothing: 1}", "nothing"),
        ("{image: x, network_mode: host}", "network_mode"),
        # H033, H045.
        ("{image: x, privileged: true}", "privileged"),
        ("{image: x, cap_add: [NET_ADMIN]}", "cap_add"),
        ("{image: x, cap_add: [DAC_READ_SEARCH]}", "cap_add"),
    ],
)
def test_h032_h033_h045_what_is_outside_the_subset(locked: Locked, settings: str, key: str) -> None:
    row, plan = locked(f"services: {{main: {{}}, db: {settings}}}\n")
    assert row.refused is not None
    assert row.refused.startswith(f"compose: db.{key}: ")
    assert (plan, row.compose) == ({}, None)


@pytest.mark.parametrize("capability", ["NET_ADMIN", "DAC_READ_SEARCH", "SYS_ADMIN", "SYS_PTRACE"])
def test_h043_h044_privileges_that_are_let_through(locked: Locked, capability: str) -> None:
    compose = f"services: {{main: {{}}, a: {{image: x, privileged: true}}, b: {{image: x, cap_add: [{capability}]}}}}\n"
    row, plan = locked(compose, refuse={"privileges": False})
    assert row.refused is None
    assert plan["privileges"] == {"a": {"privileged": True}, "b": {"cap_add": [capability]}}


def test_h034_overlays_set_replace_and_unset(locked: Locked) -> None:
    compose = "services: {main: {}, db: {image: x, command: [old], environment: {A: a}, privileged: true}}\n"
    before, _ = locked(compose)
    assert before.refused is not None
    overlay = """
[[compose]]
service = "db"
set = { environment = { MODE = "fast" } }
replace = { command = ["serve"] }
unset = ["privileged"]
"""
    row, plan = locked(compose, overlay=overlay)
    assert (row.refused, row.overlays) == (None, ("over",))
    db = plan["services"]["db"]
    assert (db["env"], db["command"]) == ({"A": "a", "MODE": "fast"}, ["serve"])
    # The file stays as it is, and with it the digest.
    assert row.digest == before.digest
    assert row.upstream_digest is None
    missing, _ = locked(compose, overlay='[[compose]]\nservice = "nobody"\nunset = ["image"]\n')
    assert missing.refused is not None
    assert missing.refused.startswith("overlay: ")


def test_h034_h053_h054_a_service_that_a_node_serves(locked: Locked) -> None:
    compose = "services: {main: {depends_on: [judge]}, judge: {image: x, expose: [8000]}}\n"
    overlay = '[[compose]]\nservice = "judge"\nexternal = "judges"\nscope = { problem = "${PROBLEM_ID}" }\n'
    toml = '[environment.env]\nPROBLEM_ID = "p7"\n'
    row, plan = locked(compose, overlay=overlay, files={"task.toml": toml})
    assert row.refused is None
    assert "judge" not in plan["services"]
    external = plan["externals"]["judge"]
    assert (external["service"], external["scope"]) == ("judges", {"problem": "p7"})


def test_h035_h036_host_variables(locked: Locked, cache: HarborCache, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_KEY", "a-host-secret")
    compose = 'services: {main: {}, db: {image: x, environment: {KEY: "${MY_KEY:?set it}"}}}\n'
    unlisted, _ = locked(compose)
    assert unlisted.refused is not None
    assert unlisted.refused.startswith("compose: db.environment")
    row, plan = locked(compose, overlay='compose_host_env = ["MY_KEY"]\n')
    assert row.refused is None
    assert plan["host_env"] == ["MY_KEY"]
    assert plan["services"]["db"]["env"]["KEY"] == [{"host": "MY_KEY", "nonempty": True}]
    assert not [path for path in cache.root.rglob("*") if path.is_file() and b"a-host-secret" in path.read_bytes()]


@pytest.mark.parametrize(
    ("volume", "is_taken"),
    [("${DATA}:/d:ro", True), ("${DATA}:/d", False), ("/etc:/e:ro", False), ("~/x:/e:ro", False), ("../../x:/e:ro", False)],
)
def test_h037_binds_of_host_paths(locked: Locked, volume: str, is_taken: bool) -> None:
    row, _ = locked(f'services: {{main: {{}}, db: {{image: x, volumes: ["{volume}"]}}}}\n', overlay='compose_host_env = ["DATA"]\n')
    assert (row.refused is None) == is_taken
    assert is_taken or (row.refused or "").startswith("compose: db.volumes")


HOST_NETWORK = '[[compose]]\nservice = "db"\nhost_network = { listen = ["PORT"], token = ["TOKEN"], bind = ["HOST"] }\n'


@pytest.mark.parametrize(("word", "is_taken"), [("$$PORT", True), ("${PORT:-1}", False)])
def test_h046_h047_rules_for_the_host_network(locked: Locked, word: str, is_taken: bool) -> None:
    compose = f'services: {{main: {{}}, db: {{image: x, expose: [5432], command: "serve --port {word}"}}}}\n'
    row, plan = locked(compose, overlay=HOST_NETWORK)
    assert (row.refused is None) == is_taken
    if is_taken:
        assert set(plan["host_network"]["db"]) == {"listen", "token", "bind"}
        assert plan["services"]["db"]["command"][-1] == "$PORT"
    else:
        assert "PORT" in str(row.refused)


def test_h046_rules_that_are_none(locked: Locked) -> None:
    with pytest.raises(ConfigError, match="unknown key"):
        locked(
            "services: {main: {}, db: {image: x}}\n", overlay='[[compose]]\nservice = "db"\nhost_network = { listens = ["A"] }\n'
        )


def test_h048_h049_references_that_the_fallback_could_not_rewrite(locked: Locked) -> None:
    compose = "services: {main: {}, db: {image: x, expose: [5432]}}\n"
    files = {"instruction.md": "Ask.\nUse db:5432 for it.\n"}
    row, _ = locked(compose, files=files)
    assert row.compose is not None
    assert row.compose["unrewritable_references"] == [{"file": "instruction.md", "line": 2, "service": "db", "port": 5432}]
    overlay = '[[edit]]\nfile = "instruction.md"\npattern = "db:5432"\nreplace = "$DB"\n'
    edited, _ = locked(compose, files=files, overlay=overlay)
    assert edited.compose is not None
    assert edited.compose == {"plan": row.compose["plan"], "unrewritable_references": []}
    assert edited.digest != row.digest
    assert edited.upstream_digest == row.digest


@pytest.mark.parametrize(
    ("user", "recorded", "refused"),
    [("root", "root", False), ('"0:0"', "0:0", False), ('""', None, False), ("nb", "nb", True), ('"1000"', "1000", True)],
)
def test_the_user_of_main_stands_over_the_images(locked: Locked, user: str, recorded: str | None, refused: bool) -> None:
    """Root as well: without it main would run as the image's user. It is no user that a policy must honor."""
    compose = f"services: {{main: {{user: {user}}}}}\n"
    files = {"environment/Dockerfile": "FROM debian:12\nUSER nb\nRUN true\n"}
    row, plan = locked(compose, files=files)
    assert (row.refused or "").startswith("agent_user: the compose file sets the user of main") is refused
    row, plan = locked(compose, files=files, refuse={"agent_user": False})
    assert (row.refused, plan["main"].get("user")) == (None, recorded)


@pytest.mark.parametrize(
    "toml", ['[agent]\nuser = "me"\n', "[verifier]\nuser = 1000\n", '[[verifier.collect]]\ncommand = "x"\nuser = "me"\n']
)
def test_s533_tasks_that_name_users(locked: Locked, toml: str) -> None:
    row, _ = locked(files={"task.toml": toml})
    assert row.refused is not None
    words = "a collect hook of the task sets a user" if "collect" in toml else "the task sets [agent].user or [verifier].user"
    assert row.refused.startswith(f"agent_user: {words} (refuse: {{agent_user: false}} fetches it, ")
    assert locked(files={"task.toml": toml}, refuse={"agent_user": False})[0].refused is None


@pytest.mark.parametrize("name", ["docker-compose.yml", "compose.yaml", "compose.yml"])
def test_h501_h502_h503_compose_files_that_harbor_does_not_read(locked: Locked, name: str) -> None:
    files = {f"environment/{name}": "services: {db: {image: x}}\n", "task.toml": '[environment]\ndocker_image = "debian:12"\n'}
    row, plan = locked(files=files)
    assert (row.refused, row.flags["stack"], row.flags["unread_compose"], plan) == (None, "single", [name], {})
    # Nothing else would bring its files there, so they are uploaded as Harbor does.
    assert row.image == {"kind": "prebuilt", "ref": "debian:12", "upload_environment": True}
    assert list(row.input_files or {}) == ["environment/data.csv"]


@pytest.mark.parametrize("toml", ["", '[environment]\ndocker_image = "debian:12"\n'])
@pytest.mark.parametrize(
    ("files", "uploads"),
    [
        ({}, True),
        ({"environment/Dockerfile": "FROM x\n"}, False),
        ({"environment/docker-compose.yaml": "services: {main: {}}\n"}, False),
        ({"environment/docker-compose.yaml": "services: {main: {image: debian}}\n"}, False),
        ({"environment/compose.yaml": "services: {main: {}}\n"}, True),
        ({"environment/data.csv": None}, False),
    ],
)
def test_h503_what_a_session_uploads(locked: Locked, files: dict[str, str | None], toml: str, uploads: bool) -> None:
    """A session asks the row alone."""
    assert locked(files={"task.toml": toml, **files})[0].uploads_environment is uploads


def test_the_first_refusal_that_applies_is_recorded(locked: Locked) -> None:
    """In the order overlay, stack, gpus, agent_user, compose, task_config, image, uploads_over_mb."""
    files: dict[str, str | None] = {
        "environment/docker-compose.yaml": "services: {main: {privileged: true}, db: {image: x}}\n",
        "environment/Dockerfile": "RUN nothing\n",
        "task.toml": '[environment]\ngpus = 1\nos = "windows"\n[agent]\nuser = "me"\n',
    }
    refuse: dict[str, Any] = {"sidecars": True, "uploads_over_mb": 0.000001}
    overlay = '[[edit]]\nfile = "instruction.md"\npattern = "nowhere"\n'
    codes = []
    for step in range(7):
        row, _ = locked(files=files, refuse=refuse, overlay=overlay)
        codes.append((row.refused or "").partition(":")[0])
        if step == 0:
            overlay = '[[edit]]\nfile = "instruction.md"\npattern = "Do"\nreplace = "Make"\n'
        elif step == 1:
            refuse["sidecars"] = False
        elif step == 2:
            refuse["gpus"] = False
        elif step == 3:
            refuse["agent_user"] = False
        elif step == 4:
            files["environment/docker-compose.yaml"] = "services: {main: {}}\n"
        elif step == 5:
            files["task.toml"] = "[environment]\ngpus = 1\n"
    assert codes == ["overlay", "stack", "gpus", "agent_user", "compose", "task_config", "image"]
    files["environment/Dockerfile"] = "FROM debian:12\nCOPY data.csv /d/\n"
    assert (locked(files=files, refuse=refuse, overlay=overlay)[0].refused or "").startswith("uploads_over_mb: ")


def test_plans_are_kept_once(make_task: MakeTask, tmp_path: Path, cache: HarborCache) -> None:
    for name in ("a", "b"):
        make_task(name, {"environment/docker-compose.yaml": "services: {main: {}, db: {image: x}}\n"}, tmp_path / "data")
    make_task("c", {"environment/docker-compose.yaml": "services: {main: {}, db: {image: y}}\n"}, tmp_path / "data")
    lock = fetch(HarborOptions.parse({"dataset": "data"}), tmp_path, cache).lock
    assert len(lock.plans) == 2
    plans = {name: (row.compose or {})["plan"] for name, row in lock.by_name.items()}
    assert plans["a"] == plans["b"] != plans["c"]
    # They are one line each, and read back as they were.
    lines = [line for line in lock.to_bytes().splitlines() if b'"rule":"platoon-compose-v1"' in line]
    assert len(lines) == 2
    assert HarborLock.from_bytes(lock.to_bytes(), "lock") == lock


def test_h017_overlays_apply_to_files(make_task: MakeTask, tmp_path: Path, cache: HarborCache) -> None:
    make_task("a", {"task.toml": '[metadata]\nkind = "x"\n'}, tmp_path / "data")
    make_task("b", root=tmp_path / "data")
    (tmp_path / "over").mkdir()
    (tmp_path / "over/tool").write_text("binary")
    (tmp_path / "over/overlay.toml").write_text(
        'name = "mine"\n[match]\nkind = "x"\n[[copy]]\nfile = "environment/tool"\nsource = "tool"\nexecutable = true\n'
    )
    options = HarborOptions.parse({"dataset": "data", "overlays": ["over"], "index": [{"metadata": ["kind"]}]})
    lock = fetch(options, tmp_path, cache).lock
    row, other = lock.by_name["a"], lock.by_name["b"]
    assert (row.overlays, other.overlays, other.upstream_digest) == (("mine",), (), None)
    assert row.upstream_digest is not None
    place = cache.task(row.digest)
    assert (place / "environment/tool").stat().st_mode & 0o777 == 0o755
    assert not (tmp_path / "data/a/environment/tool").exists()
    assert fetch(options, tmp_path, cache).lock == lock
    (tmp_path / "over/tool").write_text("another")
    assert fetch(options, tmp_path, cache).lock.overlay != lock.overlay


@pytest.fixture
def directory(make_task: MakeTask, tmp_path: Path) -> Path:
    make_task("good", root=tmp_path / "data")
    stacks = {
        "registry": "services: {main: {}, db: {image: postgres:16}}\n",
        "built": "services: {main: {}, judge: {build: ./judge}}\n",
        "settings": "services: {main: {environment: {A: b}}}\n",
    }
    for name, compose in stacks.items():
        files = {"environment/docker-compose.yaml": compose, "environment/judge/Dockerfile": "FROM x\n"}
        make_task(name, files, tmp_path / "data")
    return tmp_path / "data"


def test_h040_h517_s507_a_dataset_directory_skips_what_cannot_run(
    directory: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        service = HarborService(HarborOptions.parse({"dataset_dir": "data", "provider": "process"}), base_dir=tmp_path)
    assert asyncio.run(service.list_tasks("train")) == ("good",)
    told = {name: text for text in caplog.messages for name in ("registry", "built", "settings") if f"task {name} is" in text}
    assert "a stack of several containers" in told["registry"]
    assert "serve the directory as a dataset to fetch" in told["built"]
    assert "its compose file sets up main" in told["settings"]


def test_s505_a_fetched_dataset_stops_the_run_when_tasks_are_listed(directory: Path, tmp_path: Path, cache: HarborCache) -> None:
    options = HarborOptions.parse({"dataset": "data", "provider": "process"})
    lock = fetch(options, tmp_path, cache)
    assert lock.lock.runnable == ("built", "good", "registry", "settings")
    service = HarborService(options, cache_dir=cache.root, base_dir=tmp_path)
    with pytest.raises(ConfigError) as caught:
        asyncio.run(service.check_tasks("train", lock.lock.runnable))
    assert caught.value.exit_code == exits.CONFIG
    text = str(caught.value)
    assert all(f"task {name}: " in text for name in ("built", "registry", "settings")) and "task good" not in text
    assert "exclude_tasks leaves it out" in text and "refuse: {sidecars: true}" in text
    # What `exclude_tasks` leaves is checked alone.
    asyncio.run(service.check_tasks("train", ["good"]))
