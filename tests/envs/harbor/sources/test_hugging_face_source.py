"""Dataset repositories of Hugging Face through fakes of the library's calls: what is listed, downloaded, checked and kept."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from pathlib import Path

import httpx
import huggingface_hub
import pytest
from huggingface_hub import errors

from platoon.artifacts.digests import content_hash
from platoon.envs.harbor.sources.hugging_face_client import ATTEMPTS, Absent, retrying
from platoon.errors import ConfigError, NotPreparedError, PlatoonError
from tests.envs.harbor.fakes.hugging_face import FakeHuggingFace, http_error
from tests.envs.harbor.fakes.repositories import Repository
from tests.envs.harbor.sources.conftest import Fetching

pytestmark = pytest.mark.unit

COMMIT = "a" * 40
PINNED = {"dataset": f"hf://org/name@{COMMIT}"}


@pytest.fixture
def remote(tmp_path: Path) -> Repository:
    return Repository(tmp_path / "remote")


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch, remote: Repository) -> FakeHuggingFace:
    fake = FakeHuggingFace({("org/name", COMMIT): remote.path}, {("org/name", None): COMMIT, ("org/name", "v1"): COMMIT})
    fake.install(monkeypatch)
    return fake


def downloads(hub: FakeHuggingFace) -> list[str]:
    return [
        path for call, path, _ in hub.calls if call == "download" and path not in ("task.toml", "registry.json", "task-index.json")
    ]


@pytest.mark.parametrize(
    ("fake", "real"),
    [
        (FakeHuggingFace.repo_info, huggingface_hub.HfApi.repo_info),
        (FakeHuggingFace.list_repo_tree, huggingface_hub.HfApi.list_repo_tree),
        (FakeHuggingFace.hf_hub_download, huggingface_hub.hf_hub_download),
    ],
)
def test_the_library_takes_what_the_fake_takes(fake: Callable[..., object], real: Callable[..., object]) -> None:
    wanted, taken = (inspect.signature(function).parameters for function in (fake, real))
    positional = [name for name, one in wanted.items() if one.kind is one.POSITIONAL_OR_KEYWORD and name != "self"]
    assert [name for name in taken if name != "self"][: len(positional)] == positional
    assert set(wanted) - {"self"} <= set(taken)


def test_a_commit_is_fetched_once(hub: FakeHuggingFace, remote: Repository, fetching: Fetching) -> None:
    remote.task("tasks/one", {"environment/big.bin": "x" * 500, "environment/run.sh": "true\n", "NOTES.md": "not hashed"})
    remote.task("tasks/group/two", {".gitignore": "*.log\n", "environment/a.log": "ignored"})
    (remote.path / "elsewhere").mkdir()
    (remote.path / "elsewhere/x").write_text("x")
    options = {"dataset": f"hf://datasets/org/name@{COMMIT}#tasks"}
    fetched = fetching(options)
    assert [row.name for row in fetched.lock.tasks] == ["group/two", "one"]
    assert fetched.lock.resolved == COMMIT
    assert fetched.lock.source == {"kind": "hf", "repo": "org/name", "revision": COMMIT, "commit": COMMIT, "path": "tasks"}
    for row in fetched.lock.tasks:
        # H017.
        assert row.digest == content_hash(remote.path / "tasks" / row.source_path)
    assert not [path for path in downloads(hub) if "NOTES" in path or path.endswith(".log")]
    # Equal files are downloaded once a task at most, and both tasks have the same tests.
    assert len([path for path in downloads(hub) if path.endswith("one/tests/test.sh")]) == 1
    assert [path for call, path, _ in hub.calls if call == "tree"] == ["tasks"]
    hub.calls.clear()
    assert fetching(options).lock == fetched.lock
    assert hub.calls == []


def test_h022_a_branch_moves(hub: FakeHuggingFace, remote: Repository, fetching: Fetching, tmp_path: Path) -> None:
    remote.task("one")
    for suffix in ("", "@v1"):
        with pytest.raises(NotPreparedError, match="--update"):
            fetching({"dataset": f"hf://org/name{suffix}"})
        assert fetching({"dataset": f"hf://org/name{suffix}"}, update=True).lock.resolved == COMMIT
    newer = Repository(tmp_path / "newer")
    newer.task("one", {"instruction.md": "Newer.\n"})
    hub.repositories["org/name", "b" * 40] = newer.path
    hub.revisions["org/name", None] = "b" * 40
    assert fetching({"dataset": "hf://org/name"}).lock.resolved == COMMIT
    assert fetching({"dataset": "hf://org/name"}, update=True).lock.resolved == "b" * 40


def test_index_files_save_the_listing_of_what_is_not_selected(hub: FakeHuggingFace, remote: Repository, fetching: Fetching) -> None:
    for number in range(5):
        remote.task(f"data/t{number}")
    (remote.path / "task-index.json").write_text(
        "{" + ", ".join(f'"id{number}": {{"task_path": "data/t{number}", "n": {number}}}' for number in range(5)) + "}"
    )
    fetched = fetching({**PINNED, "select": {"n": [1, 3]}})
    assert [(row.name, row.source_path) for row in fetched.lock.tasks] == [("id1", "data/t1"), ("id3", "data/t3")]
    assert sorted(path for call, path, _ in hub.calls if call == "tree") == ["data/t1", "data/t3"]


def test_many_selected_tasks_are_listed_together(
    hub: FakeHuggingFace, remote: Repository, fetching: Fetching, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("platoon.envs.harbor.sources.hugging_face.LIST_WHOLE_FROM", 3)
    for number in range(4):
        remote.task(f"data/t{number}")
    names = ", ".join(f'{{"name": "t{number}", "path": "data/t{number}"}}' for number in range(4))
    (remote.path / "registry.json").write_text(f'{{"name": "d", "version": "1", "tasks": [{names}]}}')
    assert len(fetching(PINNED).lock.tasks) == 4
    assert [path for call, path, _ in hub.calls if call == "tree"] == ["data"]


def test_a_file_that_is_not_its_id_is_downloaded_once_more(hub: FakeHuggingFace, remote: Repository, fetching: Fetching) -> None:
    remote.task("one", {"environment/big.bin": "x" * 500})
    for path in ("one/environment/big.bin", "one/instruction.md"):
        hub.damage[path] = b"damaged"
    (row,) = fetching(PINNED).lock.tasks
    assert row.digest == content_hash(remote.path / "one")
    again = [path for call, path, more in hub.calls if call == "download" and more == "anew"]
    assert sorted(again) == ["one/environment/big.bin", "one/instruction.md"]


def test_a_file_that_never_is_its_id_fails_the_fetch(hub: FakeHuggingFace, remote: Repository, fetching: Fetching) -> None:
    remote.task("one")

    def damaging(call: str, path: str) -> None:
        if path == "one/instruction.md":
            hub.damage[path] = b"damaged"

    hub.before = damaging
    with pytest.raises(PlatoonError, match=r"one/instruction\.md: what was downloaded is not git:"):
        fetching(PINNED)
    assert not (fetching.cache.root / "locks").exists()
    assert not list(fetching.cache.staging.iterdir())


def test_an_interrupted_fetch_goes_on(hub: FakeHuggingFace, remote: Repository, fetching: Fetching) -> None:
    for number in range(3):
        remote.task(f"t{number}", {"environment/n": str(number)})

    def gone(call: str, path: str) -> None:
        if path == "t2/environment/n":
            raise KeyboardInterrupt

    hub.before = gone
    with pytest.raises(KeyboardInterrupt):
        fetching(PINNED)
    hub.before = lambda call, path: None
    hub.calls.clear()
    fetched = fetching(PINNED)
    assert (len(fetched.lock.tasks), fetched.copied) == (3, 1)
    assert all(path.startswith("t2/") for path in downloads(hub))
    assert not [path for call, path, _ in hub.calls if call == "tree"]


def test_h504_h514_cached_tasks_are_used_without_the_hub(hub: FakeHuggingFace, remote: Repository, fetching: Fetching) -> None:
    remote.task("one")
    first = fetching(PINNED)
    # Another question about the same commit: no task is downloaded.
    hub.calls.clear()
    other = fetching({**PINNED, "select": {"name": "*"}})
    assert other.lock.tasks == first.lock.tasks
    assert downloads(hub) == []


def test_hostile_paths_in_a_listing(hub: FakeHuggingFace, remote: Repository, fetching: Fetching) -> None:
    remote.task("one", {"environment/a\nb": "x"})
    with pytest.raises(ConfigError, match=r"one: environment/a\\nb: a name is UTF-8 on one line"):
        fetching(PINNED)


@pytest.mark.parametrize(
    ("error", "words", "calls"),
    [
        (http_error(errors.RepositoryNotFoundError, 404), "no such dataset repository, or it is not open to you", 1),
        (http_error(errors.GatedRepoError, 403), "no such dataset repository, or it is not open to you", 1),
        (http_error(errors.RevisionNotFoundError, 404), "has no such revision", 1),
        (http_error(errors.HfHubHTTPError, 401), "is not open to you (HTTP 401)", 1),
        (http_error(errors.HfHubHTTPError, 418), "HfHubHTTPError", 1),
        (errors.OfflineModeIsEnabled("x"), "is not in the cache, and HF_HUB_OFFLINE is set", 1),
        (http_error(errors.HfHubHTTPError, 429), "not to be had in 10 tries", ATTEMPTS),
        (http_error(errors.HfHubHTTPError, 503), "not to be had in 10 tries", ATTEMPTS),
        (httpx.ConnectError("no route"), "not to be had in 10 tries", ATTEMPTS),
        (errors.LocalEntryNotFoundError("no connection"), "not to be had in 10 tries", ATTEMPTS),
    ],
)
def test_which_failures_are_tried_again(error: Exception, words: str, calls: int) -> None:
    tried: list[int] = []
    waited: list[float] = []

    def call() -> None:
        tried.append(1)
        raise error

    with pytest.raises(PlatoonError) as caught:
        retrying(call, "hf://org/name", sleep=waited.append, jitter=lambda: 0.5, say=lambda text: None)
    assert words in str(caught.value)
    assert "hidden" not in str(caught.value)
    assert len(tried) == calls
    assert waited == [5.0, 10.0, 20.0, 40.0, 80.0, 160.0, 300.0, 300.0, 300.0][: calls - 1]


def test_waits_that_the_server_asks_for() -> None:
    waited: list[float] = []
    said: list[str] = []

    def busy() -> str:
        raise http_error(errors.HfHubHTTPError, 429, {"Retry-After": "7"})

    def long() -> str:
        raise http_error(errors.HfHubHTTPError, 429, {"Retry-After": "99999"})

    order = iter((busy, long, lambda: "done"))

    def take() -> str:
        return next(order)()

    assert retrying(take, "x", sleep=waited.append, jitter=lambda: 0.0, say=said.append) == "done"
    assert waited == [7.0, 300.0]
    assert len(said) == 2

    def absent() -> str:
        raise http_error(errors.RemoteEntryNotFoundError, 404)

    with pytest.raises(Absent):
        retrying(absent, "x", sleep=waited.append, jitter=lambda: 0.0, say=said.append)


def test_faults_of_the_program_are_not_hidden() -> None:
    def broken() -> None:
        raise KeyError("x")

    with pytest.raises(KeyError):
        retrying(broken, "x", sleep=lambda seconds: None, jitter=lambda: 0.0, say=lambda text: None)
