"""Dataset repositories of Hugging Face through fakes of the library's calls: what is listed, downloaded, checked and kept."""

from __future__ import annotations

import errno
import inspect
import socket
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import httpx
import huggingface_hub
import pytest
import requests
from huggingface_hub import errors

from platoon.artifacts.digests import content_hash
from platoon.envs.harbor import content
from platoon.envs.harbor.sources.hugging_face_client import ATTEMPTS, Absent, HubClient, retrying
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


def caused(error: Exception, by: Exception) -> Exception:
    error.__cause__ = by
    return error


def downloads(hub: FakeHuggingFace) -> list[str]:
    return [path for call, path, _ in hub.calls if call == "download"]


@pytest.mark.parametrize(
    ("fake", "real"),
    [
        (FakeHuggingFace.repo_info, huggingface_hub.HfApi.repo_info),
        (FakeHuggingFace.list_repo_tree, huggingface_hub.HfApi.list_repo_tree),
        (FakeHuggingFace.get_paths_info, huggingface_hub.HfApi.get_paths_info),
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
    # Both tasks have the same tests.
    assert len([path for path in downloads(hub) if path.endswith("/tests/test.sh")]) == 1
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


def test_files_that_are_equal_are_downloaded_once_whichever_tasks_have_them(
    hub: FakeHuggingFace, remote: Repository, fetching: Fetching
) -> None:
    """And no task shares a file with another: one that is edited in place is the only one that changes."""
    for number in range(20):
        remote.task(f"t{number:02}", {".gitignore": "*.log\n", "environment/big": "x" * 300})
    remote.task("t20", {"instruction.md": "Another.\n"})
    fetched = fetching({**PINNED, "select": {"name": "*"}})
    assert (len(fetched.lock.tasks), fetched.copied) == (21, 2)
    assert len(downloads(hub)) == len({path.read_bytes() for path in remote.path.rglob("*") if path.is_file()}) == 7
    files = [path for path in fetching.cache.tasks.rglob("*") if path.is_file()]
    assert {path.stat().st_nlink for path in files} == {1}


def test_downloads_of_several_tasks_run_at_a_time(hub: FakeHuggingFace, remote: Repository, fetching: Fetching) -> None:
    for number in range(4):
        remote.task(f"t{number}", {"environment/n": str(number)})
    fetching.more["workers"] = 4
    # Broken, and the fetch with it, unless a file of each task is being downloaded at one time.
    together = threading.Barrier(4)

    def meet(call: str, path: str) -> None:
        if call == "download" and path.endswith("/n"):
            together.wait(20)

    hub.before = meet
    assert fetching(PINNED).copied == 4


def test_downloads_run_ahead_within_a_bound(hub: FakeHuggingFace, remote: Repository, fetching: Fetching) -> None:
    """Of 54 files, when the first task is taken."""
    for number in range(50):
        remote.task(f"t{number:02}", {"environment/n": str(number)})
    fetching.more["workers"] = 1
    begun: list[int] = []

    def first_taken(line: str) -> None:
        if ": 1 of " in line:
            begun.append(len(downloads(hub)))

    fetching.more["progress"] = first_taken
    fetching(PINNED)
    (count,) = begun
    assert count < 20
    assert len(downloads(hub)) == 50 + 4


def test_an_interrupted_fetch_goes_on(hub: FakeHuggingFace, remote: Repository, fetching: Fetching) -> None:
    for number in range(3):
        remote.task(f"t{number}", {"environment/n": str(number)})

    def gone(call: str, path: str) -> None:
        if path == "t2/environment/n":
            raise PlatoonError("the network is gone")

    hub.before = gone
    with pytest.raises(PlatoonError, match="the network is gone"):
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


def test_u41_what_a_listing_tells_of_a_task_is_told_before_any_download(
    hub: FakeHuggingFace, remote: Repository, fetching: Fetching, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(content, "FILE_LIMIT", 50)
    monkeypatch.setattr(content, "TASK_LIMIT_BYTES", 65 << 20)
    remote.task("bulky", {f"tests/f{number}": str(number) * (32 << 20) for number in range(3)})
    remote.task("many", {f"tests/f{number}": str(number) for number in range(404)})
    remote.task("directories", {f"tests/d{number}/f": f"d{number}" for number in range(25)})
    for name in ("task.toml", ".gitignore"):
        with (remote.task(f"large {name}") / name).open("ab") as file:
            file.truncate(64 << 20)
    remote.task("deep", {"/".join(["environment", *["d"] * 101, "f"]): "deep"})
    with pytest.raises(ConfigError) as caught:
        fetching(PINNED)
    told = "\n".join(sorted(str(problem).partition("/")[2] for problem in caught.value.problems))
    assert downloads(hub) == []
    for words in (
        "/many: tests: the task holds more than 50 files",
        "/directories: tests: the task holds more than 50 files",
        "/bulky: tests: the task holds more than 68157440 bytes",
        "/large task.toml: task.toml: has 67108864 bytes, more than 1048576",
        "/large .gitignore: .gitignore: has 67108864 bytes, more than 1048576",
        "/deep: environment: is nested deeper than 100 directories",
    ):
        assert words in told
    # The deep one has more than 50 directories.
    assert len(caught.value.problems) == 7


@pytest.mark.parametrize("name", ["task.toml", "registry.json", "task-index.json", "more.jsonl"])
def test_u41_index_files_without_end_are_not_downloaded(
    hub: FakeHuggingFace, remote: Repository, fetching: Fetching, name: str
) -> None:
    remote.task("one")
    with (remote.path / name).open("wb") as file:
        file.truncate((64 << 20) + 1)
    with pytest.raises(ConfigError, match=rf"{COMMIT}: {name}: has 67108865 bytes, more than 67108864"):
        fetching({**PINNED, "index": ["more.jsonl"]})
    assert downloads(hub) == []


def test_a_task_that_is_not_there(hub: FakeHuggingFace, remote: Repository, fetching: Fetching) -> None:
    remote.task("one")
    (remote.path / "task-index.json").write_text('{"one": {}, "two": {"task_path": "tasks/two"}}')
    with pytest.raises(ConfigError, match=r"/task-index\.json: task two: the repository has no directory tasks/two"):
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
        (caused(errors.LocalEntryNotFoundError("x"), errors.OfflineModeIsEnabled("y")), "HF_HUB_OFFLINE is set", 1),
        (caused(ValueError("x"), errors.OfflineModeIsEnabled("y")), "HF_HUB_OFFLINE is set", 1),
        (caused(ValueError("x"), httpx.ReadTimeout("y")), "not to be had in 10 tries: ReadTimeout: y", ATTEMPTS),
        (caused(ValueError("x"), http_error(errors.GatedRepoError, 403)), "not open to you", 1),
        (caused(errors.LocalEntryNotFoundError("x"), errors.FileMetadataError("no etag")), "FileMetadataError: no etag", 1),
        (http_error(errors.HfHubHTTPError, 408), "HfHubHTTPError", 1),
        (http_error(errors.HfHubHTTPError, 507), "not to be had in 10 tries", ATTEMPTS),
        (requests.exceptions.ConnectionError("reset"), "not to be had in 10 tries", ATTEMPTS),
        (TimeoutError("late"), "not to be had in 10 tries", ATTEMPTS),
        (ConnectionResetError(errno.ECONNRESET, "reset"), "not to be had in 10 tries", ATTEMPTS),
        (OSError("Consistency check failed: file should be of size 5 but has size 4"), "not to be had in 10 tries", ATTEMPTS),
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


@pytest.mark.parametrize(
    "error",
    [
        KeyError("x"),
        ValueError("x"),
        caused(ValueError("x"), KeyError("y")),
        OSError(errno.ENOSPC, "No space left on device", "/cache/x"),
        OSError(errno.EDQUOT, "Disk quota exceeded", "/cache/x"),
        PermissionError(errno.EACCES, "Permission denied", "/cache/x"),
        NotADirectoryError(errno.ENOTDIR, "Not a directory", "/cache/x"),
        httpx.UnsupportedProtocol("no scheme"),
    ],
)
def test_faults_of_the_program_and_of_this_machine_are_told_at_once(error: Exception) -> None:
    def broken() -> None:
        raise error

    def never(seconds: float) -> None:
        raise AssertionError("waits")

    with pytest.raises(type(error)) as caught:
        retrying(broken, "x", sleep=never, jitter=lambda: 0.0, say=lambda text: None)
    assert caught.value is error


CALLS: dict[str, Callable[[HubClient, Path], object]] = {
    "commit": lambda client, cache: client.commit_of("org/name", None),
    "list": lambda client, cache: list(client.files("org/name", COMMIT, "")),
    "info": lambda client, cache: client.file("org/name", COMMIT, "task.toml"),
    "download": lambda client, cache: client.download("org/name", COMMIT, "task.toml", cache),
    "download anew": lambda client, cache: client.download("org/name", COMMIT, "task.toml", cache, anew=True),
}


@pytest.mark.parametrize("call", CALLS)
def test_the_library_itself_offline_is_asked_once(call: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    client = HubClient()
    waited: list[float] = []
    with pytest.raises(ConfigError, match="hf://org/name: is not in the cache, and HF_HUB_OFFLINE is set"):
        retrying(
            lambda: CALLS[call](client, tmp_path), "hf://org/name", sleep=waited.append, jitter=lambda: 0.0, say=lambda text: None
        )
    assert waited == []


@pytest.mark.parametrize("call", CALLS)
def test_the_library_itself_without_a_network_is_asked_again(call: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", False)
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        endpoint = f"http://127.0.0.1:{closed.getsockname()[1]}"
        monkeypatch.setattr("huggingface_hub.constants.ENDPOINT", endpoint)
        monkeypatch.setattr("huggingface_hub.constants.HUGGINGFACE_CO_URL_TEMPLATE", endpoint + "/{repo_id}/{revision}/{filename}")
        monkeypatch.setattr("huggingface_hub.utils._http.time", SimpleNamespace(**{**vars(time), "sleep": lambda seconds: None}))
        client = HubClient()
        waited: list[float] = []
        with pytest.raises(PlatoonError, match="not to be had in 10 tries: ConnectError"):
            retrying(
                lambda: CALLS[call](client, tmp_path), "hf://x", sleep=waited.append, jitter=lambda: 0.0, say=lambda text: None
            )
    assert len(waited) == ATTEMPTS - 1


@pytest.mark.parametrize("repair", [False, True])
def test_a_fetch_offline_goes_as_far_as_the_cache(
    hub: FakeHuggingFace, remote: Repository, fetching: Fetching, monkeypatch: pytest.MonkeyPatch, repair: bool
) -> None:
    """With the library's own functions from the second fetch on."""
    remote.task("one")
    fetched = fetching(PINNED)
    monkeypatch.undo()
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    if not repair:
        assert fetching({**PINNED, "select": {"name": "*"}}).lock.tasks == fetched.lock.tasks
    else:
        with pytest.raises(ConfigError, match="is not in the cache, and HF_HUB_OFFLINE is set"):
            fetching(PINNED, repair=True)
    assert fetching.said == []
