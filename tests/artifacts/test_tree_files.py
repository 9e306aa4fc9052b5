"""Listings of trees and digests of inputs and buffers against their twins and vectors."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from platoon import _native
from platoon.artifacts import digests
from tests.properties import examples
from tests.twins import input_digest as input_twin
from tests.twins import tree_files as tree_twin

pytestmark = pytest.mark.unit

VECTORS = json.loads((Path(__file__).resolve().parents[2] / "native/digest/input_vectors.json").read_text())
NAMES = st.sampled_from(["a", "b", "a-b", "a.c", "é", "A b", "Z"])
PATHS = st.lists(NAMES, min_size=1, max_size=3).map("/".join)
TEXTS = st.lists(st.sampled_from([b"a", b"b", b" ", b"\t", b"\n", b"\r", b"\r\n", b"\xef\xbb\xbf", b"\xff", b"\0"])).map(b"".join)


@pytest.mark.parametrize("vector", VECTORS, ids=lambda vector: repr(bytes(vector["bytes"])))
def test_input_vectors(vector: dict[str, object], tmp_path: Path) -> None:
    data = bytes(vector["bytes"])  # type: ignore[call-overload]
    (tmp_path / "file").write_bytes(data)
    assert digests.input_digests(tmp_path, ["file"]) == [f"sha256:{vector['digest']}"]
    assert input_twin.input_digest(data) == vector["digest"]


@examples(200)
@given(st.lists(TEXTS, max_size=4))
def test_input_digests_agree_with_the_twin(tmp_path_factory: pytest.TempPathFactory, texts: list[bytes]) -> None:
    root = tmp_path_factory.mktemp("inputs")
    paths = [f"d/{number}" for number in range(len(texts))]
    (root / "d").mkdir()
    for path, data in zip(paths, texts, strict=True):
        (root / path).write_bytes(data)
    assert digests.input_digests(root, paths) == [f"sha256:{input_twin.input_digest(data)}" for data in texts]


@examples(60)
@given(st.dictionaries(PATHS, st.tuples(st.binary(max_size=5), st.sampled_from([0o644, 0o755, 0o610])), max_size=8))
def test_listings_agree_with_the_twin(tmp_path_factory: pytest.TempPathFactory, files: dict[str, tuple[bytes, int]]) -> None:
    root = tmp_path_factory.mktemp("tree")
    for path, (data, mode) in files.items():
        target = root / path
        if any(parent.is_file() for parent in target.parents) or target.is_dir():
            continue
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(data)
        target.chmod(mode)
    rows = [(row.path, digests.hex_of(row.digest), row.size_bytes, row.is_executable) for row in digests.tree_files(root)]
    assert rows == tree_twin.tree_files(root)
    assert digests.tree_files(root, [row[0] for row in reversed(rows)]) == digests.tree_files(root, threads=2)


TARGETS = ["a", "b", ".", "..", "../a", "../a/b", "../../c", "../../../x", "/etc/hostname"]


@examples(60)
@given(st.dictionaries(PATHS, st.none() | st.sampled_from(TARGETS), max_size=8))
def test_names_agree_with_the_twin(tmp_path_factory: pytest.TempPathFactory, names: dict[str, str | None]) -> None:
    """A file or a link each."""
    root = tmp_path_factory.mktemp("tree")
    (root / "c").touch()
    (root / "below").mkdir()
    for path, target in names.items():
        place = root / "below" / path
        if any(parent.is_symlink() or parent.is_file() for parent in place.parents) or place.exists():
            continue
        place.parent.mkdir(parents=True, exist_ok=True)
        if target is None:
            place.touch()
        else:
            place.symlink_to(target)
    for below in ("", "below"):
        assert digests.tree_names(root, below) == tree_twin.tree_names(root, below)
        assert digests.tree_names(root, below, threads=2) == tree_twin.tree_names(root, below)


def test_buffers_end_to_end() -> None:
    array = np.arange(300_000, dtype="<f4")
    parts = [b"one", array.data, memoryview(b"two"), bytearray(b"three"), b""]
    assert digests.sha256_bytes(*parts) == f"sha256:{hashlib.sha256(b''.join(parts)).hexdigest()}"
    assert digests.sha256_bytes() == digests.sha256_bytes(b"") == f"sha256:{hashlib.sha256(b'').hexdigest()}"
    with pytest.raises(_native.ShapeError, match="not contiguous"):
        digests.sha256_bytes(array.data[::2])
    with pytest.raises(TypeError):
        digests.sha256_bytes("text")  # type: ignore[arg-type]


@pytest.mark.parametrize("path", ["", "/etc/hostname", "../secret", "link", "directory", "absent", "a\0b"])
def test_names_lead_to_files_of_the_tree(tmp_path: Path, path: str) -> None:
    (tmp_path / "secret").write_text("s")
    (tmp_path / "tree/directory").mkdir(parents=True)
    (tmp_path / "tree/link").symlink_to("../secret")
    for read in (digests.tree_files, digests.input_digests):
        with pytest.raises(digests.DataError):
            read(tmp_path / "tree", [path])


def test_verification_names_the_first_difference_of_each_task(tmp_path: Path) -> None:
    for name in ("right", "wrong", "more"):
        (tmp_path / name / "tests").mkdir(parents=True)
        (tmp_path / name / "task.toml").write_text("")
        (tmp_path / name / "tests/test.sh").write_text("#!/bin/sh\n")
    known = digests.hashed_task(tmp_path / "right")
    files = {file.path: file.digest for file in known.files}
    (tmp_path / "wrong/tests/test.sh").write_text("echo 1 > /logs/verifier/reward.txt\n")
    (tmp_path / "more/tests/extra").write_text("")
    (tmp_path / "link").symlink_to("right")
    tasks = [digests.ExpectedTask(tmp_path / name, known.digest, files) for name in ("right", "wrong", "more", "absent", "link")]
    found = digests.verify_tasks(tasks, threads=1)
    assert digests.verify_tasks(tasks, threads=3) == found
    assert found[0] is None
    for text, part in zip(
        found[1:], ("wrong/tests/test.sh: sha256:", "more/tests/extra: not expected", "absent: ", "link: "), strict=True
    ):
        assert text is not None and part in text
    # As the system says it, without the number that programs know it by.
    assert found[3] == f"{tmp_path}/absent: No such file or directory"
    (bare,) = digests.verify_tasks([digests.ExpectedTask(tmp_path / "wrong", known.digest)])
    assert bare is not None and f"where {known.digest} is expected" in bare
    with pytest.raises(digests.DataError, match="64 lower-case hex"):
        digests.verify_tasks([digests.ExpectedTask(tmp_path, "sha256:0")])
