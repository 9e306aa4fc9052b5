"""Absolute paths in a configuration: a lock, which others read, names no place of this machine."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from platoon.envs.harbor.fetch import Fetched, fetch
from platoon.envs.harbor.options import HarborOptions
from platoon.envs.harbor.publish import HarborCache
from tests.envs.harbor.fakes.repositories import Repository
from tests.envs.harbor.sources.conftest import Fetching

pytestmark = pytest.mark.process

ADAPTER = 'mkdir -p "$2/made/tests"; : > "$2/made/task.toml"; echo Do. > "$2/made/instruction.md"; echo > "$2/made/tests/test.sh"\n'
KINDS = ("directory", "registry", "adapter")


def prepare(place: Path) -> str:
    """What a clone holds. Gives the commit of the adapter, the same everywhere."""
    Repository(place / "data").task("one")
    Repository(place / "beside").task("two")
    tasks = [{"name": "two", "path": "beside/two"}]
    (place / "registry.json").write_text(json.dumps([{"name": "bench", "version": "1", "tasks": tasks}]))
    (place / "list.json").write_text('["one", "two", "made"]')
    upstream = Repository.make(place / "upstream")
    (upstream.path / "main.sh").write_text(ADAPTER)
    return upstream.commit(date="2020-01-01T00:00:00Z")


def options(kind: str, place: str, commit: str) -> dict[str, Any]:
    return {
        "directory": {"dataset": f"{place}/data"},
        "registry": {"dataset": "harbor://bench@1", "registry": f"{place}/registry.json"},
        "adapter": {"adapter": {"repo": f"{place}/upstream", "commit": commit, "command": ["sh", "main.sh"]}},
    }[kind]


@pytest.mark.parametrize("kind", KINDS)
def test_a_lock_holds_no_absolute_path(kind: str, tmp_path: Path, fetching: Fetching) -> None:
    """Two clones at other depths, whose absolute paths lie in them, and relative ones: one lock. Outside they are relative too."""
    found: list[Fetched] = []
    for number, place in enumerate((tmp_path / "a", tmp_path / "b/c/d")):
        commit = prepare(place)
        (place / "configs").mkdir()
        for root in (str(place), ".."):
            wanted = HarborOptions.parse({**options(kind, root, commit), "tasks": _listed(kind, place, root)})
            cache = HarborCache(tmp_path / f"cache-{number}")
            found.append(fetch(wanted, place / "configs", cache, tools=fetching.tools))
    assert len({one.lock.to_bytes() for one in found}) == 1
    assert str(tmp_path).encode() not in found[0].lock.to_bytes()
    source = found[0].lock.source
    said = {"directory": found[0].lock.dataset, "registry": source.get("registry"), "adapter": source.get("repo")}[kind]
    assert said == {"directory": "../data", "registry": "../registry.json", "adapter": "../upstream"}[kind]
    (outside := tmp_path / "elsewhere").mkdir()
    wanted = HarborOptions.parse(options(kind, str(tmp_path / "a"), prepare(tmp_path / "x")))
    lock = fetch(wanted, outside, HarborCache(tmp_path / "cache-0"), tools=fetching.tools).lock
    assert str(tmp_path).encode() not in lock.to_bytes()
    assert b'"../a/' in lock.to_bytes() or b"adapter:../a/" in lock.to_bytes()


def _listed(kind: str, place: Path, root: str) -> str:
    (place / f"{kind}.txt").write_text({"directory": "one", "registry": "two", "adapter": "made"}[kind])
    return f"{root}/{kind}.txt"
