"""Commands as a shell sees them, and what they are given: tasks, a repository of them, a configuration."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from platoon.cli.main import main
from tests.envs.harbor.fakes.repositories import Repository

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    (tmp_path / "site.yaml").write_text("cache: cache\n")
    monkeypatch.setenv("PLATOON_SITE", str(tmp_path / "site.yaml"))
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.chdir(tmp_path)

    def call(*arguments: str) -> tuple[int, str, str]:
        with pytest.raises(SystemExit) as stop:
            main(list(arguments))
        captured = capsys.readouterr()
        assert isinstance(stop.value.code, int)
        return stop.value.code, captured.out, captured.err

    return call


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    made = Repository.make(tmp_path / "repository")
    made.task("t1")
    made.task("t2", {"instruction.md": None})
    made.commit()
    return made


def write(path: Path, *entries: dict[str, Any]) -> str:
    environments = [
        {"name": f"e{number}", "service": "harbor", "harness": "platoon-bash", "service_kwargs": {"provider": "process", **options}}
        for number, options in enumerate(entries)
    ]
    path.write_text(yaml.safe_dump({"environments": environments}))
    return path.name


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


def plan(*arguments: str) -> int:
    with pytest.raises(SystemExit) as stop:
        main(["harbor", "plan", *arguments])
    assert isinstance(stop.value.code, int)
    return stop.value.code
