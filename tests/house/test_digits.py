"""Digits and letters are those of ASCII: `\\d` and `isdigit` take any script's, and a Kelvin sign is a K where case is ignored."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

pytestmark = pytest.mark.unit

WIDE = re.compile(r"\\d|\.isdigit\(|\.isdecimal\(|re\.IGNORECASE|re\.I\b")
# What they match is of this program's or the kernel's making, or a match only hides or refuses.
EXEMPT = {
    "config/credentials.py",
    "envs/harbor/sources/git.py",
    "envs/harbor/sources/git_command.py",
    "pipeline/job_lines.py",
    "pipeline/prepare.py",
    "sandbox/process/killing.py",
}


def test_digits_and_letters_are_of_ascii(checkout: Path) -> None:
    root = checkout / "platoon"
    found = {
        str(path.relative_to(root))
        for path in root.rglob("*.py")
        for line in path.read_text().splitlines()
        if WIDE.search(line) and "ascii" not in line.lower()
    }
    assert found == EXEMPT
