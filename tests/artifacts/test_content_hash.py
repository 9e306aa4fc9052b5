"""The content hash against its vectors, its twin and the library that the reference packager uses."""

from __future__ import annotations

import hashlib
import json
import os
import re
import resource
import warnings
from pathlib import Path
from typing import Any

import pathspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from platoon import _native
from platoon.artifacts import digests
from tests.properties import examples
from tests.twins import content_hash as twin

pytestmark = pytest.mark.unit

ROOT = Path(__file__).resolve().parents[2]
VECTORS = json.loads((ROOT / "native/digest/vectors.json").read_text())

NAMES = st.sampled_from(["a", "b", "ab", "a.c", "x~", "m.pyc", "__pycache__", "[a]", "!n", "#h", "é", "A b "])
PATHS = st.lists(NAMES, min_size=1, max_size=4).map("/".join)
PIECES = st.sampled_from(
    [
        "a",
        "b",
        "ab",
        "*",
        "**",
        "?",
        "/",
        "//",
        "[a-c]",
        "[!a]",
        "[^b]",
        "[]",
        "[]a]",
        "[+-:]",
        "[",
        "]",
        "\\",
        "\\*",
        "!",
        "#",
        " ",
        "\\ ",
        ".c",
        "é",
        "\t",
    ]
)
PATTERNS = st.lists(PIECES, min_size=1, max_size=6).map("".join)
IGNORE_TEXTS = st.lists(PATTERNS, max_size=4).map("\n".join)


def write_tree(root: Path, files: dict[str, str], links: dict[str, str] | None = None) -> None:
    for path, text in files.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_bytes(text.encode())
    for path, target in (links or {}).items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).symlink_to(target)


@pytest.mark.parametrize("vector", VECTORS["vectors"], ids=lambda vector: vector["name"])
def test_vectors(vector: dict[str, Any], tmp_path: Path) -> None:
    for directory in vector["directories"]:
        (tmp_path / directory).mkdir()
    write_tree(tmp_path, vector["files"], vector["links"])
    assert VECTORS["rule"] == digests.CONTENT_HASH_RULE
    assert digests.content_hash(tmp_path) == f"sha256:{vector['digest']}"
    assert [file.path for file in digests.hashed_task(tmp_path).files] == vector["order"]
    assert twin.content_hash(tmp_path) == (vector["digest"], vector["order"])


def outcome(call: Any, *arguments: Any) -> Any:
    """What a call gives, or that it refuses."""
    try:
        return call(*arguments)
    except (ValueError, re.error):
        return "refused"


def library_verdict(text: str, path: str) -> bool:
    with warnings.catch_warnings():
        # A class such as `[[` is legal here and only frowned on by `re`.
        warnings.simplefilter("ignore", FutureWarning)
        return pathspec.PathSpec.from_lines("gitignore", text.splitlines()).match_file(path)


@examples(400)
@given(IGNORE_TEXTS, PATHS)
def test_patterns_agree_with_twin_and_library(text: str, path: str) -> None:
    ours = outcome(_native.is_ignored, text, path)
    assert ours == outcome(twin.is_ignored, text, path)
    assert ours == outcome(library_verdict, text, path)


@examples(60)
@given(
    st.dictionaries(
        st.tuples(st.sampled_from(["", "environment/", "tests/", "steps/one/", "other/"]), PATHS), st.text(max_size=3), max_size=8
    ),
    st.none() | IGNORE_TEXTS,
)
def test_trees_agree_with_twin(
    tmp_path_factory: pytest.TempPathFactory, files: dict[tuple[str, str], str], ignore: str | None
) -> None:
    root = tmp_path_factory.mktemp("task")
    for (folder, path), text in files.items():
        target = root / folder / path
        if any(parent.is_file() for parent in target.parents) or target.is_dir():
            continue
        write_tree(root, {folder + path: text})
    if ignore is not None:
        (root / ".gitignore").write_text(ignore, "utf-8")
    expected = outcome(twin.content_hash, root)
    if expected == "refused":
        with pytest.raises(digests.DataError, match=r"\.gitignore: line \d+"):
            digests.content_hash(root)
        return
    assert (digests.content_hash(root), [file.path for file in digests.hashed_task(root).files]) == (
        f"sha256:{expected[0]}",
        expected[1],
    )


