"""Checks and mends the links that let `--profile slurm` and `--profile local` work as typed."""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PROFILES = ("local", "slurm")


def mend(root: Path) -> list[str]:
    """Makes each link that is missing or leads elsewhere; returns what stands in the way of one, a line each."""
    return [fault for name in PROFILES if (fault := _mend(root / name, Path("profiles") / name)) is not None]


def _mend(link: Path, target: Path) -> str | None:
    if link.is_symlink() and link.readlink() == target:
        return None
    if not (link.is_symlink() or _is_text_of(link, target)) and link.exists():
        kind = "folder" if link.is_dir() else "file"
        return f"{link.name}: a {kind} stands where the link to {target} belongs (move it away and run `make setup`)"
    made = link.with_name(f".{link.name}.new")
    try:
        made.unlink(missing_ok=True)
        made.symlink_to(target)
        made.replace(link)
    except OSError as error:
        return f"{link.name}: cannot be made a link to {target}: {error.strerror} (say --profile {target} instead)"
    return None


def _is_text_of(path: Path, target: Path) -> bool:
    """Whether a file is what git writes in place of a link where it may make none."""
    expected = str(target).encode()
    return path.is_file() and path.stat().st_size <= len(expected) + 2 and path.read_bytes().rstrip(b"\r\n") == expected


if __name__ == "__main__":
    sys.exit("\n".join(mend(ROOT)) or 0)
