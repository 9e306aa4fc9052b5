"""Rows that are kept: the same as rows made anew, of this code alone, and never needed."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from platoon.envs.harbor import rows
from platoon.envs.harbor.fetch import Fetched, fetch
from platoon.envs.harbor.options import HarborOptions
from platoon.envs.harbor.publish import HarborCache
from platoon.envs.harbor.row_memo import CODE, KEPT_VERSIONS, RowMemo, code_digest
from platoon.envs.harbor.sources.protocol import FetchTools

pytestmark = pytest.mark.unit

MakeTask = Callable[..., Path]


@pytest.fixture
def fetched(make_task: MakeTask, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., tuple[Fetched, int]]:
    """Fetches three tasks; gives how many rows were made anew beside the result."""
    compose = "services: {main: {}, db: {image: x, restart: always}}\n"
    toml = '[metadata]\nkind = "a"\ndays = [1]\n'
    make_task("a", {"environment/docker-compose.yaml": compose, "task.toml": toml}, tmp_path / "data")
    make_task("b", {"environment/Dockerfile": "FROM debian:12\nCOPY data.csv /d/\n"}, tmp_path / "data")
    make_task("c", {"instruction.md": None}, tmp_path / "data")
    cache = HarborCache(tmp_path / "cache" / "harbor")
    made: list[str] = []
    build = rows.build_row

    def counting(*arguments: Any) -> rows.BuiltRow:
        made.append(arguments[0].id)
        return build(*arguments)

    monkeypatch.setattr(rows, "build_row", counting)

    def run(*, repair: bool = False, **options: Any) -> tuple[Fetched, int]:
        made.clear()
        wanted = HarborOptions.parse({"dataset": "data", "index": [{"metadata": ["kind"]}], **options})
        return fetch(wanted, tmp_path, cache, tools=FetchTools(cache, repair=repair)), len(made)

    return run


def test_rows_are_made_once(fetched: Callable[..., tuple[Fetched, int]]) -> None:
    first, made = fetched()
    assert made == 3
    again, made = fetched()
    assert made == 0
    assert again.lock.to_bytes() == first.lock.to_bytes()
    assert again.warnings == first.warnings
    assert first.warnings
    # Other settings ask anew, and so does a repair.
    assert fetched(refuse={"sidecars": True})[1] == 3
    assert fetched(repair=True)[1] == 3
    assert fetched()[1] == 0


@pytest.mark.parametrize("damage", [b"", b"\xff\xfe", b"x", b"[]\n"])
def test_damage_costs_a_plan_alone(fetched: Callable[..., tuple[Fetched, int]], tmp_path: Path, damage: bytes) -> None:
    first, _ = fetched()
    for path in (tmp_path / "cache/harbor/rows").rglob("??"):
        lines = [line.partition(b"\t")[0] + b"\t" + damage for line in path.read_bytes().splitlines()]
        path.write_bytes(b"\n".join(lines))
    again, made = fetched()
    assert (made, again.lock.digest) == (3, first.lock.digest)


def test_other_code_has_facts_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cache = HarborCache(tmp_path)
    digest = "sha256:" + "0" * 64
    for number in range(KEPT_VERSIONS + 2):
        monkeypatch.setattr("platoon.envs.harbor.row_memo.platoon.__version__", f"0.5.{number}")
        memo = RowMemo.of(cache, reads=True)
        assert memo.get(digest, "k") is None
        memo.put(digest, "k", {"n": number})
        memo.save()
        assert RowMemo.of(cache, reads=True).get(digest, "k") == {"n": number}
        assert RowMemo.of(cache, reads=False).get(digest, "k") is None
    assert len(list((tmp_path / "rows").iterdir())) == KEPT_VERSIONS
    assert len(code_digest()) == 64


def test_all_code_that_a_row_is_made_by_counts() -> None:
    """What the maker of rows imports lies in a package that is digested; what is left out decides no row."""
    program = "import sys, platoon.envs.harbor.rows; print(*(name for name in sys.modules if name.startswith('platoon.')))"
    loaded = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout.split()
    packages = {name.replace("/", ".") for name in CODE}
    others = {name.split(".")[1] for name in loaded if not name.startswith(tuple(f"platoon.{package}" for package in packages))}
    assert others <= {"_native", "core", "envs", "errors", "exits", "host", "registry"}, sorted(others)
