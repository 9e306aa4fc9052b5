"""Packages of the Harbor Hub through a fake Harbor CLI: resolved to digests, downloaded by them, hashed against them."""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from platoon.artifacts.digests import content_hash, hex_of
from platoon.envs.harbor.sources.harbor_cli import PIN
from platoon.errors import ConfigError, NotPreparedError, PlatoonError
from tests.envs.harbor.fakes.harbor_cli import FakeHub
from tests.envs.harbor.fakes.repositories import Repository
from tests.envs.harbor.sources.conftest import Fetching

pytestmark = pytest.mark.process


@pytest.fixture
def hub(tmp_path: Path, fetching: Fetching) -> FakeHub:
    hub = FakeHub.make(tmp_path / "hub")
    fetching.environment["PLATOON_HARBOR_CLI"] = hub.command
    return hub


@pytest.fixture
def tasks(tmp_path: Path) -> Repository:
    return Repository(tmp_path / "published")


def publish(hub: FakeHub, tasks: Repository, names: tuple[str, ...] = ("a", "b"), **more: Any) -> dict[str, str]:
    """Tasks and the dataset `org/bench` of them; gives the digests by name, the dataset's under its own."""
    digests = {f"org/{name}": hub.publish_task(f"org/{name}", tasks.task(name, {"environment/n": name})) for name in names}
    return {**digests, "org/bench": hub.publish_dataset("org/bench", digests, **more)}


def test_h002_h011_h012_h018_a_dataset(hub: FakeHub, tasks: Repository, fetching: Fetching, tmp_path: Path) -> None:
    uvx = tmp_path / "bin" / "uvx"
    uvx.parent.mkdir()
    uvx.write_text(f"#!/bin/sh\ntouch {tmp_path}/asked\nexit 1\n")
    uvx.chmod(0o755)
    fetching.environment["PATH"] = f"{uvx.parent}:{os.environ['PATH']}"
    digests = publish(hub, tasks, revision=7, files={"metric.py": "sha256:" + "cc" * 32})
    lock = fetching({"dataset": "harbor://org/bench@7"}).lock
    assert [(row.name, row.digest) for row in lock.tasks] == [(name, digests[name]) for name in ("org/a", "org/b")]
    assert lock.resolved == digests["org/bench"]
    assert lock.source == {
        "kind": "hub",
        "package": "org/bench",
        "type": "dataset",
        "ref": "7",
        "revision": 7,
        "digest": digests["org/bench"],
    }
    assert lock.fetched_with == PIN == "harbor==0.24.0"
    calls = hub.calls
    assert calls[0] == ["version", "show", "org/bench@7", "--json"]
    # From then on by digest alone.
    assert calls[1][:3] == ["version", "show", f"org/bench@{digests['org/bench']}"]
    downloads = [call for call in calls if call[0] == "download"]
    assert {call[1] for call in downloads} == {f"{name}@{digests[name]}" for name in ("org/a", "org/b")}
    assert all("--cache" in call for call in downloads)
    assert not (tmp_path / "asked").exists()
    for row in lock.tasks:
        assert content_hash(fetching.cache.task(row.digest)) == row.digest


def test_h001_h002_a_single_task_by_each_form(hub: FakeHub, tasks: Repository, fetching: Fetching) -> None:
    digest = hub.publish_task("org/a", tasks.task("a"), refs=("latest", "v1"), revision=3)
    for ref in ("@3", f"@{digest}", "@v1", ""):
        lock = fetching({"dataset": f"harbor://org/a{ref}"}, update=True).lock
        assert [(row.name, row.digest) for row in lock.tasks] == [("org/a", digest)]
        assert (lock.source["type"], lock.source["ref"], lock.source["digest"]) == ("task", ref[1:] or "latest", digest)


def test_h009_the_cli_is_run_at_its_pin(hub: FakeHub, tasks: Repository, fetching: Fetching, tmp_path: Path) -> None:
    digest = hub.publish_task("org/a", tasks.task("a"))
    del fetching.environment["PLATOON_HARBOR_CLI"]
    uvx = tmp_path / "bin" / "uvx"
    uvx.parent.mkdir()
    uvx.write_text(f'#!/bin/sh\necho "$@" >> {tmp_path}/argv\nshift 3\nexec {hub.home}/harbor "$@"\n')
    uvx.chmod(0o755)
    fetching.environment["PATH"] = f"{uvx.parent}:{os.environ['PATH']}"
    fetching({"dataset": f"harbor://org/a@{digest}"})
    assert {line.split(" ")[0:3] == ["--from", PIN, "harbor"] for line in (tmp_path / "argv").read_text().splitlines()} == {True}


