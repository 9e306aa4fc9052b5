"""Every accepted file of the corpus means to compose what its plan says. Row H028."""

from __future__ import annotations

import json
import os
import random
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from platoon.envs.harbor.compose.errors import ComposeError
from platoon.envs.harbor.compose.interpolate import Use, interpolate
from platoon.envs.harbor.compose.merge import merge_services
from tests.envs.harbor.compose.compose_cli import compose_command, config
from tests.envs.harbor.compose.compose_view import expected, external, observed
from tests.envs.harbor.compose.corpus import Case, cases, topics
from tests.envs.harbor.compose.test_interpolate import Names

pytestmark = pytest.mark.docker


@pytest.fixture(scope="module")
def command() -> list[str]:
    found = compose_command()
    if found is None:
        pytest.skip("no docker compose: python tests/setup/compose.py")
    return found


@pytest.mark.parametrize("topic", topics())
def test_the_plans_are_what_compose_reads(topic: str, tmp_path: Path, command: list[str]) -> None:
    accepted = [case for case in cases(topic) if case.refused is None]
    with ThreadPoolExecutor(2) as pool:
        found = list(pool.map(lambda pair: differences(pair[1], tmp_path / str(pair[0]), command), enumerate(accepted)))
    assert not [item for items in found for item in items]


def differences(case: Case, tmp: Path, command: list[str]) -> list[str]:
    """Where plan and compose part; a task whose file changes nothing has no plan. What a case excepts must part."""
    planned, directory = case.plan(tmp), tmp / "task"
    project = config(command, case, directory)
    if planned.plan is None:
        return [] if set(project["services"]) == {"main"} else [f"{case.name}: a plan is missing"]
    externals = planned.plan.externals
    wanted = {name: expected(case, planned, name, directory) for name in ("main", *planned.plan.services)}
    found = {name: observed(case, project, name) for name in wanted if name in project["services"]}
    for name, plan in externals.items():
        wanted[name] = {
            "ports": sorted((port.port, port.protocol) for port in plan.ports),
            "aliases": sorted({*plan.aliases} - {name}),
        }
        found[name] = external(project, name)
    if set(project["services"]) != set(wanted):
        return [f"{case.name}: services {sorted(project['services'])}"]
    parted = {
        f"{name}.{key}": f"{case.name}: {name}.{key}: compose has {found[name][key]}, the plan {value}"
        for name, view in wanted.items()
        for key, value in view.items()
        if found[name][key] != value
    }
    excepted = case.header.get("oracle", {})
    needless = [f"{case.name}: {place} is excepted and the same" for place in excepted if place not in parted]
    return needless + [problem for place, problem in parted.items() if place not in excepted]


def test_what_is_not_planned_for_its_form_is_rejected_by_compose(tmp_path: Path, command: list[str]) -> None:
    """A refused case that says so, and no other, is none to compose."""
    judged = [case for topic in topics() for case in cases(topic) if "rejected" in case.header]
    with ThreadPoolExecutor(2) as pool:
        found = list(pool.map(lambda pair: is_rejected(pair[1], tmp_path / str(pair[0]), command), enumerate(judged)))
    wrong = [case.name for case, rejected in zip(judged, found, strict=True) if case.header["rejected"] != rejected]
    assert not wrong


def is_rejected(case: Case, tmp: Path, command: list[str]) -> bool:
    case.write(tmp / "task")
    try:
        config(command, case, tmp / "task")
    except AssertionError:
        return True
    return False


@pytest.mark.parametrize("seed", range(3))
def test_generated_interpolation(seed: int, tmp_path: Path, command: list[str]) -> None:
    """A hundred templates at a time, set, empty and unset variables in each; what the plan refuses is left out."""
    texts = [template(random.Random(seed * 1000 + number)) for number in range(100)]
    scope = {"A": "a", "B": "b c", "EMPTY": ""}
    planned: dict[str, str] = {}
    for number, text in enumerate(texts):
        try:
            found = interpolate(text, Names(scope), Use(blank=True))
        except ComposeError:
            continue
        assert isinstance(found, str)
        planned[f"V{number}"] = found
    assert len(planned) > 30
    services = {"main": {"image": "x", "environment": {name: texts[int(name[1:])] for name in planned}}}
    assert services_of(command, [services], tmp_path, scope)["main"]["environment"] == {
        name: value.replace("$", "$$") for name, value in planned.items()
    }


