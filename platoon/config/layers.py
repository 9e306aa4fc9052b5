"""Layers of configuration: files that extend others, then overrides from a command line. Pure functions over plain values.

Mappings merge; everything else replaces. A mapping that is free-form by name (`*_kwargs`, `*_options`, `loss_fn_config`, `extra`)
replaces too: half of one component's options and half of another's make sense to neither. Who set a key last is kept beside the
values, since relative paths are relative to the file that names them.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from platoon.config.text import counted, show
from platoon.config.yaml import parse_yaml
from platoon.errors import ConfigError, Problem

COMMAND_LINE = "command line"

Path = tuple[str, ...]


@dataclass
class Layered:
    """values: the merged tree. origins: path to the file (or `command line`) that set it. texts: path to an override's text."""

    values: dict[str, Any] = field(default_factory=dict)
    origins: dict[Path, str] = field(default_factory=dict)
    texts: dict[Path, str] = field(default_factory=dict)

    def origin(self, path: Path) -> str:
        """Who set `path`, or the nearest thing above it; "" when nobody did."""
        for length in range(len(path), -1, -1):
            if (found := self.origins.get(path[:length])) is not None:
                return found
        return ""

    def lay(self, over: Mapping[str, Any], origin: str) -> None:
        """Lays a tree over what is there."""
        self.origins.setdefault((), origin)
        self._lay(self.values, over, (), origin)

    def _lay(self, under: dict[str, Any], over: Mapping[str, Any], path: Path, origin: str) -> None:
        for key, value in over.items():
            here = (*path, key)
            if isinstance(value, dict) and isinstance(under.get(key), dict) and not replaced_whole(key):
                self._lay(under[key], value, here, origin)
            else:
                self._forget(here, under.get(key))
                under[key] = copy.deepcopy(value)
                self._mark(here, value, origin)

    def _mark(self, path: Path, value: Any, origin: str) -> None:
        self.origins[path] = origin
        for key, child in _children(value):
            self._mark((*path, key), child, origin)

    def _forget(self, path: Path, value: Any) -> None:
        """Drops what is known of a value that is replaced, so that its parts do not speak for parts of the new one."""
        for key, child in _children(value):
            self.origins.pop((*path, key), None)
            self._forget((*path, key), child)

    def override(self, text: str) -> Problem | None:
        """Applies one `a.b=value`, `a.0.b=value` or `a.b+=item`; the problem when it cannot be."""
        if (rule := override_fault(text)) is not None:
            return Problem(rule, file=COMMAND_LINE)
        key, append, right = _parts(text)
        path = tuple(key.split("."))
        try:
            value = parse_yaml(right, COMMAND_LINE) if right else ""
        except ConfigError as error:
            return Problem(error.problems[0].rule, key=key, file=COMMAND_LINE, advice="quote the value for the shell and for YAML")
        problem = self._append(path, value) if append else self._set(path, value)
        if problem is None:
            # An appended item is the whole list's last change: a path in it is relative to where the command was typed.
            self._mark(self._appended(path) if append else path, value, COMMAND_LINE)
            self.texts[self._appended(path) if append else path] = right
        return problem

    def override_text(self, path: Path) -> bool:
        """Makes an override's value the text as typed; False when it is that already."""
        problem = self._set(path, self.texts.pop(path))
        return problem is None

    def _appended(self, path: Path) -> Path:
        node: Any = self.values
        for part in path:
            node = node[int(part)] if isinstance(node, list) else node[part]
        return (*path, str(len(node) - 1))

    def _set(self, path: Path, value: Any) -> Problem | None:
        holder = self._holder(path)
        if isinstance(holder, Problem):
            return holder
        if isinstance(holder, list):
            index = _index(path[-1], holder)
            if index is None:
                return Problem(
                    f"the list has {counted(len(holder), 'item')}, {path[-1]!r} is none", key=".".join(path), file=COMMAND_LINE
                )
            self._forget(path, holder[index])
            holder[index] = value
        else:
            self._forget(path, holder.get(path[-1]))
            holder[path[-1]] = value
        return None

    def _append(self, path: Path, value: Any) -> Problem | None:
        holder = self._holder(path)
        if isinstance(holder, Problem):
            return holder
        if isinstance(holder, list):
            index = _index(path[-1], holder)
            target = holder[index] if index is not None else None
        else:
            target = holder.get(path[-1])
            if target is None:
                target = holder[path[-1]] = []
        if not isinstance(target, list):
            return Problem(f"+= adds to a list, here is {show(target)}", key=".".join(path), file=COMMAND_LINE)
        target.append(value)
        return None

    def _holder(self, path: Path) -> dict[str, Any] | list[Any] | Problem:
        node: Any = self.values
        for position, part in enumerate(path[:-1]):
            if isinstance(node, list):
                index = _index(part, node)
                child = node[index] if index is not None else None
            elif node.get(part) is None:
                child = node[part] = {}
            else:
                child = node[part]
            if not isinstance(child, dict | list):
                here = ".".join(path[: position + 1])
                return Problem(f"{here} is no mapping or list", key=".".join(path), file=COMMAND_LINE)
            node = child
        return node  # type: ignore[no-any-return]


def override_fault(text: str) -> str | None:
    """Why a text is no override, whatever the configuration; None when it is one."""
    key, _, _ = _parts(text)
    return None if "=" in text and all(key.split(".")) else f"an override is key=value, or key+=item, got {show(text)}"


def _parts(text: str) -> tuple[str, bool, str]:
    """Key, whether the value is appended, and the text of the value."""
    left, _, right = text.partition("=")
    return left.removesuffix("+").strip(), left.endswith("+"), right


def replaced_whole(key: str) -> bool:
    """Whether a mapping under this key replaces the one below it instead of merging."""
    return key.endswith(("_kwargs", "_options")) or key in ("loss_fn_config", "extra")


def _children(value: Any) -> Iterable[tuple[str, Any]]:
    if isinstance(value, dict):
        return value.items()
    return ((str(place), child) for place, child in enumerate(value)) if isinstance(value, list) else ()


def _index(part: str, items: list[Any]) -> int | None:
    # isdecimal and a short text: int() of a hostile one is quadratic.
    if part.isascii() and part.isdecimal() and len(part) < 10 and int(part) < len(items):
        return int(part)
    return None
