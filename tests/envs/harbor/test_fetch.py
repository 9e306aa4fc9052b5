"""Fetching a local dataset: same bytes everywhere, whole or not at all, every refusal named."""

from __future__ import annotations

import errno
import math
import os
import random
import resource
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from platoon import exits
from platoon.envs.harbor.answers import inputs_digest
from platoon.envs.harbor.compose import plan_task
from platoon.envs.harbor.fetch import fetch
from platoon.envs.harbor.lock import HarborLock
from platoon.envs.harbor.publish import HarborCache, check_cached, publish_task
from platoon.envs.harbor.sources.protocol import FetchTools
from platoon.envs.harbor.splits import split_lock
from platoon.errors import ConfigError, PlatoonError
from platoon.host.processes import this_process
from tests.envs.harbor.conftest import make_dataset, options

pytestmark = pytest.mark.unit

MakeTask = Callable[..., Path]


@contextmanager
def umask(mask: int) -> Iterator[None]:
    old = os.umask(mask)
    try:
        yield
    finally:
        os.umask(old)


def files_of(root: Path) -> dict[str, tuple[int, bytes]]:
    return {
        str(path.relative_to(root)): (path.stat().st_mode, path.read_bytes()) for path in sorted(root.rglob("*")) if path.is_file()
    }


def test_the_rule_of_the_inputs_digest() -> None:
    """Vector A.5: the payload of an older release has the same digest."""
    like = options(refuse={"sidecars": True}).model_copy(update={"dataset": "hf://org/name@" + "a" * 40})
    assert inputs_digest(like, []) == "175143b68d4695afb7e5d31ec0456c40d9f3679d7ea48cc1ebbc15ec6bf5a171"


