"""The workflow as a wheel carries it: links to the checkout's folders, which packaging turns into copies.

`snakefile()` is the workflow to run when the working directory is no checkout of its own.
"""

from __future__ import annotations

from pathlib import Path


def snakefile() -> Path:
    """The Snakefile of this installation; its includes and profiles lie beside it."""
    return Path(__file__).parent / "workflow" / "Snakefile"
