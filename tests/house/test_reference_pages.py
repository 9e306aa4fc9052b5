"""Tables in the docs and indexes of folders say what the code says."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import platoon
from platoon import exits
from platoon.cli.main import COMMANDS

pytestmark = pytest.mark.unit

INDEXED = ("platoon", "native")


def test_exit_codes(checkout: Path) -> None:
    rows = re.findall(r"^\| (\d+) \| (.+) \|$", (checkout / "docs/reference/exits.md").read_text(), re.MULTILINE)
    assert {int(code): meaning for code, meaning in rows} == exits.MEANINGS


@pytest.mark.parametrize("folder", INDEXED)
def test_index_names_every_entry(checkout: Path, folder: str) -> None:
    """Each package, module or crate of a folder has one line in its README, and no line names what is not there."""
    text = (checkout / folder / "README.md").read_text()
    named = set(re.findall(r"^\| `([\w./-]+)` \|", text, re.MULTILINE))
    hidden = ("__init__.py", "__pycache__", "README.md", "_native.pyi", "target")
    present = {
        path.name
        for path in (checkout / folder).iterdir()
        if path.name not in hidden and not path.name.startswith("_native") and path.suffix in ("", ".py")
    }
    assert named == present


def test_the_index_of_the_docs_names_every_page(checkout: Path) -> None:
    linked = set(re.findall(r"\]\(([\w./-]+\.md)\)", (checkout / "docs/README.md").read_text()))
    pages = {str(path.relative_to(checkout / "docs")) for path in (checkout / "docs").glob("*/*.md")}
    assert linked == {page for page in pages if not page.startswith("adr/")}


def test_public_names(checkout: Path) -> None:
    """The public names of the package are a snapshot: a change is seen in review."""
    lines = (checkout / "tests/public_names.txt").read_text().split()
    assert lines == sorted(f"platoon.{name}" for name in platoon.__all__)
    for name in platoon.__all__:
        assert getattr(platoon, name) is not None


def test_every_command_exists() -> None:
    from platoon.cli.main import platoon as group

    for name in COMMANDS:
        command = group.get_command(None, name)  # type: ignore[arg-type]  because the group reads no context
        assert command is not None
        assert command.name == name
        assert command.help, f"platoon {name} says nothing of itself"
