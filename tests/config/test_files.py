"""Paths that are written for other machines to read."""

from __future__ import annotations

from pathlib import Path

import pytest

from platoon.config.addresses import is_address
from platoon.config.files import named_path, relative_path

pytestmark = pytest.mark.unit


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("clone/data", "../data"),
        ("clone/configs", "."),
        ("clone/configs/data", "data"),
        ("elsewhere/x", "../../elsewhere/x"),
        ("clone/configs/~x", "./~x"),
        ("clone/configs/a:b", "./a:b"),
        ("clone/configs/git+a", "./git+a"),
        # Above where a link leads is not above the link.
        ("linked/configs/data", "data"),
        ("linked/data", "../data"),
    ],
)
def test_relative_to_a_directory(tmp_path: Path, path: str, expected: str) -> None:
    (tmp_path / "clone/configs").mkdir(parents=True)
    (tmp_path / "linked").symlink_to("clone")
    base = tmp_path / "clone/configs"
    found = relative_path(tmp_path / path, base)
    assert found == expected
    assert named_path(found, base).resolve() == (tmp_path / path).resolve()
    assert not is_address(found)


def test_a_base_behind_a_link(tmp_path: Path) -> None:
    """Lexically the data lies beside the folder; for the system the folder lies deeper."""
    (tmp_path / "deep/er/configs").mkdir(parents=True)
    (tmp_path / "data").mkdir()
    (tmp_path / "configs").symlink_to("deep/er/configs")
    found = relative_path(tmp_path / "data", tmp_path / "configs")
    assert found == "../../../data"
    assert named_path(found, tmp_path / "configs").samefile(tmp_path / "data")
    assert relative_path(tmp_path / "configs/x", tmp_path / "configs") == "x"
