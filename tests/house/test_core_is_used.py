"""The product calls no second implementation of what the core does, and hands it arrays, not lists made of them."""

from __future__ import annotations

import ast
from collections.abc import Callable
from pathlib import Path

import pytest

pytestmark = pytest.mark.unit

# Readers of tars, squashfs and compressed streams; the runtimes' own programs build images, none lists what is in one.
READERS = {"tarfile", "lzma", "bz2", "zstandard", "libarchive", "PySquashfsImage"}
LISTING_PROGRAMS = {"unsquashfs", "rdsquashfs", "sqfscat", "bsdtar"}
READS = {"read", "read_bytes", "read_text", "read_regular"}

Modules = dict[str, ast.Module]
Nodes = list[tuple[str, ast.AST]]


@pytest.fixture(scope="module")
def modules(checkout: Path) -> Modules:
    """Every module of the product."""
    paths = sorted((checkout / "platoon").rglob("*.py"))
    return {str(path.relative_to(checkout)): ast.parse(path.read_text()) for path in paths}


@pytest.fixture(scope="module")
def nodes(modules: Modules) -> Nodes:
    return [(place, node) for place, module in modules.items() for node in ast.walk(module)]


def called(node: ast.AST) -> str:
    """The last name of what a call calls."""
    if not isinstance(node, ast.Call):
        return ""
    return node.func.attr if isinstance(node.func, ast.Attribute) else node.func.id if isinstance(node.func, ast.Name) else ""


def calls_of(tree: ast.AST, module: str) -> list[ast.Call]:
    """The calls of `module.something` below a node."""
    return [node for node in ast.walk(tree) if isinstance(node, ast.Call) and is_named(owner(node), {module})]


def owner(call: ast.Call) -> ast.expr | None:
    """What a method is called of."""
    return call.func.value if isinstance(call.func, ast.Attribute) else None


def is_named(node: ast.expr | None, names: set[str]) -> bool:
    return isinstance(node, ast.Name) and node.id in names


def assigned(tree: ast.AST, values: Callable[[ast.expr], bool]) -> set[str]:
    """Names that a statement or a `:=` below a node gives such a value."""
    found: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign | ast.AnnAssign | ast.NamedExpr) and node.value is not None and values(node.value):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            found |= {name.id for target in targets for name in ast.walk(target) if isinstance(name, ast.Name)}
    return found


def is_own_text(node: ast.expr) -> bool:
    """Text that is encoded where it stands, or a constant: never what a file was read to."""
    if isinstance(node, ast.Constant):
        return True
    return called(node) == "encode" and not any(called(inner) in READS for inner in ast.walk(node))


def hashed(module: ast.Module) -> list[ast.Call]:
    """The calls that give something to hashlib: those that make a hash, and the updates of it."""
    makers = calls_of(module, "hashlib")
    names = assigned(module, lambda value: value in makers)
    updates = [node for node in ast.walk(module) if isinstance(node, ast.Call) and called(node) == "update"]
    return [*makers, *(call for call in updates if owner(call) in makers or is_named(owner(call), names))]


def lists_given(function: ast.AST) -> list[str]:
    """What the core is given that holds a `tolist()`, at once or by a name."""

    def is_list(value: ast.expr) -> bool:
        return any(called(inner) == "tolist" for inner in ast.walk(value))

    names = assigned(function, is_list)
    return [
        ast.unparse(call)
        for call in calls_of(function, "_native")
        for argument in [*call.args, *(keyword.value for keyword in call.keywords)]
        if is_list(argument) or any(isinstance(inner, ast.expr) and is_named(inner, names) for inner in ast.walk(argument))
    ]


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


def test_bytes_are_hashed_by_the_core(modules: Modules) -> None:
    """hashlib takes text that a module makes, encoded on the spot; all bytes go through `platoon.artifacts.digests`."""
    found = {
        (place, ast.unparse(call))
        for place, module in modules.items()
        for call in hashed(module)
        if called(call) not in ("sha256", "update")
        or not all(map(is_own_text, [*call.args, *(item.value for item in call.keywords)]))
    }
    assert found == set()


def test_hashlib_is_called_by_its_name(nodes: Nodes) -> None:
    """So that the test above sees every call."""
    found = {
        (place, ast.unparse(node))
        for place, node in nodes
        if (isinstance(node, ast.ImportFrom) and node.module in ("hashlib", "_hashlib", "_sha2"))
        or (isinstance(node, ast.Import) and any(alias.name == "hashlib" and alias.asname for alias in node.names))
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


def test_the_core_is_given_arrays(modules: Modules) -> None:
    """A name, a path and a number a policy or a layer may stand in a list; what grows with tokens, rows and calls may not."""
    assert sum(len(calls_of(module, "_native")) for module in modules.values()) > 40
    found = {
        (place, call)
        for place, module in modules.items()
        for node in ast.walk(module)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        for call in lists_given(node)
    }
    assert found == set()


@pytest.mark.parametrize(
    "code",
    [
        "hashlib.sha256(data)",
        "hashlib.sha256(path.read_text().encode())",
        "digest = hashlib.sha256()\ndigest.update(data)",
        "hashlib.sha256(b'').update(data)",
        "hashlib.new('sha256', data)",
        "hashlib.file_digest(file, 'sha256')",
    ],
)
def test_what_is_not_text_is_seen(code: str) -> None:
    with pytest.raises(AssertionError):
        test_bytes_are_hashed_by_the_core({"made": ast.parse(code)})
    test_bytes_are_hashed_by_the_core({"made": ast.parse("digest = hashlib.sha256(b'')\ndigest.update(text.encode())")})


@pytest.mark.parametrize(
    "body", ["_native.f(a.tolist())", "b = a.tolist()\n _native.f(x=b)", "if (c := [1, *a.tolist()]):\n  _native.f([c])"]
)
def test_a_list_is_seen_behind_a_name(body: str) -> None:
    assert lists_given(ast.parse(f"def made():\n {body}")) != []
    assert lists_given(ast.parse("def made():\n b = a.tolist()\n _native.f(a)")) == []
