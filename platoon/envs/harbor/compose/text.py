"""Text of a plan: literals, and parts that only a session or a stack can fill in. No escaping is needed: a part is an object.

join("http://", RefPart("db", 5432), "/x")  ->  ("http://", RefPart("db", 5432), "/x")
to_json(...)                                ->  ["http://", {"ref": ["db", 5432]}, "/x"]
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias


@dataclass(frozen=True)
class HostPart:
    """A host variable, read when a session opens. An unset one without `unset` ends the session's start (`env_config`).

    unset, empty: what stands in its place where it is unset, or set to nothing. set: what stands there where it is set (after
    `empty`), instead of its value. nonempty: one that is set to nothing counts as unset.
    """

    name: str
    unset: Text | None = None
    empty: Text | None = None
    set: Text | None = None
    nonempty: bool = False

    def to_json(self) -> dict[str, Any]:
        words = {key: getattr(self, key) for key in ("unset", "empty", "set")}
        found: dict[str, Any] = {"host": self.name, **{key: to_json(word) for key, word in words.items() if word is not None}}
        return {**found, "nonempty": True} if self.nonempty else found


@dataclass(frozen=True)
class ContextPart:
    """The task's `environment/`, or what `subpath` names below it."""

    subpath: str = ""

    def to_json(self) -> dict[str, Any]:
        return {"context": self.subpath}


@dataclass(frozen=True)
class LogsPart:
    """The stack's own log directory of `verifier`, `agent` or `artifacts`."""

    name: str

    def to_json(self) -> dict[str, Any]:
        return {"logs": self.name}


@dataclass(frozen=True)
class ImagePart:
    """The name of the image that is built for `main`."""

    def to_json(self) -> dict[str, Any]:
        return {"image": "main"}


@dataclass(frozen=True)
class RefPart:
    """A service at a port it declares: `service:port` where names resolve."""

    service: str
    port: int

    def to_json(self) -> dict[str, Any]:
        return {"ref": [self.service, self.port]}


@dataclass(frozen=True)
class SelfPart:
    """A port that the service itself declares: `localhost:port` where nothing is mapped."""

    port: int

    def to_json(self) -> dict[str, Any]:
        return {"self": self.port}


Part: TypeAlias = HostPart | ContextPart | LogsPart | ImagePart | RefPart | SelfPart
Text: TypeAlias = "str | tuple[str | Part, ...]"


def join(*pieces: Text | Part) -> Text:
    """One text of several; neighbouring literals become one, and a text without parts is a plain string."""
    found: list[str | Part] = []
    literals: list[str] = []
    for piece in pieces:
        for item in piece if isinstance(piece, tuple) else (piece,):
            if isinstance(item, str):
                literals.append(item)
                continue
            if text := "".join(literals):
                found.append(text)
            literals.clear()
            found.append(item)
    rest = "".join(literals)
    if not found:
        return rest
    return (*found, rest) if rest else tuple(found)


def pieces(text: Text) -> tuple[str | Part, ...]:
    return (text,) if isinstance(text, str) else text


def to_json(text: Text) -> Any:
    """A string, or a list of strings and parts."""
    return text if isinstance(text, str) else [item if isinstance(item, str) else item.to_json() for item in text]


def from_json(value: Any) -> Text:
    """The text that `to_json` wrote. Raises KeyError, TypeError, ValueError or AttributeError for anything else."""
    if isinstance(value, str):
        return value
    if not isinstance(value, list):
        raise TypeError("a text is a string, or a list of strings and parts")
    return tuple(item if isinstance(item, str) else _part(item) for item in value)


def _part(value: Mapping[str, Any]) -> Part:
    if "host" in value:
        words = {key: from_json(value[key]) for key in ("unset", "empty", "set") if key in value}
        return HostPart(value["host"], nonempty=value.get("nonempty", False), **words)
    if "ref" in value:
        return RefPart(*value["ref"])
    ((kind, item),) = value.items()
    if kind == "image":
        return ImagePart()
    kinds: dict[str, Callable[[Any], Part]] = {"context": ContextPart, "logs": LogsPart, "self": SelfPart}
    return kinds[kind](item)


def host_names(text: Text) -> Iterator[str]:
    """The host variables that a text reads."""
    for item in pieces(text):
        if isinstance(item, HostPart):
            yield item.name
            for word in (item.unset, item.empty, item.set):
                if word is not None:
                    yield from host_names(word)


def resolve(text: Text, host: Mapping[str, str], other: Callable[[Part], str]) -> str:
    """The text with host variables filled in, other parts as `other` gives them. Raises KeyError with an unset name."""
    return "".join(
        item if isinstance(item, str) else _host_value(item, host, other) if isinstance(item, HostPart) else other(item)
        for item in pieces(text)
    )


def _host_value(part: HostPart, host: Mapping[str, str], other: Callable[[Part], str]) -> str:
    value = host.get(part.name)
    if value is None or (part.nonempty and not value):
        if part.unset is None:
            raise KeyError(part.name)
        return resolve(part.unset, host, other)
    if not value and part.empty is not None:
        return resolve(part.empty, host, other)
    return value if part.set is None else resolve(part.set, host, other)
