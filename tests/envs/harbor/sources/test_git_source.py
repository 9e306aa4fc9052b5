"""Directories of git repositories as datasets: what is asked of the server, what reaches the cache, and what is refused."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from platoon.artifacts.digests import content_hash
from platoon.envs.harbor.publish import HarborCache
from platoon.envs.harbor.sources import git as git_source
from platoon.envs.harbor.sources.git_command import GitError
from platoon.envs.harbor.sources.git_store import sparse_pattern
from platoon.errors import ConfigError, NotPreparedError, PlatoonError
from tests.envs.harbor.fakes.repositories import Repository
from tests.envs.harbor.sources.conftest import Fetching, objects

pytestmark = pytest.mark.process

MakeRepository = Callable[..., Repository]


def test_h005_a_directory_of_a_repository(make_repository: MakeRepository, fetching: Fetching) -> None:
    repository = make_repository()
    repository.task("bench/tasks/one")
    repository.task("bench/tasks/group/two", {"environment/run": "#!/bin/sh\n"})
    repository.task("elsewhere/three")
    repository.task("bench/tasks/.hidden/four")
    commit = repository.commit()
    fetched = fetching({"dataset": f"git+{repository.url}@{commit}#bench/tasks"})
    assert [row.name for row in fetched.lock.tasks] == ["group/two", "one"]
    assert fetched.lock.resolved == commit
    # H018: how it resolved.
    assert fetched.lock.source == {"kind": "git", "repo": repository.url, "ref": commit, "commit": commit, "path": "bench/tasks"}
    # H017: the content hash is that of the same directory.
    for row in fetched.lock.tasks:
        assert row.digest == content_hash(repository.path / "bench/tasks" / row.source_path)
        assert fetching.cache.has_task(row.digest)
    assert fetched.copied == 2


def test_h014_shallow_blobless_sparse_fetches_of_the_selected_tasks_alone(
    make_repository: MakeRepository, fetching: Fetching, git_calls: Callable[[], list[str]]
) -> None:
    repository = make_repository()
    for name in ("one", "two", "three"):
        repository.task(f"tasks/{name}", {"environment/data.csv": name})
    repository.commit()
    commit = repository.commit("second")
    fetching({"dataset": f"git+{repository.url}@{commit}#tasks", "select": {"name": ["one", "two"]}})
    calls = git_calls()
    (fetch,) = [call for call in calls if call.startswith("fetch ")]
    assert "--depth 1 " in fetch and "--filter=blob:none" in fetch and fetch.endswith(commit)
    assert any(call.startswith("sparse-checkout set --no-cone") for call in calls)
    assert not any("clone" in call for call in calls)
    found = objects(fetching)
    ids = {name: repository.git("rev-parse", f"HEAD:tasks/{name}/environment/data.csv") for name in ("one", "two", "three")}
    assert {ids["one"], ids["two"]} <= found
    assert ids["three"] not in found


def test_h020_h021_a_pinned_commit_is_fetched_once(
    make_repository: MakeRepository, fetching: Fetching, git_calls: Callable[[], list[str]]
) -> None:
    repository = make_repository()
    repository.task("one")
    options = {"dataset": f"git+{repository.url}@{repository.commit()}"}
    first = fetching(options)
    assert git_calls()
    # H019: nothing but the lock and the cache is read again.
    repository.path.rename(repository.path.with_name("gone"))
    assert fetching(options).lock == first.lock
    assert git_calls() == []


@pytest.mark.parametrize("ref", ["", "@main", "@refs/heads/main", "@v1", "@annotated"])
def test_h022_h023_what_moves_is_resolved_on_demand(make_repository: MakeRepository, fetching: Fetching, ref: str) -> None:
    repository = make_repository()
    repository.task("one")
    first = repository.commit()
    repository.git("tag", "v1")
    repository.git("tag", "-a", "annotated", "-m", "x")
    options = {"dataset": f"git+{repository.url}{ref}"}
    with pytest.raises(NotPreparedError, match="run platoon harbor fetch CONFIG --update"):
        fetching(options)
    assert fetching(options, update=True).lock.resolved == first
    repository.task("two")
    second = repository.commit()
    for arguments in (["tag", "-f", "v1"], ["tag", "-f", "-a", "annotated", "-m", "y"]):
        repository.git(*arguments)
    # Unasked, the lock keeps what it said; asked, it follows.
    assert fetching(options).lock.resolved == first
    assert fetching(options, repair=True).lock.resolved == first
    moved = fetching(options, update=True)
    assert moved.lock.resolved == second
    assert [row.name for row in moved.lock.tasks] == ["one", "two"]
    # The same files are one entry of the cache.
    assert moved.copied == 0


def test_a_moved_reference_whose_cache_is_lost_comes_back_as_it_was(make_repository: MakeRepository, fetching: Fetching) -> None:
    repository = make_repository()
    repository.task("one")
    repository.commit()
    options = {"dataset": f"git+{repository.url}@main"}
    before = fetching(options, update=True).lock
    repository.task("one", {"instruction.md": "Another.\n"})
    repository.commit()
    for path in (fetching.cache.root / "tasks").iterdir():
        path.rename(fetching.base / path.name)
    after = fetching(options)
    assert after.lock == before
    assert after.copied == 1


def test_names_that_are_a_branch_and_a_tag(make_repository: MakeRepository, fetching: Fetching) -> None:
    repository = make_repository()
    repository.task("one")
    repository.commit()
    repository.git("tag", "both")
    repository.git("branch", "both")
    same = fetching({"dataset": f"git+{repository.url}@both"}, update=True)
    repository.task("two")
    repository.commit()
    repository.git("tag", "-f", "both")
    with pytest.raises(ConfigError, match="is a branch and a tag"):
        fetching({"dataset": f"git+{repository.url}@both"}, update=True)
    assert len(same.lock.tasks) == 1
    assert len(fetching({"dataset": f"git+{repository.url}@refs/tags/both"}, update=True).lock.tasks) == 2


@pytest.mark.parametrize("ref", ["", "@main"])
def test_an_empty_repository_is_told_as_that(make_repository: MakeRepository, fetching: Fetching, ref: str) -> None:
    with pytest.raises(ConfigError, match="the repository is empty: it has no commit"):
        fetching({"dataset": f"git+{make_repository().url}{ref}"}, update=True)


@pytest.mark.parametrize(
    ("stderr", "told"),
    [
        (
            "ssh: connect to host h port 1: Connection refused\nfatal: Could not read from remote repository.\n\n"
            "Please make sure you have the correct access rights\nand the repository exists.\n",
            "ssh: connect to host h port 1: Connection refused / fatal: Could not read from remote repository.",
        ),
        ("fatal: index-pack died of signal 25\n", "died of SIGXFSZ (a file would be larger than `ulimit -f` allows: raise that)"),
        ("", "it said nothing"),
    ],
)
def test_the_reason_of_git_is_kept(stderr: str, told: str) -> None:
    assert str(GitError("url: what", stderr)).endswith(told)


@pytest.mark.parametrize(
    ("suffix", "words"),
    [
        ("@nothing", "no branch or tag is called nothing"),
        ("@mian", r"no branch or tag is called mian \(did you mean main\?\)"),
        ("@" + "0" * 39 + "1", "has no commit 0{39}1, or it is not open to you"),
        ("@main#nowhere", "has no directory nowhere"),
        ("@main#one/task.toml", "has no directory one/task.toml"),
        ("@main#empty", "holds no task"),
    ],
)
def test_what_is_not_there(make_repository: MakeRepository, fetching: Fetching, suffix: str, words: str) -> None:
    repository = make_repository()
    repository.task("one")
    (repository.path / "empty").mkdir()
    (repository.path / "empty/file").write_text("x")
    repository.commit()
    with pytest.raises(ConfigError, match=words):
        fetching({"dataset": f"git+{repository.url}{suffix}"}, update=True)
    assert not (fetching.cache.root / "locks").exists()


def test_a_repository_that_is_not_there(fetching: Fetching, tmp_path: Path) -> None:
    for ref in ("", "@main", f"@{'a' * 40}", f"@{'a' * 64}"):
        with pytest.raises(ConfigError, match="no repository is there"):
            fetching({"dataset": f"git+file://{tmp_path}/nothing{ref}"}, update=True)


def test_a_server_that_gives_no_commit_by_its_id(make_repository: MakeRepository, fetching: Fetching, tmp_path: Path) -> None:
    """Protocol 0 without `allowAnySHA1InWant`: the commit is found in the history of the branches."""
    repository = make_repository()
    repository.task("one")
    wanted = repository.commit()
    for number in range(3):
        repository.commit(f"later {number}")
    repository.git("config", "uploadpack.allowAnySHA1InWant", "false")
    settings = tmp_path / "site.gitconfig"
    settings.write_text("[protocol]\n\tversion = 0\n")
    fetching.environment["PLATOON_GIT_CONFIG"] = str(settings)
    fetched = fetching({"dataset": f"git+{repository.url}@{wanted}"})
    assert fetched.lock.resolved == wanted
    with pytest.raises(ConfigError, match="has no commit"):
        fetching({"dataset": f"git+{repository.url}@{'b' * 40}"})


def test_a_repository_with_sha256_ids(make_repository: MakeRepository, fetching: Fetching) -> None:
    repository = make_repository(object_format="sha256")
    repository.task("one")
    commit = repository.commit()
    assert len(commit) == 64
    assert fetching({"dataset": f"git+{repository.url}@{commit}"}).lock.resolved == commit


def test_modes_are_the_trees_and_not_the_umasks(make_repository: MakeRepository, fetching: Fetching) -> None:
    repository = make_repository()
    task = repository.task("one", {"environment/tool": "binary", "environment/plain": "x", "environment/s.sh": "x"})
    (task / "environment/tool").chmod(0o755)
    commit = repository.commit()
    old = os.umask(0o177)
    try:
        (row,) = fetching({"dataset": f"git+{repository.url}@{commit}"}).lock.tasks
    finally:
        os.umask(old)
    place = fetching.cache.task(row.digest) / "environment"
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in place.iterdir()}
    assert modes == {"tool": 0o755, "plain": 0o644, "s.sh": 0o755, "data.csv": 0o644}


def test_one_task_alone_and_index_files(make_repository: MakeRepository, fetching: Fetching) -> None:
    repository = make_repository("single.git")
    repository.task(".", {"environment/x": "y"})
    commit = repository.commit()
    assert [row.name for row in fetching({"dataset": f"git+{repository.url}@{commit}"}).lock.tasks] == ["single"]
    repository.task(".", {"task.toml": '[task]\nname = "org/it"\n'})
    assert [row.name for row in fetching({"dataset": f"git+{repository.url}@{repository.commit()}"}).lock.tasks] == ["org/it"]
    other = make_repository("other")
    other.task("a")
    other.task("b")
    (other.path / "task-index.json").write_text('{"first": {"task_path": "a", "kind": "x"}}')
    (other.path / "more.jsonl").write_text('{"task_id": "first", "level": 3}\n')
    (row,) = fetching({"dataset": f"git+{other.url}@{other.commit()}", "index": ["more.jsonl"]}).lock.tasks
    assert (row.name, row.source_path, row.index) == ("first", "a", {"kind": "x", "level": 3})


@pytest.mark.parametrize(
    ("target", "rule"), [("/etc/passwd", "leaves the task"), ("../../two/task.toml", "leaves the task"), ("gone", "leads nowhere")]
)
def test_h024_links_that_leave_their_task(make_repository: MakeRepository, fetching: Fetching, target: str, rule: str) -> None:
    repository = make_repository()
    repository.task("two")
    (repository.task("one") / "tests/link").symlink_to(target)
    commit = repository.commit()
    with pytest.raises(ConfigError, match=f"one: tests/link: a link to .* {rule}"):
        fetching({"dataset": f"git+{repository.url}@{commit}"})
    assert not any(b"root:" in path.read_bytes() for path in fetching.cache.root.rglob("passwd") if path.is_file())
    assert not (fetching.cache.root / "locks").exists()


def test_submodules_are_not_followed(make_repository: MakeRepository, fetching: Fetching) -> None:
    inner = make_repository("inner")
    (inner.path / "x").write_text("x")
    inner.commit()
    repository = make_repository()
    repository.task("one")
    repository.git("submodule", "add", "-q", inner.url, "one/environment/inner")
    commit = repository.commit()
    with pytest.raises(ConfigError, match="one: environment/inner: a submodule is not followed"):
        fetching({"dataset": f"git+{repository.url}@{commit}"})


def test_one_commit_has_one_lock_whatever_the_cache_saw_before(make_repository: MakeRepository, fetching: Fetching) -> None:
    repository = make_repository()
    repository.task("tasks/one")
    first = repository.commit()
    (repository.path / ".gitattributes").write_text("*.md text eol=crlf\n")
    second = repository.commit()
    cold = Fetching(fetching.base, HarborCache(fetching.cache.root.with_name("cold")))
    fetching({"dataset": f"git+{repository.url}@{first}#tasks"})
    options = {"dataset": f"git+{repository.url}@{second}#tasks"}
    warm = fetching(options).lock
    assert warm.to_bytes() == cold(options).lock.to_bytes() == fetching(options, repair=True).lock.to_bytes()


def test_an_interrupted_fetch_goes_on(
    make_repository: MakeRepository, fetching: Fetching, monkeypatch: pytest.MonkeyPatch, git_calls: Callable[[], list[str]]
) -> None:
    repository = make_repository()
    for number in range(6):
        repository.task(f"t{number}", {"environment/n": str(number)})
    options = {"dataset": f"git+{repository.url}@{repository.commit()}"}
    monkeypatch.setattr(git_source, "BATCH_TASKS", 2)
    checkout = git_source.GitStore.checkout
    taken: list[object] = []

    def breaks(*arguments: object) -> object:
        taken.append(arguments)
        if len(taken) == 3:
            raise PlatoonError("the network is gone")
        return checkout(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(git_source.GitStore, "checkout", breaks)
    with pytest.raises(PlatoonError, match="the network is gone"):
        fetching(options)
    assert len(list((fetching.cache.root / "tasks").iterdir())) == 4
    assert not list(fetching.cache.staging.iterdir())
    git_calls()
    again = fetching(options)
    assert (again.copied, len(again.lock.tasks)) == (2, 6)
    assert not [call for call in git_calls() if call.startswith("fetch ")]
    # A damaged one of them is not believed.
    (row, *_) = again.lock.tasks
    (fetching.cache.task(row.digest) / "instruction.md").write_text("Damaged.\n")
    assert fetching(options, repair=True).copied == 1


def test_fetches_of_one_dataset_take_turns(make_repository: MakeRepository, fetching: Fetching) -> None:
    repository = make_repository()
    for number in range(3):
        repository.task(f"t{number}", {"environment/n": str(number)})
    options = {"dataset": f"git+{repository.url}@{repository.commit()}"}
    other = {**options, "select": {"name": "t*"}}
    with ThreadPoolExecutor(4) as pool:
        results = list(pool.map(fetching, [options, options, other, options]))
    assert sum(result.copied for result in results) == 3
    assert len({result.lock.digest for result in results}) == 2
    assert not list(fetching.cache.staging.iterdir())


def test_what_a_killed_fetch_left_in_a_store_is_no_hindrance(make_repository: MakeRepository, fetching: Fetching) -> None:
    repository = make_repository()
    repository.task("one")
    fetching({"dataset": f"git+{repository.url}@{repository.commit()}"})
    (store,) = (fetching.cache.root / "git").iterdir()
    for name in ("shallow.lock", "config.lock", "config.worktree.lock", "HEAD.lock", "info/sparse-checkout.lock"):
        (store / name).write_text("")
    repository.task("two")
    assert len(fetching({"dataset": f"git+{repository.url}@{repository.commit()}"}).lock.tasks) == 2
    # A store that is damaged beyond that is made anew by a repair.
    for path in (store / "objects").rglob("*.pack"):
        path.chmod(0o644)
        path.write_bytes(b"")
    options = {"dataset": f"git+{repository.url}@{repository.git('rev-parse', 'HEAD')}", "select": {"name": "one"}}
    with pytest.raises(PlatoonError, match="--repair of platoon harbor fetch makes its store anew"):
        fetching(options)
    assert fetching(options, repair=True).lock.runnable == ("one",)


def test_attributes_and_settings_of_others_do_nothing(make_repository: MakeRepository, fetching: Fetching, tmp_path: Path) -> None:
    repository = make_repository()
    marker = tmp_path / "ran"
    repository.task("one", {".gitattributes": "* filter=evil\n"})
    commit = repository.commit()
    home = tmp_path / "home"
    (home / ".config/git").mkdir(parents=True)
    (home / ".gitconfig").write_text(f'[filter "evil"]\n\tsmudge = touch {marker}\n[core]\n\thooksPath = /nowhere\n')
    (home / ".config/git/attributes").write_text("* text eol=crlf\n")
    fetching.environment |= {
        "HOME": str(home),
        "XDG_CONFIG_HOME": str(home / ".config"),
        "GIT_DIR": "/nowhere",
        "GIT_WORK_TREE": "/",
    }
    (row,) = fetching({"dataset": f"git+{repository.url}@{commit}"}).lock.tasks
    assert b"\r" not in (fetching.cache.task(row.digest) / "tests/test.sh").read_bytes()
    assert not marker.exists()


def test_no_transport_but_those_an_address_may_name(fetching: Fetching, tmp_path: Path) -> None:
    """Nor after a site's own rewriting of it."""
    settings = tmp_path / "site.gitconfig"
    settings.write_text('[url "http://localhost:1/"]\n\tinsteadOf = https://host.example/\n')
    fetching.environment |= {"PLATOON_GIT_CONFIG": str(settings), "GIT_ALLOW_PROTOCOL": "http:ext"}
    with pytest.raises(PlatoonError, match="transport 'http' not allowed"):
        fetching({"dataset": "git+https://host.example/r@main"}, update=True)


