"""Files of git repositories that git LFS keeps, with git-lfs itself and repositories whose objects lie beside them."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from platoon.errors import ConfigError
from tests.envs.harbor.fakes.repositories import Repository
from tests.envs.harbor.sources.conftest import Fetching, objects

MakeRepository = Callable[..., Repository]

ATTRIBUTES = "*.bin filter=lfs diff=lfs merge=lfs -text\n"
# Each means something to an attribute's pattern, to `git lfs pull --include` or to a shell.
NAMES = ("plain.bin", "a,b.bin", "*.bin", "[x] y.bin", '"q".bin', "#1.bin", "!no.bin", "back\\slash.bin", "новый.bin")


def pointer(content: str) -> str:
    oid = hashlib.sha256(content.encode()).hexdigest()
    return f"version https://git-lfs.github.com/spec/v1\noid sha256:{oid}\nsize {len(content.encode())}\n"


def keep(repository: Repository, content: str) -> None:
    """Puts an object where git-lfs looks for it behind a `file://` address."""
    oid = hashlib.sha256(content.encode()).hexdigest()
    kept = repository.path / ".git/lfs/objects" / oid[:2] / oid[2:4] / oid
    kept.parent.mkdir(parents=True)
    kept.write_text(content)


@pytest.mark.tools
def test_files_come_in_the_place_of_their_pointers_whatever_they_are_called(
    make_repository: MakeRepository, fetching: Fetching
) -> None:
    repository = make_repository()
    pointers = {f"environment/{name}": pointer(f"of {name}") for name in NAMES}
    repository.task("tasks/one", {**pointers, ".gitattributes": ATTRIBUTES, "environment/crlf.txt": "a\r\n"})
    repository.task("tasks/two", {"environment/big.bin": pointer("of two")})
    for name in NAMES:
        keep(repository, f"of {name}")
    commit = repository.commit()
    options = {"dataset": f"git+{repository.url}@{commit}#tasks", "select": {"name": "one"}}
    (row,) = fetching(options).lock.tasks
    task = fetching.cache.task(row.digest)
    assert {name: (task / "environment" / name).read_text() for name in NAMES} == {name: f"of {name}" for name in NAMES}
    assert (task / "environment/crlf.txt").read_bytes() == b"a\r\n"
    # Neither a blob nor an object of a task that was not selected.
    assert repository.git("rev-parse", "HEAD:tasks/two/environment/big.bin") not in objects(fetching)


@pytest.mark.tools
def test_attributes_of_any_directory_count(make_repository: MakeRepository, fetching: Fetching) -> None:
    repository = make_repository()
    (repository.path / ".gitattributes").write_text(ATTRIBUTES)
    files = {
        "environment/a.bin": pointer("large"),
        "environment/.gitattributes": "plain.bin !filter\n",
        "environment/plain.bin": "x",
    }
    repository.task("tasks/one", files)
    keep(repository, "large")
    (row,) = fetching({"dataset": f"git+{repository.url}@{repository.commit()}#tasks"}).lock.tasks
    assert (fetching.cache.task(row.digest) / "environment/a.bin").read_text() == "large"


@pytest.mark.tools
def test_a_pointer_that_no_attribute_gives_to_lfs_is_told_as_that(make_repository: MakeRepository, fetching: Fetching) -> None:
    """Every clone has the pointer, so its file in its place would be another task."""
    repository = make_repository()
    files = {"environment/a.bin": pointer("of a"), "environment/data": pointer("large"), ".gitattributes": ATTRIBUTES}
    repository.task("one", files)
    keep(repository, "of a")
    keep(repository, "large")
    with pytest.raises(ConfigError, match=r"one: environment/data: is a pointer of git LFS, and no attribute of the commit"):
        fetching({"dataset": f"git+{repository.url}@{repository.commit()}"})


@pytest.mark.tools
def test_a_file_that_its_server_lacks_fails_the_fetch_with_what_git_lfs_says(
    make_repository: MakeRepository, fetching: Fetching
) -> None:
    repository = make_repository()
    files = {f"environment/{name}.bin": pointer(f"of {name}") for name in ("a", "gone", "z")}
    repository.task("one", {**files, ".gitattributes": ATTRIBUTES})
    keep(repository, "of a")
    keep(repository, "of z")
    wanted = r"one: environment/gone\.bin: is a pointer to a file that git LFS did not give: .*remote missing object"
    with pytest.raises(ConfigError, match=wanted):
        fetching({"dataset": f"git+{repository.url}@{repository.commit()}"})


@pytest.mark.process
def test_where_git_has_no_lfs_a_pointer_fails_the_fetch(
    make_repository: MakeRepository, fetching: Fetching, tmp_path: Path
) -> None:
    repository = make_repository()
    repository.task("one", {"environment/big.bin": pointer("large"), ".gitattributes": ATTRIBUTES})
    keep(repository, "large")
    # Whatever is installed here, git finds another first.
    absent = tmp_path / "bin" / "git-lfs"
    absent.parent.mkdir()
    absent.write_text("#!/bin/sh\necho git-lfs: not found >&2\nexit 127\n")
    absent.chmod(0o755)
    fetching.environment["PATH"] = f"{absent.parent}{os.pathsep}{fetching.environment['PATH']}"
    wanted = r"one: environment/big\.bin: is a pointer to a file that git LFS did not give: .*install git-lfs"
    with pytest.raises(ConfigError, match=wanted):
        fetching({"dataset": f"git+{repository.url}@{repository.commit()}"})
