"""The cases from users of neighbouring tools that compose files and Dockerfiles bring: where each is proved.

Four of them end at a running stack, an engine or a user namespace; what a plan has to say for them is shown here by name.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from platoon.envs.harbor.compose import PlannedTask, StackPlan, plan_task
from platoon.envs.harbor.compose.text import RefPart
from platoon.envs.harbor.fetch import fetch
from platoon.envs.harbor.lock import LockRow
from platoon.envs.harbor.options import HarborOptions
from platoon.envs.harbor.publish import HarborCache
from platoon.envs.harbor.task_toml import TaskToml
from tests.envs.harbor.compose.corpus import cases, topics
from tests.images.dockerfile.test_corpus import CORPUS, read

pytestmark = pytest.mark.unit

MakeTask = Callable[..., Path]

CASES = frozenset(f"U{number:02}" for number in (1, 4, 5, 7, 8, 10, 13, 16, 17, 19, 21, 24, 25, 26, 27))
NEIGHBOURS = 2
# To what is left of them beside the tests below.
BEGUN_HERE = {
    "U16": "that names resolve before a service's command runs: the stack drivers'",
    "U17": "that what a cancelled stack made is reaped, and the engine's error told: the docker provider's",
    "U24": "that a command runs as that user under the caller's own uid map: the sandboxes'",
    "U27": "that a database starts with and without subordinate ids: the pods'",
}


def test_u01_to_u27_each_have_their_file_and_two_neighbours() -> None:
    found = Counter(name for topic in topics() for case in cases(topic) for name in case.header.get("cases", ()))
    found += Counter(name for path in CORPUS.glob("*/*.Dockerfile") for name in read(path)[0].get("cases", ()))
    assert set(found) == CASES
    assert {name for name, count in found.items() if count < 1 + NEIGHBOURS} == set()
    assert {name[5:8].upper() for name in globals() if name.startswith("test_u") and "to" not in name[8:11]} == set(BEGUN_HERE)


@pytest.fixture
def planned(tmp_path: Path, make_task: MakeTask) -> Callable[[str], PlannedTask]:
    return lambda compose: plan_task(TaskToml(), make_task("t", {"environment/docker-compose.yaml": compose}, tmp_path / "plan"))


@pytest.fixture
def locked(tmp_path: Path, make_task: MakeTask) -> Callable[..., LockRow]:
    def lock(files: Mapping[str, str], **options: Any) -> LockRow:
        make_task("t", files, tmp_path / "data")
        return fetch(HarborOptions.parse({"dataset": "data", **options}), tmp_path, HarborCache(tmp_path / "cache")).lock.tasks[0]

    return lock


def plan_of(planned: PlannedTask) -> StackPlan:
    assert planned.plan is not None
    return planned.plan


def test_u16_a_sidecar_names_another_as_main_does(planned: Callable[[str], PlannedTask]) -> None:
    """Every service's texts refer to every other by parts that a driver makes resolve, whether or not it waits for it."""
    plan = plan_of(
        planned("""
services:
  main: {environment: {WEB: "http://web:80/"}}
  web:
    image: web:1
    command: [serve, --cache, "redis:6379"]
    environment: {CACHE: "redis://store:6379/0"}
    expose: [80]
    healthcheck: {test: "redis-cli -h redis -p 6379 ping && nc -z redis:6379"}
  redis:
    image: redis:7
    expose: [6379]
    networks: {default: {aliases: [store]}}
""")
    )
    web, ref = plan.services["web"], RefPart("redis", 6379)
    assert web.command == ("serve", "--cache", (ref,))
    assert web.env["CACHE"] == ("redis://", ref, "/0")
    assert web.healthcheck is not None and web.healthcheck.test is not None
    assert ref in web.healthcheck.test[1]
    assert plan.main.env["WEB"] == ("http://", RefPart("web", 80), "/")
    assert (web.depends_on, plan.services["redis"].aliases) == ({}, ("store",))


def test_u17_no_plan_names_a_network(planned: Callable[[str], PlannedTask]) -> None:
    """So no stack makes one that another could meet or that is left under its own name: files that differ in that are one plan."""
    services = "services: {main: {networks: [NAME]}, db: {image: x, networks: [NAME]}}\n"
    digests = {
        plan_of(planned(services.replace("NAME", name) + tables)).digest
        for name, tables in (
            ("default", ""),
            ("back", "networks: {back: }\n"),
            ("back", "networks: {back: {name: shared-by-all, driver: bridge, attachable: true}}\n"),
            ("back", "name: project\nnetworks: {back: , front: {external: true}}\n"),
        )
    }
    assert len(digests) == 1


@pytest.mark.parametrize(
    ("user", "plain"), [("2000", "2000"), ("2000:2000", "2000:2000"), ("app", "app"), ('"$APP"', "${APP}"), (r"\$APP", r"\$APP")]
)
def test_u24_a_user_is_recorded_or_the_task_is_refused(locked: Callable[..., LockRow], user: str, plain: str) -> None:
    """Never dropped; and nothing of the fetching user's ids is in what is recorded."""
    files = {"environment/Dockerfile": f"FROM debian:12\nRUN true\nENV APP=2000\nUSER {user}\n"}
    assert (locked(files).refused or "").startswith("agent_user: the Dockerfile ends in a USER")
    row = locked(files, refuse={"agent_user": False})
    assert (row.refused, row.image["suffix_user"], row.image["deferred"][-1]) == (None, plain, ["USER", plain])


def test_u24_a_user_that_the_build_needs_stays_in_it(locked: Callable[..., LockRow]) -> None:
    row = locked({"environment/Dockerfile": "FROM debian:12\nUSER 2000\nRUN true\n"})
    # The image has it in its configuration, which decides when a session opens.
    assert (row.refused, row.image["deferred"], "suffix_user" in row.image) == (None, [], False)


@pytest.mark.parametrize(("line", "user"), [("", None), ("user: postgres", "postgres"), ('user: "999:999"', "999:999")])
def test_u27_a_database_keeps_its_own_switch_of_users(planned: Callable[[str], PlannedTask], line: str, user: str | None) -> None:
    """Its user is the image's unless the file says so, and what its start needs to change users is no privilege."""
    capabilities = ["CHOWN", "DAC_OVERRIDE", "FOWNER", "SETGID", "SETUID"]
    plan = plan_of(
        planned(f"""
services:
  main: {{}}
  db:
    image: postgres:16
    {line}
    cap_drop: [ALL]
    cap_add: {capabilities}
    environment: {{POSTGRES_PASSWORD: x}}
    volumes: ["data:/var/lib/postgresql/data"]
volumes: {{data: }}
""")
    )
    database = plan.services["db"]
    assert (database.user, list(database.cap_add), plan.privileges) == (user, capabilities, {})
    # The volume is filled from the image, with its owners, before the database starts.
    assert database.volumes[0].copy
