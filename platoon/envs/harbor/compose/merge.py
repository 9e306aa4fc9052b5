"""Two descriptions of one service laid over each other by compose's rules. Pure; neither argument is changed.

Mappings merge by key and sequences append, but: `command`, `entrypoint` and `healthcheck.test` replace; `environment`, `labels`
and `build.args` are mappings in either form; `depends_on` and `networks` too; volumes, secrets and configs are one a target,
ports one an address; a value that is null leaves what is there, except where null means something.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from platoon.envs.harbor.compose.document import Number
from platoon.envs.harbor.compose.errors import ComposeError

REPLACED = frozenset({("command",), ("entrypoint",), ("healthcheck", "test")})
PAIRS = frozenset(
    {
        *(("environment",), ("labels",), ("annotations",), ("sysctls",), ("deploy", "labels")),
        *(("build", "args"), ("build", "labels"), ("build", "additional_contexts")),
    }
)
LISTS = frozenset({("dns",), ("dns_opt",), ("dns_search",), ("env_file",), ("tmpfs",), ("label_file",)})
STARTED: Mapping[str, Any] = {"condition": "service_started", "required": True}

Path = tuple[str, ...]


def merge_services(below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    """The service that `above` makes of `below`. Raises ComposeError where one is a mapping and the other is not."""
    return _merge_mappings(below, above, ())


def _merge(below: Any, above: Any, path: Path) -> Any:
    if path in REPLACED:
        return above
    if above is None:
        return below
    if (own_way := _MERGERS.get(path)) is not None:
        return own_way(below, above, path)
    if isinstance(below, dict) and isinstance(above, dict):
        return _merge_mappings(below, above, path)
    if isinstance(below, list) and isinstance(above, list):
        return _unique([*below, *above], _INDEXES.get(path))
    if isinstance(below, dict | list) and path[:1] != ("ulimits",):
        raise ComposeError(f"{'.'.join(path)} cannot be laid over a value of another form", ".".join(path))
    return above


def _merge_mappings(below: Mapping[str, Any], above: Mapping[str, Any], path: Path) -> dict[str, Any]:
    merged = dict(below)
    for key, value in above.items():
        merged[key] = _merge(merged[key], value, (*path, key)) if key in merged else value
    return merged


def pairs(value: Any, path: Path = ()) -> dict[str, Any]:
    """`K=V` lists and mappings as one mapping; a bare K is None."""
    if value is None:
        return {}
    if isinstance(value, dict):
        return value
    if isinstance(value, list):
        found: dict[str, Any] = {}
        for item in value:
            if not isinstance(item, str):
                raise ComposeError("is a list of NAME=value", ".".join(path))
            name, equals, text = item.partition("=")
            found[name] = text if equals else None
        return found
    raise ComposeError("is a mapping or a list of NAME=value", ".".join(path))


def _keyed(value: Any, default: Mapping[str, Any] | None) -> dict[str, Any]:
    if isinstance(value, list):
        return {str(item): None if default is None else dict(default) for item in value}
    return value if isinstance(value, dict) else {}


def _build(value: Any) -> dict[str, Any]:
    return {"context": value} if isinstance(value, str) else value if isinstance(value, dict) else {}


def _as_list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [] if value is None else [value]


def _unique(items: list[Any], index: Callable[[Any], Any] | None) -> list[Any]:
    """Items in order; a later one with the same index takes the earlier one's place."""
    if index is None:
        return items
    places: dict[Any, int] = {}
    found: list[Any] = []
    for item in items:
        key = index(item)
        if key in places:
            found[places[key]] = item
        else:
            places[key] = len(found)
            found.append(item)
    return found


def _identity(item: Any) -> Any:
    return item.decimal if isinstance(item, Number) else item if isinstance(item, str) else repr(item)


def _target_of_volume(item: Any) -> Any:
    if isinstance(item, dict):
        target = item.get("target")
    else:
        pieces = str(item).split(":")
        target = pieces[0] if len(pieces) == 1 else pieces[1]
    return str(target).rstrip("/") or "/"


def _target_of_file(directory: str) -> Callable[[Any], Any]:
    def target(item: Any) -> str:
        if isinstance(item, dict):
            return str(item.get("target") or f"{directory}/{item.get('source')}")
        return f"{directory}/{item}"

    return target


_INDEXES: Mapping[Path, Callable[[Any], Any]] = {
    ("volumes",): _target_of_volume,
    ("secrets",): _target_of_file("/run/secrets"),
    ("configs",): _target_of_file(""),
    **{(key,): _identity for key in ("expose", "ports", "cap_add", "cap_drop", "security_opt", "profiles", "links")},
}
_MERGERS: Mapping[Path, Callable[[Any, Any, Path], Any]] = {
    **{path: lambda below, above, path: {**pairs(below, path), **pairs(above, path)} for path in PAIRS},
    **{path: lambda below, above, path: _unique([*_as_list(below), *_as_list(above)], _identity) for path in LISTS},
    ("depends_on",): lambda below, above, path: _merge_mappings(_keyed(below, STARTED), _keyed(above, STARTED), path),
    ("networks",): lambda below, above, path: _merge_mappings(_keyed(below, None), _keyed(above, None), path),
    ("build",): lambda below, above, path: _merge_mappings(_build(below), _build(above), path),
}
