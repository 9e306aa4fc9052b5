"""What the trees of a repository may hold: depth, names and sizes are bounded before anything is checked out."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from platoon.envs.harbor import content
from platoon.envs.harbor.sources import git_listing
from platoon.errors import ConfigError, PlatoonError
from tests.envs.harbor.fakes.repositories import Repository
from tests.envs.harbor.sources.conftest import Fetching, objects

pytestmark = pytest.mark.process

MakeRepository = Callable[..., Repository]


@pytest.mark.parametrize("name", [b"a\nb", b"\xff", b"..", b".git", b".GIT", b"a\rb"])
def test_names_that_no_checkout_may_have(make_repository: MakeRepository, fetching: Fetching, name: bytes) -> None:
    """U41: a tree that says so itself, which git's own commands would not write."""
    repository = make_repository()
    blob = repository.git("hash-object", "-w", "--stdin", stdin=b"x")
    toml = repository.git("hash-object", "-w", "--stdin", stdin=b"")
    inner = ("40000", name, repository.tree(("100644", b"f", blob))) if name == b".." else ("100644", name, blob)
    task = repository.tree(("40000", b"environment", repository.tree(inner)), ("100644", b"task.toml", toml))
    commit = repository.commit_tree(repository.tree(("40000", b"one", task)))
    with pytest.raises(PlatoonError) as caught:
        fetching({"dataset": f"git+{repository.url}@{commit}"})
    assert "one" in str(caught.value)
    assert all(line.isprintable() for line in str(caught.value).splitlines())
    assert not (fetching.cache.root / "locks").exists()


def test_names_that_git_takes_for_patterns(make_repository: MakeRepository, fetching: Fetching) -> None:
    """Below 64 selected tasks git is asked for each by its path."""
    repository = make_repository()
    for name in (":x", "*", "t"):
        repository.task(name, {"environment/n": name})
    lock = fetching({"dataset": f"git+{repository.url}@{repository.commit()}"}).lock
    assert [row.name for row in lock.tasks] == ["*", ":x", "t"]


def nested(repository: Repository, depth: int, *, leaf: bytes = b"f") -> str:
    """A few objects that are 10 ** depth files of a commit."""
    tree = repository.tree(("100644", leaf, repository.git("hash-object", "-w", "--stdin", stdin=b"")))
    for _ in range(depth):
        tree = repository.tree(*[("40000", f"d{number}".encode(), tree) for number in range(10)])
    return tree


@pytest.mark.parametrize(("beside", "depth"), [(True, 40), (False, 40), (True, 6)])
def test_u41_trees_of_trees_without_end(
    make_repository: MakeRepository, fetching: Fetching, tmp_path: Path, beside: bool, depth: int
) -> None:
    """Where the dataset is, or elsewhere in the commit: git is ended at the bound, and what it said until then was not kept."""
    repository = make_repository()
    repository.task("good")
    repository.commit()
    good = ("40000", b"good", repository.git("rev-parse", "HEAD:good"))
    bomb = ("40000", b"bomb", nested(repository, depth))
    tasks = repository.tree(bomb, good) if beside else repository.tree(good)
    commit = repository.commit_tree(repository.tree(*([] if beside else [bomb]), ("40000", b"tasks", tasks)))
    # In a process of its own, whose memory is its own.
    script = """
import resource, sys
from pathlib import Path
from platoon.envs.harbor.fetch import fetch
from platoon.envs.harbor.options import HarborOptions
from platoon.envs.harbor.publish import HarborCache
from platoon.errors import ConfigError
options = HarborOptions.parse({"dataset": sys.argv[1], "select": {"name": "good"}})
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
try:
    fetch(options, Path(sys.argv[2]), HarborCache(Path(sys.argv[2], "harbor")))
except ConfigError as error:
    print(error)
print(max(resource.getrusage(who).ru_maxrss for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)) - before)
"""
    arguments = [sys.executable, "-c", script, f"git+{repository.url}@{commit}#tasks", str(tmp_path)]
    done = subprocess.run(arguments, capture_output=True, text=True, check=True, timeout=100)
    told, grown_kib = done.stdout.splitlines()
    assert f"{repository.url}: {commit}: holds more than 2000000 files and directories" in told
    # All of its paths are some 100 MB.
    assert int(grown_kib) < 60_000