def test_same_bytes_from_two_clones_umasks_and_orders(make_task: MakeTask, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    locks, caches = [], []
    wanted = options(index=[{"metadata": ["family", "level"]}], holdout={"fraction": 0.5, "group_by": "family"})
    scandir = os.scandir
    for place, mask in (("one", 0o022), ("another/deeper", 0o077)):
        with umask(mask):
            make_dataset(make_task, tmp_path / place)
            result = fetch(wanted, tmp_path / place, HarborCache(tmp_path / place / "cache"))
        locks.append(result.lock.to_bytes())
        assert result.path.read_bytes() == locks[-1]
        caches.append(files_of(tmp_path / place / "cache" / "tasks"))

        class Shuffled:
            def __init__(self, path: Any) -> None:
                with scandir(path) as entries:
                    self.entries = list(entries)
                random.Random(1).shuffle(self.entries)

            def __iter__(self) -> Any:
                return self

            def __next__(self) -> Any:
                if not self.entries:
                    raise StopIteration
                return self.entries.pop()

            def close(self) -> None: ...

            def __enter__(self) -> Any:
                return self

            def __exit__(self, *error: object) -> None: ...

        monkeypatch.setattr(os, "scandir", Shuffled)
    assert locks[0] == locks[1]
    assert caches[0] == caches[1]
    assert {mode & 0o777 for mode, _ in caches[0].values()} == {0o644, 0o755}
    assert str(tmp_path).encode() not in locks[0]
    lock = HarborLock.from_bytes(locks[0], "lock")
    assert lock.to_bytes() == locks[0]
    assert [row.name for row in lock.tasks] == ["task-0", "task-1", "task-2", "task-3"]
    splits = split_lock(lock, wanted, tmp_path)
    assert sorted(splits.ids("train") + splits.ids("eval")) == list(lock.runnable)


def test_a_second_fetch_copies_nothing_and_a_changed_task_alone(make_task: MakeTask, tmp_path: Path, cache: HarborCache) -> None:
    data = make_dataset(make_task, tmp_path)
    first = fetch(options(), tmp_path, cache)
    again = fetch(options(), tmp_path, cache)
    assert (first.copied, again.copied) == (4, 0)
    assert first.lock.digest == again.lock.digest
    (data / "task-2/instruction.md").write_text("Do another thing.\n")
    changed = fetch(options(), tmp_path, cache)
    assert changed.copied == 1
    assert changed.path == first.path
    before, after = first.lock.by_name, changed.lock.by_name
    assert [name for name in before if before[name].digest != after[name].digest] == ["task-2"]
    assert HarborLock.read(cache.lock_by_digest(first.lock.digest)) == first.lock


@pytest.mark.parametrize("place", ["cache", "t/cache", "a/b/c"])
def test_a_cache_below_the_dataset_is_no_part_of_it(make_task: MakeTask, tmp_path: Path, place: str) -> None:
    """Whether it is this site's own or another's."""
    for name in ("one", "t/two"):
        make_task(name, root=tmp_path / "data")
    cache, elsewhere = HarborCache(tmp_path / "data" / place / "harbor"), HarborCache(tmp_path / "elsewhere")
    locks = [fetch(options(), tmp_path, site).lock.to_bytes() for site in (cache, cache, elsewhere)]
    assert len(set(locks)) == 1
    assert [row.name for row in HarborLock.from_bytes(locks[0], "").tasks] == ["one", "t/two"]


def test_a_cached_task_that_was_damaged_is_replaced(make_task: MakeTask, tmp_path: Path, cache: HarborCache) -> None:
    make_dataset(make_task, tmp_path, 2)
    row = fetch(options(), tmp_path, cache).lock.tasks[0]
    (cache.task(row.digest) / "instruction.md").write_text("Damaged.\n")
    with pytest.raises(PlatoonError, match="not what its digest says"):
        check_cached(row.digest, cache)
    assert fetch(options(), tmp_path, cache).copied == 1
    assert check_cached(row.digest, cache) == cache.task(row.digest)
    assert not list(cache.staging.iterdir())


def test_only_hashed_files_are_copied(make_task: MakeTask, tmp_path: Path, cache: HarborCache) -> None:
    task = make_task(
        "t", {".gitignore": "*.log\n", "NOTES.txt": "x", "environment/a.log": "x", "tests/run": "#!/bin/sh\n"}, tmp_path / "data"
    )
    (task / "tests/link").symlink_to("../environment/data.csv")
    row = fetch(options(), tmp_path, cache).lock.tasks[0]
    copied = files_of(cache.task(row.digest))
    assert sorted(copied) == [
        ".gitignore",
        "environment/data.csv",
        "instruction.md",
        "task.toml",
        "tests/link",
        "tests/run",
        "tests/test.sh",
    ]
    assert not (cache.task(row.digest) / "tests/link").is_symlink()
    assert copied["tests/run"][0] & 0o777 == 0o755


@pytest.mark.parametrize(
    ("target", "rule"),
    [
        ("/etc/passwd", "leaves the task"),
        ("../../other/task.toml", "leaves the task"),
        ("nowhere", "leads nowhere"),
        ("self", "leads nowhere"),
        ("../environment", "link to the directory"),
    ],
)
def test_links_fail_the_whole_fetch(make_task: MakeTask, tmp_path: Path, cache: HarborCache, target: str, rule: str) -> None:
    make_task("other", root=tmp_path / "data")
    task = make_task("t", root=tmp_path / "data")
    (task / "tests/self").symlink_to(target)
    with pytest.raises(ConfigError) as caught:
        fetch(options(), tmp_path, cache)
    (problem,) = caught.value.problems
    assert (problem.file, problem.key) == ("data/t", "tests/self")
    assert rule in problem.rule
    assert not (cache.root / "locks").exists()


def test_pipes_and_names_that_do_not_list(make_task: MakeTask, tmp_path: Path, cache: HarborCache) -> None:
    task = make_task("t", {"environment/a\nb": "x"}, tmp_path / "data")
    os.mkfifo(task / "tests/pipe")
    Path(os.fsdecode(os.fsencode(task) + b"/environment/\xff")).write_text("x")
    with pytest.raises(ConfigError) as caught:
        fetch(options(), tmp_path, cache)
    texts = sorted(str(problem) for problem in caught.value.problems)
    assert len(texts) == 3
    assert all(text.isprintable() for text in texts)
    assert "tests/pipe: is neither file nor directory" in texts[2]


def test_hostile_names_of_tasks(make_task: MakeTask, tmp_path: Path, cache: HarborCache) -> None:
    make_task("a\nb", root=tmp_path / "data")
    with pytest.raises(ConfigError, match="UTF-8 on one line"):
        fetch(options(), tmp_path, cache)


def test_refusals_are_recorded(make_task: MakeTask, tmp_path: Path, cache: HarborCache) -> None:
    make_task("ok", root=tmp_path / "data")
    make_task("no-tests", {"tests/test.sh": None, "tests/x": ""}, tmp_path / "data")
    make_task("gpu", {"task.toml": "[environment]\ngpus = 2\n"}, tmp_path / "data")
    make_task("user", {"task.toml": '[agent]\nuser = "me"\n'}, tmp_path / "data")
    make_task("stack", {"environment/docker-compose.yaml": "services: {main: {}, db: {image: x}}\n"}, tmp_path / "data")
    make_task(
        "trivial", {"environment/docker-compose.yaml": "services: {main: {}}\n", "environment/compose.yml": "x"}, tmp_path / "data"
    )
    make_task("docker", {"environment/Dockerfile": "FROM x\n"}, tmp_path / "data")
    make_task("prebuilt", {"task.toml": '[environment]\ndocker_image = "debian"\n'}, tmp_path / "data")
    lock = fetch(options(refuse={"sidecars": True, "uploads_over_mb": 1.0}), tmp_path, cache).lock
    rows = lock.by_name
    codes = {name: (row.refused or "").partition(":")[0] for name, row in rows.items()}
    assert codes == {
        "ok": "",
        "no-tests": "task_config",
        "gpu": "gpus",
        "user": "agent_user",
        "stack": "stack",
        "trivial": "",
        "docker": "",
        "prebuilt": "",
    }
    assert rows["no-tests"].refused == "task_config: tests/test.sh: a task needs tests, and this file is missing"
    assert rows["prebuilt"].image == {"kind": "prebuilt", "ref": "debian", "upload_environment": True}
    assert rows["trivial"].flags["unread_compose"] == ["compose.yml"]
    assert rows["ok"].flags["upload_bytes"] == 8
    assert list(rows["ok"].input_files or {}) == ["environment/data.csv"]
    assert rows["docker"].image["kind"] == "per_task"
    assert lock.runnable == ("docker", "ok", "prebuilt", "trivial")


@pytest.mark.parametrize(
    ("file", "kept"),
    [
        ("data/f", False),
        ("NOTES.txt", False),
        ("environment/x.pyc", False),
        ("environment/out.log", False),
        ("environment/f", True),
        ("./tests//f", True),
        ("README.md", True),
        (".gitignore", True),
    ],
)
def test_a_copy_of_an_overlay_that_no_fetch_would_keep(
    make_task: MakeTask, tmp_path: Path, cache: HarborCache, file: str, kept: bool
) -> None:
    make_task("t", {".gitignore": "*.log\n*.pyc\n"}, tmp_path / "data")
    (tmp_path / "over").mkdir()
    (tmp_path / "over/f").write_text("x")
    (tmp_path / "over/overlay.toml").write_text(f'[[copy]]\nfile = "{file}"\nsource = "f"\n')
    (row,) = fetch(options(overlays=["over"]), tmp_path, cache).lock.tasks
    if kept:
        assert row.runnable and (cache.task(row.digest) / file).read_text() == "x"
    else:
        assert (row.refused or "").startswith(f"overlay: over: {file}: is not kept: it is ignored, or in none of environment/, ")


def test_a_source_that_changes_while_it_is_copied(
    make_task: MakeTask, tmp_path: Path, cache: HarborCache, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = make_dataset(make_task, tmp_path, 1)

    def changed(*arguments: Any) -> bool:
        (data / "task-0/instruction.md").write_text("Changed.\n")
        return publish_task(*arguments)

    monkeypatch.setattr("platoon.envs.harbor.take.publish_task", changed)
    with pytest.raises(ConfigError, match="changed while it was copied"):
        fetch(options(), tmp_path, cache)
    assert not list((cache.root / "tasks").glob("*")) and not list(cache.staging.iterdir())


def test_a_cache_that_cannot_be_written_is_no_fault_of_the_task(make_task: MakeTask, tmp_path: Path, cache: HarborCache) -> None:
    (make_dataset(make_task, tmp_path, 2) / "task-0/environment/large").write_bytes(bytes(300_000))
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, hard))
    try:
        with pytest.raises(PlatoonError, match="File too large") as caught:
            fetch(options(), tmp_path, cache)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    told = f"{cache.root}: cannot be written: File too large (raise the limit of `ulimit -f`; what was fetched is kept)"
    assert str(caught.value) == told
    assert caught.value.exit_code == exits.FAILED
    assert not (cache.root / "locks").exists()
    assert not list(cache.staging.iterdir())
    assert fetch(options(), tmp_path, cache).copied == 2


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT])
@pytest.mark.parametrize("place", ["take.publish_task", "take.prepared"])
def test_a_full_cache_is_told_with_the_way_out(
    make_task: MakeTask, tmp_path: Path, cache: HarborCache, monkeypatch: pytest.MonkeyPatch, place: str, number: int
) -> None:
    def full(*arguments: Any, **options: Any) -> Any:
        raise OSError(number, os.strerror(number), str(cache.staging / "mine/environment/large"))

    make_dataset(make_task, tmp_path, 1)
    with monkeypatch.context() as patch:
        patch.setattr("platoon.envs.harbor.publish.publish_tree" if "publish" in place else f"platoon.envs.harbor.{place}", full)
        with pytest.raises(PlatoonError) as caught:
            fetch(options(), tmp_path, cache)
    assert str(caught.value).startswith(
        f"{cache.root}: cannot be written: {os.strerror(number)} (make room there, or set cache: in"
    )
    assert not (cache.root / "locks").exists()
    assert fetch(options(), tmp_path, cache).copied == 1


