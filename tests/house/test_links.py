"""`make setup` and the links to the profiles: what it makes, mends and leaves alone."""

from __future__ import annotations

import errno
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.setup.links import PROFILES, mend

pytestmark = pytest.mark.unit

# What may stand where a link belongs, and is mended.
MENDED: dict[str, Callable[[Path], object]] = {
    "nothing": lambda place: None,
    "the link": lambda place: place.symlink_to(f"profiles/{place.name}"),
    "a link elsewhere": lambda place: place.symlink_to("profiles"),
    "a link to nothing": lambda place: place.symlink_to("gone"),
    "what git writes without links": lambda place: place.write_text(f"profiles/{place.name}"),
    "the same with a line end": lambda place: place.write_text(f"profiles/{place.name}\r\n"),
}
REFUSED: dict[str, tuple[Callable[[Path], object], str]] = {
    "a folder": (Path.mkdir, "a folder stands where the link to profiles/slurm belongs"),
    "a profile of one's own": (lambda place: place.write_text("executor: slurm\n"), "a file stands where the link"),
    "a file of another kind": (lambda place: place.write_bytes(b"\xff" * 10_000), "a file stands where the link"),
}


@pytest.mark.parametrize("found", MENDED)
def test_a_link_that_is_missing_or_leads_elsewhere_is_mended(found: str, tmp_path: Path) -> None:
    for name in PROFILES:
        MENDED[found](tmp_path / name)
    assert mend(tmp_path) == []
    assert {path.name: str(path.readlink()) for path in tmp_path.iterdir()} == {name: f"profiles/{name}" for name in PROFILES}


@pytest.mark.parametrize("found", REFUSED)
def test_what_may_be_somebodys_is_named_and_left_alone(found: str, tmp_path: Path) -> None:
    make, told = REFUSED[found]
    make(tmp_path / "slurm")
    [fault] = mend(tmp_path)
    assert fault.startswith(f"slurm: {told}") and "move it away and run `make setup`" in fault
    assert not (tmp_path / "slurm").is_symlink() and (tmp_path / "local").is_symlink()


def test_where_no_link_can_be_made_the_profile_is_named_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(path: Path, target: Path) -> None:
        raise OSError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(Path, "symlink_to", refused)
    assert mend(tmp_path) == [
        f"{name}: cannot be made a link to profiles/{name}: Operation not permitted (say --profile profiles/{name} instead)"
        for name in PROFILES
    ]
