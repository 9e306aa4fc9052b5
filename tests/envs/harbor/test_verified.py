"""A cached task is hashed once on a node, and again whenever its files do not stand as they did."""

from __future__ import annotations

import os
import shutil
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from platoon.envs.harbor import verified
from platoon.envs.harbor.fetch import fetch
from platoon.envs.harbor.options import HarborOptions
from platoon.envs.harbor.publish import HarborCache, check_cached
from platoon.envs.harbor.verified import SCRATCH_NAME, check_once
from platoon.errors import PlatoonError

pytestmark = pytest.mark.unit

MakeTask = Callable[..., Path]


@pytest.fixture
def scratch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "scratch").mkdir()
    monkeypatch.setenv("PLATOON_NODE_SCRATCH", str(tmp_path / "scratch"))
    return tmp_path / "scratch" / f"{SCRATCH_NAME}-{os.getuid()}"


@pytest.fixture
def cache(scratch: Path, tmp_path: Path) -> HarborCache:
    return HarborCache(tmp_path / "cache" / "harbor")


@pytest.fixture
def digest(make_task: MakeTask, tmp_path: Path, cache: HarborCache) -> str:
    make_task("t", root=tmp_path / "data")
    return fetch(HarborOptions.parse({"dataset": "data"}), tmp_path, cache).lock.tasks[0].digest


@pytest.fixture
def hashed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Digests of what was hashed."""
    found: list[str] = []

    def counting(digest: str, cache: HarborCache) -> Path:
        found.append(digest)
        return check_cached(digest, cache)

    monkeypatch.setattr(verified, "check_cached", counting)
    return found


def test_a_task_is_hashed_once_on_a_node(digest: str, cache: HarborCache, hashed: list[str], scratch: Path) -> None:
    for _ in range(3):
        assert check_once(digest, cache) == cache.task(digest)
    assert hashed == [digest]
    mark = scratch / "verified" / cache.task(digest).name
    assert mark.read_bytes().startswith(f"{cache.task(digest)}\n".encode())
    assert scratch.stat().st_mode & 0o777 == 0o700


def test_a_groups_rollouts_hash_it_once(digest: str, cache: HarborCache, hashed: list[str]) -> None:
    start = threading.Barrier(8)

    def rollout() -> None:
        start.wait(10)
        check_once(digest, cache)

    threads = [threading.Thread(target=rollout) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert hashed == [digest]


def change_bytes(task: Path) -> None:
    """Of the same size, at the same times, as far as a program can say."""
    file = task / "instruction.md"
    before = file.stat()
    file.write_bytes(file.read_bytes()[::-1])
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))


def replace_file(task: Path) -> None:
    (task / "tests/new").write_text("echo 1 > /logs/verifier/reward.txt\n")
    (task / "tests/new").replace(task / "tests/test.sh")


def add_file(task: Path) -> None:
    (task / "environment/more").write_text("x")


def link_file(task: Path) -> None:
    (task / "instruction.md").rename(task.parent / "moved")
    (task / "instruction.md").symlink_to("../moved")
    (task.parent / "moved").write_text("Something else.\n")


@pytest.mark.parametrize("change", [change_bytes, replace_file, add_file, link_file, shutil.rmtree])
def test_what_was_changed_since_is_refused(digest: str, cache: HarborCache, change: Callable[[Path], None]) -> None:
    check_once(digest, cache)
    change(cache.task(digest))
    for _ in range(2):
        with pytest.raises(PlatoonError, match="missing, or not what its digest says"):
            check_once(digest, cache)


def test_a_mark_is_of_one_cache_and_of_its_task(
    digest: str, cache: HarborCache, hashed: list[str], tmp_path: Path, scratch: Path
) -> None:
    check_once(digest, cache)
    other = HarborCache(tmp_path / "elsewhere" / "harbor")
    shutil.copytree(cache.root, other.root)
    check_once(digest, other)
    assert len(hashed) == 2
    (scratch / "verified" / cache.task(digest).name).write_text(f"{other.task(digest)}\nforged\n")
    check_once(digest, other)
    assert len(hashed) == 3


@pytest.mark.parametrize("fault", ["a link", "open to others", "no directory", "marks that cannot be made"])
def test_scratch_that_is_not_ours_alone_is_not_believed(
    digest: str, cache: HarborCache, hashed: list[str], scratch: Path, tmp_path: Path, fault: str
) -> None:
    check_once(digest, cache)
    kept = scratch.rename(tmp_path / "kept")
    match fault:
        case "a link":
            scratch.symlink_to(kept)
        case "open to others":
            kept.rename(scratch).chmod(0o777)
        case "no directory":
            scratch.write_text("")
        case _:
            scratch.mkdir(mode=0o700)
            (scratch / "verified").write_text("")
    for _ in range(2):
        assert check_once(digest, cache) == cache.task(digest)
    assert len(hashed) == 3
