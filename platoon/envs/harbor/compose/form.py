"""What compose refuses in a file's form whatever its keys mean, and a plan would not notice: nulls, repeated items, wrong types.

Compose validates a file against a schema before it reads it; the rules here are those of the schema that reading does not imply.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from platoon.envs.harbor.compose.errors import ComposeError
from platoon.envs.harbor.compose.shapes import shape_problems
from platoon.envs.harbor.compose.values import kind_of

# Mappings of names to values, in which a name may stand alone.
_NAMED = frozenset(
    (
        *("environment", "labels", "annotations", "sysctls", "args", "extra_hosts", "additional_contexts"),
        *("options", "storage_opt"),
    )
)
_MAY_BE_NULL = frozenset(
    (
        *(("include",), ("networks", "*"), ("volumes", "*"), ("services", "*"), ("services", "*", "networks", "*")),
        *(("services", "*", key) for key in ("command", "entrypoint", "deploy", "develop")),
    )
)
TEXTS = ("name", "version")

Path = tuple[str, ...]


def form_problems(tree: Mapping[str, Any]) -> Iterator[ComposeError]:
    """The problems of a file's tree, overlays applied, before it is interpolated."""
    for key in TEXTS:
        if key in tree and not isinstance(tree[key], str | None):
            yield ComposeError(f"is text, got {kind_of(tree[key])} (quote it, or leave it out)", key)
    yield from _nulls(tree, ())
    yield from shape_problems(tree)


def _nulls(value: Any, path: Path) -> Iterator[ComposeError]:
    if value is None:
        if not _may_be_null(path):
            yield ComposeError("is null, which compose refuses (leave it out)", _place(path))
    elif isinstance(value, dict):
        for key, item in value.items():
            if not key.startswith("x-") or (path and path[-1] in _NAMED):
                yield from _nulls(item, (*path, key))
    elif isinstance(value, list):
        for item in value:
            yield from _nulls(item, (*path, "[]"))


def _place(path: Path) -> str:
    return ".".join(path[1:] if path[0] == "services" else path).replace(".[]", "[]")


def _may_be_null(path: Path) -> bool:
    if len(path) > 1 and path[-2] in _NAMED and path[-1] != "[]":
        return True
    patterns = (path, (*path[:1], "*", *path[2:]), (*path[:1], "*", *path[2:3], "*"))
    return any(pattern in _MAY_BE_NULL and len(pattern) == len(path) for pattern in patterns)