def test_a_commit_just_within_the_bound(
    make_repository: MakeRepository, fetching: Fetching, monkeypatch: pytest.MonkeyPatch
) -> None:
    repository = make_repository()
    repository.task("good")
    commit = repository.commit()
    options = {"dataset": f"git+{repository.url}@{commit}"}
    # good, environment, tests, and four files.
    monkeypatch.setattr(git_listing, "ENTRY_LIMIT", 6)
    with pytest.raises(ConfigError, match="holds more than 6 files and directories"):
        fetching(options)
    monkeypatch.setattr(git_listing, "ENTRY_LIMIT", 7)
    assert fetching(options).lock.runnable == ("good",)


@pytest.mark.parametrize(
    ("bounds", "rule"),
    [
        ((1 << 20, 10_000), "has a path of more than 10000 bytes"),
        ((20_000, 1 << 20), "has paths of more than 20000 bytes together"),
    ],
)
def test_paths_without_end(
    make_repository: MakeRepository, fetching: Fetching, monkeypatch: pytest.MonkeyPatch, bounds: tuple[int, int], rule: str
) -> None:
    monkeypatch.setattr(git_listing, "LISTING_LIMIT_BYTES", bounds[0])
    monkeypatch.setattr(git_listing, "PATH_LIMIT_BYTES", bounds[1])
    repository = make_repository()
    blob = repository.git("hash-object", "-w", "--stdin", stdin=b"")
    commit = repository.commit_tree(repository.tree(("100644", b"n" * 100_000, blob)))
    with pytest.raises(ConfigError, match=rule):
        fetching({"dataset": f"git+{repository.url}@{commit}"})


def test_what_the_trees_tell_of_a_task_is_told_before_it_is_checked_out(
    make_repository: MakeRepository, fetching: Fetching, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With what only the files of others tell, all at once."""
    monkeypatch.setattr(content, "FILE_LIMIT", 50)
    repository = make_repository()
    repository.task("many", {f"tests/{number // 10}/f{number}": "of many" for number in range(60)})
    (repository.task("out") / "tests/link").symlink_to("../../../secret")
    commit = repository.commit()
    with pytest.raises(ConfigError) as caught:
        fetching({"dataset": f"git+{repository.url}@{commit}"})
    text = str(caught.value)
    assert "many: tests: the task holds more than 50 files" in text
    assert "out: tests/link: a link to ../../../secret leaves the task" in text
    assert repository.git("hash-object", "many/tests/0/f1") not in objects(fetching)


@pytest.mark.parametrize(
    ("place", "attributes"),
    [
        ("", "*.md text eol=crlf"),
        ("", "*.md ident"),
        ("", "*.md text working-tree-encoding=UTF-16"),
        ("", "[attr]odd ident text eol=crlf\n*.md odd"),
        ("", "*.md filter=shout"),
        ("tasks/", "* text=auto eol=crlf"),
        ("tasks/one/", "*.md crlf=input eol=crlf ident"),
    ],
)
def test_the_files_of_a_task_are_the_blobs_of_its_tree(
    make_repository: MakeRepository, fetching: Fetching, tmp_path: Path, place: str, attributes: str
) -> None:
    """Attributes above a task are in no tree of its own: what a cache knows of a tree would depend on which commit came first."""
    settings = tmp_path / "site.gitconfig"
    settings.write_text('[filter "shout"]\n\tsmudge = tr a-z A-Z\n')
    fetching.environment["PLATOON_GIT_CONFIG"] = str(settings)
    repository = make_repository()
    text = "one\ntwo\n$Id$\n"
    repository.task("tasks/one", {"instruction.md": text})
    repository.commit()
    # As any commit may hold it, whatever git would have made of the file.
    (repository.path / place / ".gitattributes").write_text(f"{attributes}\n")
    repository.git("-c", "core.attributesFile=/dev/null", "add", f"{place}.gitattributes")
    repository.git("commit", "-q", "-m", "attributes")
    commit = repository.git("rev-parse", "HEAD")
    (row,) = fetching({"dataset": f"git+{repository.url}@{commit}#tasks"}).lock.tasks
    assert (fetching.cache.task(row.digest) / "instruction.md").read_bytes() == text.encode()