@pytest.mark.parametrize("seed", range(20))
def test_generated_merging(seed: int, tmp_path: Path, command: list[str]) -> None:
    """Compose lays two files over each other as `merge_services` lays two services: reading the merged one alone is the same."""
    chance = random.Random(seed)
    below, above = ({key: chance.choice(values) for key, values in MERGED.items() if chance.random() < 0.7} for _ in range(2))
    others: dict[str, Any] = {"b": {"image": "y"}, "c": {"image": "y"}}
    layered = services_of(command, [{"main": {"image": "x", **below}, **others}, {"main": above}], tmp_path / "two", {})
    merged = services_of(command, [{"main": merge_services({"image": "x", **below}, above), **others}], tmp_path / "one", {})
    for key in {*layered["main"], *merged["main"]}:
        assert layered["main"].get(key) == merged["main"].get(key), key


# Values that both files may have; each key in every form.
MERGED: dict[str, list[Any]] = {
    "command": ["a b", ["c"], []],
    "entrypoint": ["e", ["f", "g"]],
    "environment": [{"A": "1", "B": None}, ["A=2", "C"], {"D": ""}],
    "labels": [["l=1"], {"m": "2"}],
    "volumes": [["data:/a", "/b"], ["./x:/a:ro"], [{"type": "tmpfs", "target": "/b"}]],
    "ports": [["80"], ["8080:80", "81/udp"], [{"target": 80, "published": "8080"}]],
    "expose": [["90"], ["90", "91"]],
    "depends_on": [["b"], {"b": {"condition": "service_healthy"}, "c": {"condition": "service_started"}}],
    "healthcheck": [{"test": "t"}, {"test": ["CMD", "u"], "interval": "5s"}, {"disable": True}],
    "build": ["./d", {"args": ["V=1"]}, {"context": ".", "args": {"V": "2", "W": "3"}, "target": "t"}],
    "tmpfs": ["/t", ["/t", "/u"]],
    "cap_add": [["CHOWN"], ["CHOWN", "KILL"]],
    "networks": [["n"], {"n": {"aliases": ["q"]}, "default": None}],
    "ulimits": [{"nofile": 1}, {"nofile": {"soft": 1, "hard": 2}, "nproc": 3}],
    "deploy": [{"resources": {"limits": {"cpus": "1"}}}, {"resources": {"limits": {"memory": "1g"}}}],
    "working_dir": ["/one", "/two"],
    "privileged": [True, False],
    "secrets": [["s"], [{"source": "t", "target": "s"}]],
}


def services_of(command: list[str], files: list[dict[str, Any]], directory: Path, env: dict[str, str]) -> Any:
    directory.mkdir(parents=True, exist_ok=True)
    tables = {"volumes": {"data": {}}, "networks": {"n": {}}, "secrets": {name: {"file": "./f"} for name in "st"}}
    line = [*command, "-p", "p", "--project-directory", "/project"]
    for number, services in enumerate(files):
        path = directory / f"{number}.json"
        path.write_text(json.dumps({"services": services} | (tables if number == 0 else {})))
        line += ["-f", str(path)]
    found = subprocess.run(
        [*line, "config", "--format", "json"],
        capture_output=True,
        text=True,
        check=False,
        env={"PATH": os.environ["PATH"], "HOME": str(directory), **env},
    )
    assert found.returncode == 0, found.stderr
    return json.loads(found.stdout)["services"]


def template(chance: random.Random, depth: int = 0) -> str:
    """Text with variables, operators, words within words, braces and dollars."""
    pieces = []
    for _ in range(chance.randint(1, 4)):
        if chance.random() < 0.5 or depth > 3:
            pieces.append(chance.choice(["x", " ", "{", "}", "{k}", "$$", "$1", "$(", "-", "é", ":?", "$A.", "$B "]))
            continue
        operator = chance.choice(["", "-", ":-", "+", ":+", "-", ":-"])
        word = template(chance, depth + 1) if operator else ""
        pieces.append(f"${{{chance.choice(['A', 'B', 'EMPTY', 'UNSET'])}{operator}{word}}}")
    return "".join(pieces)