def test_h010_harbor_is_never_imported(checkout: Path) -> None:
    """Not by any module when it is imported, and by no statement that waits in a function."""
    for path in (checkout / "platoon").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_bytes())):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom) and node.level == 0:
                names = [str(node.module)]
            assert "harbor" not in {name.partition(".")[0] for name in names}, path
    script = (
        "import sys; sys.modules['harbor'] = None\n"
        "import pkgutil, importlib, platoon.envs.harbor as package\n"
        "for found in pkgutil.walk_packages(package.__path__, 'platoon.envs.harbor.'):\n"
        "    importlib.import_module(found.name)\n"
        "assert sys.modules['harbor'] is None\n"
    )
    subprocess.run([sys.executable, "-c", script], check=True, timeout=60)


def test_h013_files_that_do_not_hash_to_their_digest(hub: FakeHub, tasks: Repository, fetching: Fetching) -> None:
    digests = publish(hub, tasks)
    (hub.home / "tasks" / hex_of(digests["org/b"]) / "instruction.md").write_text("Changed.\n")
    with pytest.raises(ConfigError, match=rf"org/b: its files hash to .*, and the source says {digests['org/b']}"):
        fetching({"dataset": f"harbor://org/bench@{digests['org/bench']}"})
    assert not (fetching.cache.root / "locks").exists()
    assert not fetching.cache.has_task(digests["org/b"])
    assert not list(fetching.cache.staging.iterdir())


def test_h020_h022_h023_tags_move(hub: FakeHub, tasks: Repository, fetching: Fetching) -> None:
    first = hub.publish_task("org/a", tasks.task("a"))
    with pytest.raises(NotPreparedError, match="--update"):
        fetching({"dataset": "harbor://org/a@latest"})
    assert fetching({"dataset": "harbor://org/a@latest"}, update=True).lock.resolved == first
    second = hub.publish_task("org/a", tasks.task("a", {"instruction.md": "Newer.\n"}), revision=2)
    assert fetching({"dataset": "harbor://org/a@latest"}).lock.resolved == first
    assert fetching({"dataset": "harbor://org/a@latest"}, update=True).lock.resolved == second
    # Pinned ones ask for nothing.
    assert fetching({"dataset": f"harbor://org/a@{first}"}).lock.resolved == first
    assert fetching({"dataset": "harbor://org/a@1"}).lock.resolved == first


def test_h017_h019_selection_and_a_second_fetch(hub: FakeHub, tasks: Repository, fetching: Fetching) -> None:
    digests = publish(hub, tasks, ("a", "b", "c"))
    (fetching.base / "some.txt").write_text("org/a\norg/c\n")
    options = {"dataset": f"harbor://org/bench@{digests['org/bench']}", "tasks": "some.txt"}
    first = fetching(options)
    assert [row.name for row in first.lock.tasks] == ["org/a", "org/c"]
    count = len(hub.calls)
    assert len([call for call in hub.calls if call[0] == "download"]) == 2
    assert fetching(options).lock == first.lock
    assert len(hub.calls) == count


def test_an_interrupted_fetch_goes_on(hub: FakeHub, tasks: Repository, fetching: Fetching, monkeypatch: pytest.MonkeyPatch) -> None:
    digests = publish(hub, tasks, tuple("abcdef"))
    fetching.more["workers"] = 1
    away = hub.home / "tasks" / hex_of(digests["org/f"])
    away.rename(hub.home / "away")
    monkeypatch.setattr("platoon.envs.harbor.sources.harbor_cli.RETRY_S", 0.0)
    options = {"dataset": f"harbor://org/bench@{digests['org/bench']}"}
    with pytest.raises(PlatoonError, match=r"could not be downloaded in 3 tries: .*Error: cannot download"):
        fetching(options)
    # Each wait before another try is told.
    waits = [line for line in fetching.said if line.endswith("; trying again in 0 s")]
    assert len(waits) == 2 and all(line.startswith("org/f@sha256:") and "cannot download" in line for line in waits)
    kept = len(list((fetching.cache.root / "tasks").iterdir()))
    assert kept == 4
    (hub.home / "away").rename(away)
    before = len(hub.calls)
    assert fetching(options).copied == 2
    assert len([call for call in hub.calls[before:] if call[0] == "download"]) == 2