def test_git_says_nothing_secret(fetching: Fetching, tmp_path: Path) -> None:
    """A rewritten address may hold a secret that git then prints."""
    settings = tmp_path / "site.gitconfig"
    settings.write_text('[url "https://user:s3cr3t@localhost:1/"]\n\tinsteadOf = https://host.example/\n')
    fetching.environment["PLATOON_GIT_CONFIG"] = str(settings)
    with pytest.raises(PlatoonError) as caught:
        fetching({"dataset": "git+https://host.example/r@main"}, update=True)
    assert "s3cr3t" not in str(caught.value)
    assert "https://host.example/r" in str(caught.value)


def test_without_git(fetching: Fetching, tmp_path: Path) -> None:
    fetching.environment["PATH"] = str(tmp_path)
    with pytest.raises(ConfigError, match="git is needed and not on PATH"):
        fetching({"dataset": f"git+https://host.example/r@{'a' * 40}"})


@pytest.mark.parametrize("path", ["a b", "a*", "[x]", "!x", "#x", "a\\b", "-x", "a?", "ü"])
def test_odd_names_of_tasks_are_taken_and_nothing_else(make_repository: MakeRepository, fetching: Fetching, path: str) -> None:
    repository = make_repository()
    repository.task(f"tasks/{path}", {"environment/this": "x"})
    repository.task("tasks/ab", {"environment/other": "y"})
    repository.task("tasks/x", {"environment/other": "z"})
    commit = repository.commit()
    (repository.path.parent / "config/list.json").write_text(f'["{path}"]'.replace("\\", "\\\\"))
    (row,) = fetching({"dataset": f"git+{repository.url}@{commit}#tasks", "tasks": "list.json"}).lock.tasks
    assert row.name == path
    assert repository.git("rev-parse", "HEAD:tasks/ab/environment/other") not in objects(fetching)
    assert sparse_pattern(path).startswith("/")
