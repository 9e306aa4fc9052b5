"""Registry files: which dataset is meant, where its tasks come from, and what of it is pinned."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import httpx
import pytest

from platoon.envs.harbor.fetch import fetch
from platoon.envs.harbor.options import HarborOptions
from platoon.envs.harbor.sources.protocol import Recorded
from platoon.envs.harbor.sources.reference import RegistryReference
from platoon.envs.harbor.sources.registry_file import HARBOR_REGISTRY, find_dataset, newest, read_registry
from platoon.errors import ConfigError, NotPreparedError, PlatoonError
from tests.envs.harbor.fakes.repositories import Repository
from tests.envs.harbor.sources.conftest import Fetching

pytestmark = pytest.mark.process

MakeRepository = Callable[..., Repository]


def registered(name: str, path: str, repo: Repository | None = None, commit: str | None = None) -> dict[str, Any]:
    return {"name": name, "path": path, **({} if repo is None else {"git_url": repo.url, "git_commit_id": commit})}


def write(place: Path, *tasks: Mapping[str, Any], name: str = "bench", version: str = "1.0") -> None:
    place.write_text(json.dumps([{"name": name, "version": version, "description": "", "tasks": list(tasks), "metrics": []}]))


def test_h003_h004_h014_tasks_of_several_repositories(
    make_repository: MakeRepository, fetching: Fetching, git_calls: Callable[[], list[str]]
) -> None:
    one, two = make_repository("one"), make_repository("two")
    one.task("tasks/a", {"environment/n": "a"})
    one.task("tasks/unlisted", {"environment/n": "unlisted"})
    first = one.commit()
    one.task("tasks/a", {"environment/n": "newer"})
    second = one.commit()
    two.task("b", {"environment/n": "b"})
    write(
        fetching.base / "registry.json",
        registered("a-old", "tasks/a", one, first),
        registered("a-new", "tasks/a", one, second),
        registered("b", "b", two, two.commit()),
    )
    fetched = fetching({"dataset": "harbor://bench@1.0", "registry": "registry.json"})
    assert [row.name for row in fetched.lock.tasks] == ["a-new", "a-old", "b"]
    rows = fetched.lock.by_name
    assert (fetching.cache.task(rows["a-old"].digest) / "environment/n").read_text() == "a"
    assert (fetching.cache.task(rows["a-new"].digest) / "environment/n").read_text() == "newer"
    assert rows["a-old"].origin == {"repo": one.url, "commit": first}
    # H018: every repository with the commit it was taken at.
    source = fetched.lock.source
    assert (source["kind"], source["registry"], source["name"], source["version"]) == ("registry", "registry.json", "bench", "1.0")
    assert {(item["repo"], item["commit"]) for item in source["repositories"]} >= {(one.url, first), (one.url, second)}
    fetches = [call for call in git_calls() if call.startswith("fetch ")]
    assert len([call for call in fetches if "--depth 1 " in call and "--filter=blob:none" in call]) == 3
    store = next(path for path in (fetching.cache.root / "git").iterdir() if (path / "platoon" / first).exists())
    present = Repository(store).git("cat-file", "--batch-check", "--batch-all-objects")
    assert one.git("rev-parse", f"{first}:tasks/unlisted/environment/n") not in present


def test_h020_a_registry_file_of_full_commits_is_pinned(make_repository: MakeRepository, fetching: Fetching) -> None:
    repository = make_repository()
    repository.task("a")
    options = {"dataset": "harbor://bench@1.0", "registry": "registry.json"}
    write(fetching.base / "registry.json", registered("a", "a", repository, repository.commit()))
    first = fetching(options)
    repository.path.rename(repository.path.with_name("gone"))
    # H019.
    assert fetching(options).lock == first.lock
    # An edited file asks for something else.
    write(fetching.base / "registry.json", registered("b", "a", repository, "0" * 40))
    with pytest.raises(ConfigError, match="no repository is there"):
        fetching(options)


def test_a_task_that_its_repository_does_not_have(make_repository: MakeRepository, fetching: Fetching) -> None:
    repository = make_repository()
    repository.task("a")
    commit = repository.commit()
    write(
        fetching.base / "registry.json", registered("one", "a", repository, commit), registered("two", "nope", repository, commit)
    )
    with pytest.raises(ConfigError, match=f"^registry.json: task two: commit {commit} of file://.* has no directory nope$"):
        fetching({"dataset": "harbor://bench@1.0", "registry": "registry.json"})


@pytest.mark.parametrize("commit", [None, "HEAD", "main"])
def test_h022_a_task_at_head_moves(make_repository: MakeRepository, fetching: Fetching, commit: str | None) -> None:
    repository = make_repository()
    repository.task("a")
    repository.task("b")
    first = repository.commit()
    options = {"dataset": "harbor://bench@1.0", "registry": "registry.json"}
    write(fetching.base / "registry.json", registered("a", "a", repository, commit), registered("b", "b", repository, commit))
    with pytest.raises(NotPreparedError, match="--update"):
        fetching(options)
    (source,) = fetching(options, update=True).lock.source["repositories"]
    assert source["commit"] == first
    repository.task("a", {"instruction.md": "Newer.\n"})
    repository.commit()
    assert fetching(options).lock.by_name["a"].origin == {"repo": repository.url, "commit": first}
    assert fetching(options, update=True).lock.by_name["a"].origin != {"repo": repository.url, "commit": first}


@pytest.mark.parametrize("item", [5, {}, {"repo": "r", "ref": None}, {"repo": "r", "ref": None, "commit": "--upload-pack=x"}])
def test_a_lock_that_does_not_say_its_commits(fetching: Fetching, item: Any) -> None:
    write(fetching.base / "registry.json", {"name": "a", "path": "a", "git_url": "https://host.example/r", "git_commit_id": None})
    options = HarborOptions.parse({"dataset": "harbor://bench@1.0", "registry": "registry.json"})
    registry = read_registry(fetching.base / "registry.json", "registry.json")
    digest = find_dataset(registry, RegistryReference("bench", "1.0"), "registry.json").digest
    recorded = Recorded(digest, {"repositories": [item]})
    with pytest.raises(ConfigError, match="does not say which commits"):
        fetch(options, fetching.base, fetching.cache, tools=fetching.tools, recorded=recorded)


def serving(fetching: Fetching, answer: Callable[[httpx.Request], httpx.Response]) -> None:
    fetching.more["web_client"] = lambda: httpx.Client(transport=httpx.MockTransport(answer))


def test_h004_h022_a_registry_at_a_url(make_repository: MakeRepository, fetching: Fetching) -> None:
    repository = make_repository()
    repository.task("a")
    place = fetching.base / "served.json"
    write(place, registered("a", "a", repository, repository.commit()))
    asked: list[str] = []

    def answer(request: httpx.Request) -> httpx.Response:
        asked.append(str(request.url))
        if request.url.path == "/old.json":
            return httpx.Response(301, headers={"location": "/registry.json"})
        return httpx.Response(503) if len(asked) == 2 else httpx.Response(200, content=place.read_bytes())

    serving(fetching, answer)
    options = {"dataset": "harbor://bench@1.0", "registry": "https://host.example/old.json"}
    with pytest.raises(NotPreparedError, match="--update"):
        fetching(options)
    assert asked == []
    lock = fetching(options, update=True).lock
    assert lock.source["registry"] == "https://host.example/old.json"
    assert len(asked) == 4
    assert fetching.said[0] == "https://host.example/old.json: HTTP 503; trying again in 1 s"
    assert fetching(options).lock == lock
    # Without its cache the same comes back, as long as the registry still says so.
    for path in (fetching.cache.root / "tasks").iterdir():
        path.rename(fetching.base / path.name)
    assert fetching(options).lock == lock
    write(place, registered("b", "a", repository, "HEAD"))
    for path in (fetching.cache.root / "tasks").iterdir():
        path.rename(fetching.base / f"{path.name}-2")
    with pytest.raises(ConfigError, match="lists other tasks or commits than when it was locked"):
        fetching(options)


def test_harbors_own_registry_is_the_default_and_moves(fetching: Fetching) -> None:
    serving(fetching, lambda request: httpx.Response(404))
    with pytest.raises(NotPreparedError, match="--update"):
        fetching({"dataset": "harbor://bench@1.0"})
    with pytest.raises(ConfigError, match="HTTP 404") as caught:
        fetching({"dataset": "harbor://bench@1.0"}, update=True)
    assert HARBOR_REGISTRY in str(caught.value)


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (httpx.Response(500), "could not be read in 4 tries: HTTP 500"),
        (httpx.Response(302, headers={"location": "http://host.example/x"}), "redirects to an address that must be a URL of https"),
        (httpx.Response(302, headers={"location": "https://u:s3cr3t@host.example/x"}), "must hold no user or password"),
        (httpx.Response(302, headers={"location": "/again"}), "redirects more than 5 times"),
        (httpx.Response(200, content=b"{"), "is not JSON"),
        (httpx.Response(200, content=b"\xff"), "is not UTF-8"),
        (httpx.Response(200, content=b"[1]"), "r.json: 0: a dataset has a name, a text, got 1"),
        (httpx.Response(200, content=b"[]"), "has no dataset bench"),
        (
            httpx.Response(200, content=b'[{"name": "bench", "version": "1.0", "tasks": [{"name": "a", "path": "a"}]}]'),
            "task a names no repository, and a registry at a URL has no directory",
        ),
    ],
)
def test_registries_that_do_not_answer(fetching: Fetching, answer: httpx.Response, words: str) -> None:
    serving(fetching, lambda request: httpx.Response(answer.status_code, headers=answer.headers, content=answer.content))
    with pytest.raises(PlatoonError) as caught:
        fetching({"dataset": "harbor://bench@1.0", "registry": "https://host.example/r.json"}, update=True)
    assert words in str(caught.value)
    assert "s3cr3t" not in str(caught.value)


def test_h026_paths_are_relative_to_the_configuration(
    make_repository: MakeRepository, fetching: Fetching, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    repository = make_repository()
    repository.task("a")
    (fetching.base / "sub").mkdir()
    write(fetching.base / "sub/registry.json", registered("a", "a", repository, repository.commit()))
    monkeypatch.chdir(tmp_path)
    assert fetching({"dataset": "harbor://bench@1.0", "registry": "sub/registry.json"}).lock.runnable == ("a",)


def test_tasks_beside_the_registry_file(fetching: Fetching) -> None:
    """Pinned, and read at each fetch like a local directory."""
    place = Repository(fetching.base / "sub")
    place.task("tasks/a")
    write(fetching.base / "sub/registry.json", registered("a", "tasks/a"))
    options = {"dataset": "harbor://bench@1.0", "registry": "sub/registry.json"}
    first = fetching(options)
    assert (first.copied, first.lock.by_name["a"].origin) == (1, None)
    place.task("tasks/a", {"instruction.md": "Newer.\n"})
    assert fetching(options).copied == 1
    place.task("tasks/b")
    (fetching.base / "sub/tasks/link").symlink_to("b")
    write(fetching.base / "sub/registry.json", registered("a", "tasks/link"))
    with pytest.raises(ConfigError, match="task a is a link"):
        fetching(options)


@pytest.mark.parametrize("kind", ["beside", "repository", "directory", "git"])
def test_a_root_that_is_named_as_a_task_is_one(make_repository: MakeRepository, fetching: Fetching, kind: str) -> None:
    repository = make_repository()
    for place, repo in ((fetching.base, None), (repository.path, repository)):
        Repository(place).task("." if repo is None else "", {"task.toml": None})
        write(place / "registry.json", {"name": "a", "path": "."})
    commit = repository.commit()
    options = {"dataset": "harbor://bench@1.0", "registry": "registry.json"}
    if kind == "repository":
        write(fetching.base / "registry.json", registered("a", ".", repository, commit))
    elif kind != "beside":
        options = {"dataset": str(fetching.base) if kind == "directory" else f"git+{repository.url}@{commit}"}
    with pytest.raises(ConfigError, match=r"a task's path names the root, which holds no task.toml \(name the task's"):
        fetching(options)
    if kind == "repository":
        repository.task("")
        write(fetching.base / "registry.json", registered("a", ".", repository, repository.commit()))
        assert fetching(options).lock.runnable == ("a",)


def test_versions() -> None:
    assert newest(["1.9", "1.10", "x"]) == "1.10"
    assert newest(["b", "a"]) == "b"
    assert newest(["1.0", "head"]) == "head"
    value = [{"name": "n", "version": version, "tasks": [{"name": "t", "path": version}]} for version in ("1.0", "1.10", "1.9")]
    assert find_dataset(value, RegistryReference("n", None), "r").version == "1.10"
    assert find_dataset(value, RegistryReference("n", "1.9"), "r").tasks[0].path == "1.9"
    assert find_dataset(value[0], RegistryReference("n", "1.0"), "r").version == "1.0"


NAMES = {
    "": "a task's id is not empty",
    **dict.fromkeys(("../../x", "/a", "a//b", "a/", ".", "a/../b"), "a task's id is a relative path without empty, `.` and `..`"),
    **dict.fromkeys(("y" * 5000, "y" * 256, "\u00e4" * 128, "ab/" * 400 + "c"), "a task's id has at most 1024 bytes, and 255"),
}


@pytest.mark.parametrize(
    ("task", "words"),
    [
        ({"name": "a"}, "a task has a name and a path"),
        ({"name": "a\nb", "path": "a"}, "a task's id is UTF-8 on one line"),
        ({"name": "a", "path": "../a"}, "must stay inside the dataset"),
        ({"name": "a", "path": "/a"}, "must stay inside the dataset"),
        ({"name": "a", "path": "../a", "git_url": "https://h/r"}, "must stay inside the dataset"),
        ({"name": "a", "path": "/etc", "git_url": "https://h/r"}, "must stay inside the dataset"),
        ({"name": "a", "path": ".git/a", "git_url": "https://h/r"}, "bench@1.0.a.path: a path in a repository has no '..'"),
        *(({"name": "a", "path": "", "git_url": url}, "a task's path is not empty") for url in (None, "https://h/r")),
        *(({"name": name, "path": "a", "git_url": url}, words) for name, words in NAMES.items() for url in (None, "https://h/r")),
        ({"name": "a", "path": "y" * 256, "git_url": "https://h/r"}, "a task's path has at most 1024 bytes"),
        ({"name": "a", "path": "a", "git_url": "https://u:s3cr3t@h/r"}, "must hold no user or password"),
        ({"name": "a", "path": "a", "git_url": "ext::sh -c x"}, "without blanks"),
        ({"name": "a", "path": "a", "git_url": "--upload-pack=x"}, "must be a URL of https"),
        ({"name": "a", "path": "a", "git_url": "https://h/r", "git_commit_id": "--x"}, "must end in a commit"),
        ({"name": "a", "path": "a", "git_url": 3}, "git_url and git_commit_id are texts"),
    ],
)
def test_u41_hostile_registries(fetching: Fetching, task: dict[str, Any], words: str) -> None:
    write(fetching.base / "registry.json", task)
    with pytest.raises(ConfigError) as caught:
        fetching({"dataset": "harbor://bench@1.0", "registry": "registry.json"})
    assert words in str(caught.value)
    assert "s3cr3t" not in str(caught.value)
    assert all(line.isprintable() for line in str(caught.value).splitlines())


TWICE = b'[{"name": "bench", "version": "1.0", "tasks": [{"name": "a", "path": "a"}, {"name": "a", "path": "b"}]}]'


@pytest.mark.parametrize(
    ("data", "told"),
    [
        (b'{"a":', "is not JSON: Expecting value: line 1 column 6 (char 5)"),
        (b'{"name": "\xff"}', "is not UTF-8 (byte 10)"),
        (b"[" * 2_000_001, "holds more than 2000000 mappings and lists"),
        (b"5", "must be a list of datasets, got 5"),
        (b'{"a": 1}', 'a dataset has a name, a text, got {"a": 1}'),
        (b'[{"name": "bench"}, {"name": 3}]', '1: a dataset has a name, a text, got {"name": 3}'),
        (b"[]", "has no dataset bench (it has none)"),
        (b'{"name": "bench", "version": "1.0", "tasks": 7}', "bench@1.0: must list datasets with their tasks, got 7"),
        (TWICE, "bench@1.0: two tasks are called a"),
        (
            TWICE.replace(b'"path": "b"', b'"path": 4'),
            'bench@1.0.tasks.1: a task has a name and a path, both texts, got {"name": "a", "path": 4}',
        ),
    ],
)
def test_what_a_registry_file_says_wrong_is_told_with_file_key_and_value(fetching: Fetching, data: bytes, told: str) -> None:
    (fetching.base / "sub").mkdir()
    (fetching.base / "sub/reg.json").write_bytes(data)
    with pytest.raises(ConfigError) as caught:
        fetching({"dataset": "harbor://bench@1.0", "registry": "sub/reg.json"})
    assert str(caught.value) == f"sub/reg.json: {told}"


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"dataset": "harbor://other@1.0"}, "has no dataset other (its datasets: bench)"),
        ({"dataset": "harbor://bench@2.0"}, "has no bench@2.0 (its versions: 1.0)"),
        ({"dataset": "harbor://bench@1.0", "registry": "gone.json"}, "gone.json: cannot be read"),
        ({"dataset": "harbor://bench@1.0", "index": ["x.json"]}, "has no files beside its tasks"),
    ],
)
def test_what_is_not_registered(fetching: Fetching, options: dict[str, Any], words: str) -> None:
    Repository(fetching.base).task("a")
    write(fetching.base / "registry.json", registered("a", "a"))
    with pytest.raises(ConfigError) as caught:
        fetching({"registry": "registry.json", **options})
    assert words in str(caught.value)