def test_withdrawn_versions_are_warned_of(hub: FakeHub, tasks: Repository, fetching: Fetching) -> None:
    digests = publish(hub, tasks, yanked_at="2026-01-01T00:00:00Z", yanked_reason="a wrong\ntest")
    fetching({"dataset": f"harbor://org/bench@{digests['org/bench']}"})
    assert any("this version was withdrawn: a wrong\\ntest" in line for line in fetching.said)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"content_hash": "x"}, "gives the package no digest"),
        ({"type": "image"}, "is of type image"),
        ({"tasks": None}, "lists no tasks"),
        ({"tasks": [{"available": True, "task_version": {"content_hash": "a" * 64}}]}, "a task without name or digest"),
        (
            {"tasks": [{"task_version": {"content_hash": "a" * 64, "package": {"name": "../x", "org": {"name": "o"}}}}]},
            "lists a task called o/../x",
        ),
        (
            {"tasks": [{"task_version": {"content_hash": "a" * 64, "package": {"name": "x", "org": {"name": "--o"}}}}]},
            "lists a task called --o/x",
        ),
        (
            {"tasks": [{"task_version": {"content_hash": "a" * 64, "package": {"name": "x", "org": {"name": "o"}}}}]},
            "its list of tasks hashes to",
        ),
    ],
)
def test_what_the_hub_never_says(hub: FakeHub, tasks: Repository, fetching: Fetching, change: dict[str, Any], words: str) -> None:
    digest = publish(hub, tasks)["org/bench"]
    hub.packages[f"org/bench@{digest}"].update(change)
    (hub.home / "packages.json").write_text(json.dumps(hub.packages))
    with pytest.raises(PlatoonError) as caught:
        fetching({"dataset": f"harbor://org/bench@{digest}"})
    assert words in str(caught.value)


def test_tasks_that_are_not_open(hub: FakeHub, tasks: Repository, fetching: Fetching) -> None:
    digest = publish(hub, tasks, hidden=3)["org/bench"]
    with pytest.raises(ConfigError, match="3 of its 5 tasks are not open to you"):
        fetching({"dataset": f"harbor://org/bench@{digest}"})


def test_another_answer_than_was_asked(hub: FakeHub, tasks: Repository, fetching: Fetching) -> None:
    digest = hub.publish_task("org/a", tasks.task("a"))
    hub.packages[f"org/a@{digest}"]["content_hash"] = "b" * 64
    (hub.home / "packages.json").write_text(json.dumps(hub.packages))
    with pytest.raises(ConfigError, match=r"the Hub answers with sha256:b{64}"):
        fetching({"dataset": f"harbor://org/a@{digest}"})


@pytest.mark.parametrize("change", [{"package": "other/pkg"}, {"package": None}, {"revision": 4}, {"revision": "3"}])
def test_another_package_or_revision_than_was_asked(
    hub: FakeHub, tasks: Repository, fetching: Fetching, change: dict[str, Any]
) -> None:
    digest = hub.publish_task("org/a", tasks.task("a"), revision=3)
    hub.packages["org/a@3"] = {**hub.packages["org/a@3"], **change}
    (hub.home / "packages.json").write_text(json.dumps(hub.packages))
    with pytest.raises(PlatoonError, match="answers with"):
        fetching({"dataset": "harbor://org/a@3"})
    assert not fetching.cache.has_task(digest)


def test_errors_of_the_cli_hold_no_secret(hub: FakeHub, fetching: Fetching) -> None:
    hub.packages.clear()
    (hub.home / "packages.json").write_text("{}")
    with pytest.raises(PlatoonError, match="the Hub has no org/nothing@1") as caught:
        fetching({"dataset": "harbor://org/nothing@1"})
    assert "hidden" not in str(caught.value)


@pytest.mark.parametrize(
    ("command", "words"),
    [("/nowhere/harbor", "No such file"), ("'", "No closing quotation"), (" ", "is no command"), ("echo not-json", "is no JSON")],
)
def test_a_cli_that_cannot_be_run(fetching: Fetching, command: str, words: str) -> None:
    fetching.environment["PLATOON_HARBOR_CLI"] = command
    with pytest.raises(PlatoonError) as caught:
        fetching({"dataset": "harbor://org/a@1"})
    assert words in str(caught.value)


def test_without_uvx(fetching: Fetching, tmp_path: Path) -> None:
    fetching.environment |= {"PATH": str(tmp_path), "PLATOON_HARBOR_CLI": ""}
    with pytest.raises(ConfigError, match="install uv, or set PLATOON_HARBOR_CLI"):
        fetching({"dataset": "harbor://org/a@1"})