def test_what_a_killed_fetch_left_is_removed(make_task: MakeTask, tmp_path: Path, cache: HarborCache) -> None:
    make_dataset(make_task, tmp_path, 1)
    me = this_process()
    names = {
        "dead": f"{me.host},{me.pid},{me.start_ticks + 1},{'0' * 32}",
        "alive": f"{me.host},{me.pid},{me.start_ticks},{'1' * 32}",
        "elsewhere": f"other-host,{me.pid},{me.start_ticks + 1},{'2' * 32}",
    }
    for name in names.values():
        (cache.staging / name / "environment").mkdir(parents=True)
    fetch(options(), tmp_path, cache)
    assert {path.name for path in cache.staging.iterdir()} == {names["alive"], names["elsewhere"]}


def test_fetches_of_one_dataset_take_turns(make_task: MakeTask, tmp_path: Path, cache: HarborCache) -> None:
    make_dataset(make_task, tmp_path, 3)
    with ThreadPoolExecutor(4) as pool:
        results = list(pool.map(lambda _: fetch(options(), tmp_path, cache), range(4)))
    assert sorted(result.copied for result in results) == [0, 0, 0, 3]
    assert len({result.lock.digest for result in results}) == 1
    assert not list(cache.staging.iterdir())


def test_one_task_never_stops_the_others(
    make_task: MakeTask, tmp_path: Path, cache: HarborCache, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not even one over which planning itself fails, or of which it makes what no lock can hold."""
    make_task("good", root=tmp_path / "data")
    for name in ("raises", "endless"):
        make_task(name, {"instruction.md": f"Do {name}.\n"}, tmp_path / "data")

    def planned(toml: Any, directory: Path, **more: Any) -> Any:
        text = (directory / "instruction.md").read_text()
        if "raises" in text:
            raise AssertionError("a fault\nof ours")
        found = plan_task(toml, directory, **more)
        return replace(found, image={**found.image, "x": math.inf}) if "endless" in text else found

    monkeypatch.setattr("platoon.envs.harbor.rows.plan_task", planned)
    found = fetch(options(), tmp_path, cache)
    rows = found.lock.by_name
    assert rows["good"].runnable
    assert rows["raises"].refused == "task_config: planning it failed (AssertionError: a fault\\nof ours)"
    assert (rows["endless"].refused or "").startswith("task_config: planning it failed (ValueError: ")
    assert found.warnings["planning failed over it, which is a fault: report it"] == (2, "endless")
    assert HarborLock.from_bytes(found.lock.to_bytes(), "lock") == found.lock


def test_an_overlay_that_no_task_matches_is_warned_of(make_task: MakeTask, tmp_path: Path, cache: HarborCache) -> None:
    make_task("t", root=tmp_path / "data")
    said: list[str] = []
    for name, match in (("misspelt", "nope = 1"), ("other", "name = 'x*'"), ("used", "name = 't'")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "overlay.toml").write_text(f"compose_host_env = ['A']\n[match]\n{match}\n")
    tools = FetchTools(cache, say=said.append)
    fetch(options(overlays=["misspelt", "other", "used"]), tmp_path, cache, tools=tools)
    assert said == [
        "warning: data: no task matches the overlay misspelt"
        " (no task has match.nope; a field of [metadata] has to be listed: index: [{metadata: [...]}])",
        "warning: data: no task matches the overlay other",
    ]


@pytest.mark.parametrize("place", ["/proc/x.lock.json", "/proc/y/x.lock.json", "file/x.lock.json", f"{'n' * 255}.lock.json"])
def test_a_lock_at_a_place_that_takes_no_file(make_task: MakeTask, tmp_path: Path, cache: HarborCache, place: str) -> None:
    make_task("t", root=tmp_path / "data")
    (tmp_path / "file").write_text("x")
    with pytest.raises(ConfigError) as caught:
        fetch(options(lock=place), tmp_path, cache)
    (problem,) = caught.value.problems
    assert problem.key == "lock" and problem.rule.startswith("cannot be written: ") and ".partial" not in str(problem)
    assert problem.advice == "name a place that takes files, or leave lock out"
