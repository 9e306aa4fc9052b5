"""Checks and mends the links that let `--profile slurm` and `--profile local` work as typed."""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PROFILES = ("local", "slurm")


def mend(root: Path) -> list[str]:
    """Makes each missing link; returns what stands in the way of one, a line each."""
    faults = []
    for name in PROFILES:
        link, target = root / name, Path("profiles") / name
        if link.is_symlink():
            if link.readlink() != target:
                faults.append(f"{name}: links to {link.readlink()}, not to {target} (remove it and run `make setup`)")
        elif link.exists():
            faults.append(f"{name}: stands where the link to {target} belongs (move it away and run `make setup`)")
        else:
            link.symlink_to(target)
    return faults


if __name__ == "__main__":
    sys.exit("\n".join(mend(ROOT)) or 0)
