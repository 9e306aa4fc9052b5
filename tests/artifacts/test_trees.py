"""Publication of task trees: what is copied, what is refused, and what a killed or racing writer leaves."""

from __future__ import annotations

import multiprocessing
import os
import resource
import signal
from pathlib import Path

import pytest

from platoon.artifacts.digests import DataError, content_hash, hex_of
from platoon.artifacts.trees import PublishedTree, publish_tree, sync_file_system

pytestmark = pytest.mark.unit


@pytest.fixture
def source(tmp_path: Path) -> Path:
    root = tmp_path / "source"
    (root / "tests").mkdir(parents=True)
    (root / "task.toml").write_text("")
    (root / "tests/test.sh").write_text("#!/bin/sh\n")
    (root / "tests/data").write_bytes(bytes(300_000))
    return root


@pytest.fixture
def base(tmp_path: Path) -> Path:
    (tmp_path / "cache").mkdir()
    return tmp_path / "cache"


def publish(source: Path, base: Path, *, staged: str = "harbor/.tmp/one", expected: str | None = None) -> PublishedTree:
    return publish_tree(source, base=base, trees="harbor/tasks", staged=staged, expected=expected, durable=False)


def leftovers(base: Path) -> list[str]:
    return sorted(str(path.relative_to(base)) for path in base.rglob("*") if ".tmp" in path.parts and path.name != ".tmp")


def test_a_tree_is_published_under_its_content_hash(source: Path, base: Path) -> None:
    previous = os.umask(0o077)
    try:
        published = publish(source, base)
    finally:
        os.umask(previous)
    assert published == PublishedTree(content_hash(source), "copied")
    place = base / "harbor/tasks" / hex_of(published.digest)
    assert content_hash(place) == published.digest
    modes = {str(path.relative_to(base)): path.stat().st_mode & 0o777 for path in base.rglob("*")}
    assert modes.pop(f"harbor/tasks/{place.name}/tests/data") == 0o644
    assert modes.pop(f"harbor/tasks/{place.name}/task.toml") == 0o644
    assert set(modes.values()) == {0o755}
    assert publish(source, base, expected=published.digest).outcome == "found"
    sync_file_system(base)
    assert leftovers(base) == []


def test_another_digest_than_expected_publishes_nothing(source: Path, base: Path) -> None:
    published = publish(source, base, expected=f"sha256:{'0' * 64}")
    assert published == PublishedTree(content_hash(source), "changed")
    assert list((base / "harbor/tasks").iterdir()) == [] and leftovers(base) == []


@pytest.mark.parametrize("planted", ["harbor", "harbor/tasks", "harbor/.tmp"])
def test_u42_a_planted_link_in_the_cache_is_refused(source: Path, base: Path, tmp_path: Path, planted: str) -> None:
    (tmp_path / "elsewhere").mkdir()
    (base / planted).parent.mkdir(parents=True, exist_ok=True)
    (base / planted).symlink_to(tmp_path / "elsewhere")
    with pytest.raises(DataError, match=f"{planted}: a link stands where a directory of the cache is expected"):
        publish(source, base)
    assert list((tmp_path / "elsewhere").iterdir()) == []


def test_a_disk_that_takes_no_more_leaves_nothing(source: Path, base: Path) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, hard))
    try:
        with pytest.raises(OSError, match="File too large") as caught:
            publish(source, base)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert caught.value.filename == str(base / "harbor/.tmp/one/tests/data")
    assert list((base / "harbor/tasks").iterdir()) == [] and leftovers(base) == []


def _publish_often(source: Path, base: Path, name: str) -> list[str]:
    return [publish(source, base, staged=f"harbor/.tmp/{name}-{number}").outcome for number in range(20)]


def test_writers_at_once_give_one_whole_tree(source: Path, base: Path) -> None:
    with multiprocessing.get_context("fork").Pool(3) as pool:
        outcomes = pool.starmap(_publish_often, [(source, base, name) for name in "abc"])
    assert sum(some.count("copied") for some in outcomes) == 1
    assert [path.name for path in (base / "harbor/tasks").iterdir()] == [hex_of(content_hash(source))]
    assert leftovers(base) == []


def test_a_killed_writer_leaves_no_entry_that_is_not_whole(source: Path, base: Path) -> None:
    """Killed at many moments: what stands in the place of tasks is whole each time."""
    expected = content_hash(source)
    for moment in range(12):
        child = os.fork()
        if child == 0:
            while True:
                publish(source, base, staged=f"harbor/.tmp/{os.getpid()}")
                for path in (base / "harbor/tasks").iterdir():
                    (path / "task.toml").unlink()
        try:
            os.sched_yield()
            sum(range(20_000 * moment))
        finally:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
        published = publish(source, base, staged="harbor/.tmp/after")
        assert published.digest == expected
        assert content_hash(base / "harbor/tasks" / hex_of(expected)) == expected
