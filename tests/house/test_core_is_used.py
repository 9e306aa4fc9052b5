"""The product calls no second implementation of what the core does, and hands it arrays, not lists made of them."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

pytestmark = pytest.mark.unit

# Readers of tars, squashfs and compressed streams; the runtimes' own programs build images, none lists what is in one.
READERS = {"tarfile", "lzma", "bz2", "zstandard", "libarchive", "PySquashfsImage"}
LISTING_PROGRAMS = {"unsquashfs", "rdsquashfs", "sqfscat", "bsdtar"}


Nodes = list[tuple[str, ast.AST]]


@pytest.fixture(scope="module")
def nodes(checkout: Path) -> Nodes:
    """Every node of every module of the product."""
    paths = sorted((checkout / "platoon").rglob("*.py"))
    return [(str(path.relative_to(checkout)), node) for path in paths for node in ast.walk(ast.parse(path.read_text()))]


def called(node: ast.Call) -> str:
    return node.func.attr if isinstance(node.func, ast.Attribute) else node.func.id if isinstance(node.func, ast.Name) else ""


def is_core(node: ast.AST) -> bool:
    """A call of `_native.something`."""
    return (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and isinstance(node.func.value, ast.Name)
        and node.func.value.id == "_native"
    )


def test_no_other_reader_is_imported(nodes: Nodes) -> None:
    found = {
        (place, name)
        for place, node in nodes
        if isinstance(node, ast.Import | ast.ImportFrom)
        for name in ([node.module or ""] if isinstance(node, ast.ImportFrom) else [alias.name for alias in node.names])
        if name.partition(".")[0] in READERS
    }
    assert found == set()


def test_no_program_that_lists_images_is_run(nodes: Nodes) -> None:
    found = {(place, node.value) for place, node in nodes if isinstance(node, ast.Constant) and node.value in LISTING_PROGRAMS}
    assert found == set()


def test_files_are_hashed_by_the_core(nodes: Nodes) -> None:
    """hashlib takes what lies in memory: nothing gives it a file, or what a file is read to."""
    found = {
        (place, ast.unparse(node))
        for place, node in nodes
        if isinstance(node, ast.Call)
        and (called(node) == "file_digest" and ast.unparse(node.func).startswith("hashlib."))
        | (
            called(node) in ("sha256", "sha1", "update", "sha256_bytes")
            and any(isinstance(inner, ast.Call) and called(inner) in ("read", "read_bytes") for inner in node.args)
        )
    }
    assert found == set()


def test_rows_are_counted_and_grouped_by_the_core(nodes: Nodes) -> None:
    """numpy's reductions over groups of entries have a kernel each."""
    reductions = {"reduceat", "bincount", "unique", "isin", "searchsorted"}
    found = {
        (place, ast.unparse(node))
        for place, node in nodes
        if place.startswith(("platoon/rows/", "platoon/train/")) and isinstance(node, ast.Call) and called(node) in reductions
    }
    assert found == set()


def test_the_core_is_given_arrays(nodes: Nodes) -> None:
    """A name, a path and a number a policy or a layer may stand in a list; what grows with tokens, rows and calls may not."""
    calls = [(place, node) for place, node in nodes if is_core(node)]
    assert len(calls) > 40
    found = {
        (place, ast.unparse(node))
        for place, node in calls
        for inner in ast.walk(node)
        if isinstance(inner, ast.Call) and called(inner) == "tolist"
    }
    assert found == set()