def test_neither_modes_nor_times_nor_order_of_creation_enter(tmp_path: Path) -> None:
    files = {"task.toml": "", "tests/test.sh": "x", "tests/a/b": "y", "environment/z": ""}
    write_tree(tmp_path / "one", files)
    write_tree(tmp_path / "two", dict(reversed(files.items())))
    (tmp_path / "two/tests/test.sh").chmod(0o755)
    os.utime(tmp_path / "two/tests/test.sh", (0, 0))
    (tmp_path / "two/solution").mkdir()
    assert digests.content_hash(tmp_path / "one") == digests.content_hash(tmp_path / "two")


@pytest.mark.parametrize("target", ["/etc/hostname", "../../secret", "../tests/inner"])
def test_a_link_out_of_the_task_is_refused_by_name(tmp_path: Path, target: str) -> None:
    (tmp_path / "secret").write_text("s")
    links = {"environment/link": target, "tests/inner": "../../secret"}
    write_tree(tmp_path / "task", {"task.toml": ""}, links)
    with pytest.raises(digests.DataError, match=r"environment/link: a link to .* leads out of the task directory"):
        digests.content_hash(tmp_path / "task")


def test_refusals_are_typed(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError) as caught:
        digests.content_hash(tmp_path / "absent")
    assert caught.value.filename == str(tmp_path / "absent")
    with pytest.raises(digests.DataError, match="not a regular file"):
        digests.sha256_file(tmp_path)
    write_tree(tmp_path, {"real/x": ""}, {"tests": "real"})
    with pytest.raises(digests.UnsupportedError, match="tests: a link stands"):
        digests.content_hash(tmp_path)


def test_file_digests(tmp_path: Path) -> None:
    path = tmp_path / "file"
    data = bytes(range(256)) * 3000
    path.write_bytes(data)
    assert digests.sha256_file(path) == digests.sha256_bytes(data)
    assert digests.file_digest(path) == digests.HashedFile(str(path), digests.sha256_bytes(data), len(data))


def test_git_blobs(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"")
    assert digests.git_blob_sha1(path) == "e69de29bb2d1d6434b8b29ae775ad8c2e48c5391"
    data = bytes(range(256)) * 3000
    path.write_bytes(data)
    expected = hashlib.sha1(b"blob %d\0" % len(data) + data, usedforsecurity=False).hexdigest()
    assert digests.git_blob_sha1(path) == expected


def test_package_digest() -> None:
    a, b, c = (f"sha256:{letter * 64}" for letter in "abc")
    assert digests.package_digest([b, a]) == "sha256:b1da1a1755748f4703baeaa4ae58e2f42a25bd33aa67a0db9fd84d6b8767c492"
    assert (
        digests.package_digest([b, a], {"metric.py": c})
        == "sha256:ba78bd7936887d150126adc262af268fb81226f47c71f992bbb363ccc96c96f5"
    )
    with pytest.raises(digests.DataError):
        digests.package_digest(["a" * 64])


def test_descriptors_are_few_whatever_the_tree(tmp_path: Path) -> None:
    for number in range(120):
        write_tree(tmp_path, {f"tests/d{number}/{'deep/' * 20}f": "x", f"tests/d{number}/e{number}/f": "y"})
    expected = digests.content_hash(tmp_path, threads=1)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    used = max(int(path.name) for path in Path("/proc/self/fd").iterdir())
    resource.setrlimit(resource.RLIMIT_NOFILE, (used + 80, hard))
    try:
        assert [digests.content_hash(tmp_path, threads=threads) for threads in (1, 2)] == [expected] * 2
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
