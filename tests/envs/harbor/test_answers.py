"""Which lock answers an entry: its own, one of release 0.4, or none; and what is told of those that do not."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from platoon import exits
from platoon.envs.harbor.answers import find_answer, is_current, read_request
from platoon.envs.harbor.fetch import fetch
from platoon.envs.harbor.lock import HarborLock
from platoon.envs.harbor.options import HarborOptions
from platoon.envs.harbor.publish import HarborCache
from platoon.envs.harbor.service import HarborService
from platoon.envs.harbor.sources.protocol import FetchTools
from platoon.errors import ConfigError, NotPreparedError
from tests.envs.harbor.fakes.hugging_face import FakeHuggingFace
from tests.envs.harbor.fakes.legacy_lock import write_legacy

pytestmark = pytest.mark.unit

MakeTask = Callable[..., Path]

COMMIT = "a" * 40
DATASET = f"hf://org/name@{COMMIT}"
SIDECARS = "services: {main: {}, db: {image: postgres:16, command: [serve]}}\n"
MAIN_ONLY = "services: {main: {environment: {A: b}}}\n"


@pytest.fixture
def hub(make_task: MakeTask, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeHuggingFace:
    make_task("plain", root=tmp_path / "remote")
    make_task("main-only", {"environment/docker-compose.yaml": MAIN_ONLY}, tmp_path / "remote")
    make_task("stack", {"environment/docker-compose.yaml": SIDECARS}, tmp_path / "remote")
    fake = FakeHuggingFace({("org/name", COMMIT): tmp_path / "remote"}, {("org/name", None): COMMIT})
    fake.install(monkeypatch)
    return fake


def options(**more: Any) -> HarborOptions:
    return HarborOptions.parse({"dataset": DATASET, **more})


@pytest.fixture
def cached(hub: FakeHuggingFace, cache: HarborCache, tmp_path: Path) -> HarborCache:
    """The cache with the tasks that release 0.4 left there, and nothing else of this one."""
    fetch(options(), tmp_path, cache)
    for name in ("locks", "known", "rows", "hf", "hf-listings"):
        (cache.root / name).rename(tmp_path / f"gone-{name}")
    hub.calls.clear()
    return cache


def downloads(hub: FakeHuggingFace) -> list[str]:
    return [path for call, path, _ in hub.calls if call == "download" and "/" in path]


@pytest.mark.parametrize("more", [{}, {"refuse": {"sidecars": False}}])
def test_h504_h516_a_lock_of_0_4_that_refused_no_stack_answers(
    cached: HarborCache, hub: FakeHuggingFace, tmp_path: Path, more: dict[str, Any]
) -> None:
    path = write_legacy(cached, COMMIT, options(**more), tmp_path / "remote", {"plain": None})
    fetched = fetch(options(**more), tmp_path, cached)
    assert (fetched.path, fetched.lock.runnable, fetched.lock.is_legacy) == (path, ("plain",), True)
    assert hub.calls == []
    # It is handed on by its digest like any other.
    again = HarborLock.read(cached.lock_by_digest(fetched.lock.digest))
    assert again == fetched.lock
    assert b"created_at" not in again.to_bytes()


def test_h505_h507_tasks_refused_as_task_config_stay_so_until_a_repair(
    cached: HarborCache, hub: FakeHuggingFace, tmp_path: Path
) -> None:
    wanted = options(refuse={"sidecars": False})
    refused = {"plain": None, "stack": "task_config: a stack of several containers", "main-only": "task_config: compose settings"}
    write_legacy(cached, COMMIT, wanted, tmp_path / "remote", refused)
    assert fetch(wanted, tmp_path, cached).lock.runnable == ("plain",)
    assert hub.calls == []
    repaired = fetch(wanted, tmp_path, cached, tools=FetchTools(cached, repair=True)).lock
    assert repaired.runnable == ("main-only", "plain", "stack")
    assert not repaired.is_legacy
    assert repaired.by_name["main-only"].flags["stack"] == "main_only"
    assert fetch(wanted, tmp_path, cached).lock == repaired


def test_h506_h507_an_entry_that_refuses_sidecars_is_answered_with_their_refusals(
    cached: HarborCache, hub: FakeHuggingFace, tmp_path: Path
) -> None:
    wanted = options(refuse={"sidecars": True})
    refused = {"plain": None, "main-only": "stack: multi-container", "stack": "stack: x"}
    write_legacy(cached, COMMIT, wanted, tmp_path / "remote", refused)
    lock = fetch(wanted, tmp_path, cached).lock
    assert lock.is_legacy
    assert lock.by_name["main-only"].refused == "stack: multi-container"
    repaired = fetch(wanted, tmp_path, cached, tools=FetchTools(cached, repair=True)).lock
    assert repaired.runnable == ("main-only", "plain")
    assert repaired.by_name["stack"].refused == (
        "stack: the compose file adds sidecar services (refuse: {sidecars: false} fetches it as a stack)"
    )


@pytest.mark.parametrize("more", [{}, {"refuse": {"sidecars": False}}])
def test_h508_h513_h514_a_lock_of_0_4_that_refused_stacks_is_fetched_again_from_the_cache(
    cached: HarborCache, hub: FakeHuggingFace, tmp_path: Path, more: dict[str, Any]
) -> None:
    refused = {"plain": None, "main-only": "stack: x", "stack": "stack: x"}
    write_legacy(cached, COMMIT, options(**more), tmp_path / "remote", refused)
    said: list[str] = []
    fetched = fetch(options(**more), tmp_path, cached, tools=FetchTools(cached, say=said.append))
    assert not fetched.lock.is_legacy
    assert fetched.lock.runnable == ("main-only", "plain", "stack")
    assert fetched.copied == 0
    assert downloads(hub) == []
    assert any("is of release 0.4 and refused 2 tasks as stacks" in line for line in said)


def test_h515_a_worker_that_finds_no_lock_names_the_old_one(cached: HarborCache, tmp_path: Path) -> None:
    path = write_legacy(cached, COMMIT, options(), tmp_path / "remote", {"plain": None, "stack": "stack: x"})
    with pytest.raises(NotPreparedError) as caught:
        HarborService(options(provider="process"), cache_dir=cached.root, base_dir=tmp_path)
    assert str(path) in str(caught.value)
    assert "is of release 0.4 and refused 1 task as stacks" in str(caught.value)
    assert "run platoon prepare" in str(caught.value)
    assert caught.value.exit_code == exits.CONFIG
    fetch(options(), tmp_path, cached)
    service = HarborService(options(provider="process"), cache_dir=cached.root, base_dir=tmp_path)
    assert asyncio.run(service.list_tasks("train")) == ("main-only", "plain", "stack")


def test_h509_plans_of_another_rule_are_not_read(hub: FakeHuggingFace, cache: HarborCache, tmp_path: Path) -> None:
    fetched = fetch(options(), tmp_path, cache)
    # H030: the rule and the plans by digest.
    assert b'"compose_rule": "platoon-compose-v1"' in fetched.path.read_bytes()
    row = fetched.lock.by_name["stack"]
    assert row.compose is not None
    assert list(fetched.lock.plans[row.compose["plan"]]["services"]) == ["db"]
    fetched.path.chmod(0o644)
    fetched.path.write_bytes(fetched.path.read_bytes().replace(b"platoon-compose-v1", b"platoon-compose-v0"))
    with pytest.raises(ConfigError, match='compose_rule: must be platoon-compose-v1, got "platoon-compose-v0"'):
        HarborLock.read(fetched.path)
    hub.calls.clear()
    again = fetch(options(), tmp_path, cache)
    assert again.lock == fetched.lock
    assert downloads(hub) == []


def test_h031_h510_h512_h038_kinds_of_stacks(hub: FakeHuggingFace, cache: HarborCache, tmp_path: Path) -> None:
    lock = fetch(options(), tmp_path, cache).lock
    kinds = {name: row.flags["stack"] for name, row in lock.by_name.items()}
    assert kinds == {"plain": "single", "main-only": "main_only", "stack": "sidecars"}
    assert lock.runnable == ("main-only", "plain", "stack")
    refusing = fetch(options(refuse={"sidecars": True}), tmp_path, cache).lock
    assert refusing.by_name["stack"].refused == (
        "stack: the compose file adds sidecar services (refuse: {sidecars: false} fetches it as a stack)"
    )
    assert refusing.runnable == ("main-only", "plain")


def test_what_was_asked_for_is_in_the_digest(tmp_path: Path, cache: HarborCache) -> None:
    (tmp_path / "list.txt").write_text("plain\n")
    (tmp_path / "over").mkdir()
    (tmp_path / "over/overlay.toml").write_text('[[edit]]\nfile = "instruction.md"\npattern = "Do"\nreplace = "Make"\n')
    adapter = {"repo": "r", "commit": COMMIT, "command": ["x"]}
    variants: list[dict[str, Any]] = [
        {"dataset": DATASET},
        {"dataset": f"hf://org/name@{'b' * 40}"},
        {"dataset": DATASET, "tasks": "list.txt"},
        {"dataset": DATASET, "select": {"a": 1}},
        {"dataset": DATASET, "overlays": ["over"]},
        {"dataset": DATASET, "index": [{"metadata": ["a"]}]},
        {"dataset": DATASET, "refuse": {"gpus": False}},
        {"dataset": DATASET, "refuse": {"privileges": False}},
        {"dataset": DATASET, "refuse": {"uploads_over_mb": 1.0}},
        {"adapter": adapter},
        {"adapter": {**adapter, "env": {"A": "1"}}},
        {"dataset": "harbor://name@1", "registry": "https://host.example/r.json"},
        {"dataset": "harbor://name@1"},
    ]
    digests = {read_request(HarborOptions.parse(value), tmp_path, cache).inputs for value in variants}
    assert len(digests) == len(variants)
    # What does not decide the contents does not ask for anything else.
    same = [{"dataset": DATASET, "provider": "process"}, {"dataset": DATASET, "refuse": {"sidecars": False}}]
    for value in same:
        assert read_request(HarborOptions.parse(value), tmp_path, cache).inputs == read_request(options(), tmp_path, cache).inputs


@pytest.mark.parametrize("lock", [None, "mine.lock.json"])
def test_an_overlay_of_another_name_is_another_question(
    hub: FakeHuggingFace, cache: HarborCache, tmp_path: Path, lock: str | None
) -> None:
    """Its name is in the lock: what the directory was called at an earlier fetch must not show in a later one."""
    for name in ("o1", "o2"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "overlay.toml").write_text('[[edit]]\nfile = "instruction.md"\npattern = "Do"\nreplace = "Make"\n')
    first = fetch(options(overlays=["o1"], lock=lock), tmp_path, cache).lock
    renamed = options(overlays=["o2"], lock=lock)
    warm = fetch(renamed, tmp_path, cache).lock
    cold = fetch(renamed, tmp_path, HarborCache(tmp_path / "cold/harbor"), tools=FetchTools(cache, repair=True)).lock
    assert {row.overlays for row in warm.tasks} == {("o2",)}
    assert warm.to_bytes() == cold.to_bytes()
    # With the name in its file it means the same wherever it lies.
    for name in ("o1", "o2"):
        path = tmp_path / name / "overlay.toml"
        path.write_text('name = "mine"\n' + path.read_text())
    same = [fetch(options(overlays=[name], lock=lock), tmp_path, cache).lock.to_bytes() for name in ("o1", "o2")]
    assert same[0] == same[1] != first.to_bytes()


def test_a_lock_in_a_file_of_ones_own(hub: FakeHuggingFace, cache: HarborCache, tmp_path: Path) -> None:
    wanted = options(lock="locks/mine.lock.json")
    fetched = fetch(wanted, tmp_path, cache)
    assert fetched.path == tmp_path / "locks/mine.lock.json"
    assert (tmp_path / "locks/mine.lock.meta.json").is_file()
    hub.calls.clear()
    assert fetch(wanted, tmp_path, cache).lock == fetched.lock
    assert hub.calls == []


def test_a_lock_of_other_settings_in_that_file(hub: FakeHuggingFace, cache: HarborCache, tmp_path: Path) -> None:
    first = fetch(options(lock="mine.lock.json"), tmp_path, cache)
    request = read_request(options(lock="mine.lock.json", refuse={"gpus": False}), tmp_path, cache)
    search = find_answer(request, cache)
    assert search.answer is None
    assert search.passed_over == (f"{first.path}: was written for other settings",)


@pytest.mark.parametrize("damage", [b"", b"{", b"[]", b"\xff", b'{"version": 1}'])
def test_a_lock_that_cannot_be_read_counts_as_absent(
    hub: FakeHuggingFace, cache: HarborCache, tmp_path: Path, damage: bytes
) -> None:
    path = fetch(options(), tmp_path, cache).path
    path.chmod(0o644)
    path.write_bytes(damage)
    said: list[str] = []
    fetched = fetch(options(), tmp_path, cache, tools=FetchTools(cache, say=said.append))
    assert len(fetched.lock.tasks) == 3
    assert any(line.startswith(f"not used: {path}") for line in said)


def test_current_means_input_files_and_a_directory_for_each_task(hub: FakeHuggingFace, cache: HarborCache, tmp_path: Path) -> None:
    lock = fetch(options(), tmp_path, cache).lock
    assert is_current(lock, cache)
    place = cache.task(lock.tasks[0].digest)
    place.rename(tmp_path / "aside")
    assert not is_current(lock, cache)
    # U42: a link in its place is none.
    place.symlink_to(tmp_path / "aside")
    assert not is_current(lock, cache)
    assert fetch(options(), tmp_path, cache).copied == 1
    assert not place.is_symlink()


def test_one_lock_for_two_entries_that_ask_the_same(hub: FakeHuggingFace, cache: HarborCache, tmp_path: Path) -> None:
    first = fetch(options(), tmp_path, cache)
    hub.calls.clear()
    assert fetch(options(name="other", workdir="/w"), tmp_path, cache).path == first.path
    assert hub.calls == []
