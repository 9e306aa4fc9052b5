"""The stack plan: frozen data with one canonical JSON form, which a lock keeps once for all the tasks that share it.

`to_dict` is the form that `docs/reference/compose.md` describes under "Plans": some keys of `main` and of a service always stand
there, others only where the file sets them. Times are seconds, sizes MiB; None means that the image, or nothing, gives the value.
`StackPlan.from_dict` reads that form back to an equal plan.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, fields
from functools import cached_property
from typing import Any, Literal, Self, TypeVar

from platoon.artifacts.canonical import canonical_digest
from platoon.envs.harbor.compose.text import Text, from_json, host_names, to_json

RULE = "platoon-compose-v1"

Condition = Literal["service_started", "service_healthy", "service_completed_successfully"]
T = TypeVar("T")


@dataclass(frozen=True)
class Port:
    """A port a service declares, published or not."""

    port: int
    protocol: str = "tcp"

    def to_dict(self) -> dict[str, Any]:
        return {"port": self.port, "protocol": self.protocol}


@dataclass(frozen=True)
class VolumeMount:
    """A volume of the stack at a path. name: None for an anonymous one. copy: whether the image's content fills it first."""

    name: str | None
    target: str
    read_only: bool = False
    copy: bool = True

    def to_dict(self) -> dict[str, Any]:
        found: dict[str, Any] = {"name": self.name, "target": self.target, "read_only": self.read_only}
        return found if self.copy else {**found, "copy": False}


@dataclass(frozen=True)
class Bind:
    """A bind. kind: `task` (path in the task), `logs` (`verifier`, `agent`, `artifacts`, or a directory below one such as
    `artifacts/judge`), `host` (a variable that names a path).
    """

    kind: Literal["task", "logs", "host"]
    source: str
    target: str
    read_only: bool = False

    def to_dict(self) -> dict[str, Any]:
        return {"source": {self.kind: self.source}, "target": self.target, "read_only": self.read_only}

    @classmethod
    def from_dict(cls, value: Mapping[str, Any]) -> Self:
        ((kind, source),) = value["source"].items()
        return cls(kind, source, value["target"], value["read_only"])


@dataclass(frozen=True)
class Tmpfs:
    """A file system in memory. mode: permission bits, None for the runtime's own."""

    target: str
    size_mb: int | None = None
    mode: int | None = None

    def to_dict(self) -> dict[str, Any]:
        return {"target": self.target, "size_mb": self.size_mb, "mode": self.mode}


@dataclass(frozen=True)
class InlineFile:
    """A `config` or `secret` with its content in the compose file, read-only in the service."""

    content: Text
    target: str
    mode: int | None = None

    def to_dict(self) -> dict[str, Any]:
        return {"content": to_json(self.content), "target": self.target, "mode": self.mode}

    @classmethod
    def from_dict(cls, value: Mapping[str, Any]) -> Self:
        return cls(from_json(value["content"]), value["target"], value["mode"])


@dataclass(frozen=True)
class Healthcheck:
    """What is None is the image's. test None: the image's test; `("NONE",)`: no check, whatever the image has."""

    test: tuple[Text, ...] | None = None
    interval_s: float | None = None
    timeout_s: float | None = None
    retries: int | None = None
    start_period_s: float | None = None
    start_interval_s: float | None = None

    @property
    def disabled(self) -> bool:
        return self.test is not None and self.test[:1] == ("NONE",)

    def to_dict(self) -> dict[str, Any]:
        times = {item.name: getattr(self, item.name) for item in fields(self) if item.name != "test"}
        return {"test": _texts(self.test), **times}

    @classmethod
    def from_dict(cls, value: Mapping[str, Any]) -> Self:
        return cls(**{**value, "test": _words(value["test"])})


@dataclass(frozen=True)
class Dependency:
    """required False: the stack goes on when the other service does not come up."""

    condition: Condition
    required: bool = True

    def to_dict(self) -> Any:
        return self.condition if self.required else {"condition": self.condition, "required": False}

    @classmethod
    def from_dict(cls, value: Any) -> Self:
        return cls(**value) if isinstance(value, dict) else cls(value)


@dataclass(frozen=True)
class Init:
    """main's own process. entrypoint: None for the image's."""

    entrypoint: tuple[Text, ...] | None
    command: tuple[Text, ...]

    def to_dict(self) -> dict[str, Any]:
        return {"entrypoint": _texts(self.entrypoint), "command": _texts(self.command)}

    @classmethod
    def from_dict(cls, value: Mapping[str, Any]) -> Self:
        return cls(_words(value["entrypoint"]), _words(value["command"]) or ())


@dataclass(frozen=True)
class ServicePlan:
    """One container. image: `{"from": "task"}`, `{"ref": …}` or `{"build": …}`.

    init is main's, entrypoint and command are a sidecar's, None for the image's.
    """

    image: Mapping[str, Any]
    init: Init | None = None
    entrypoint: tuple[Text, ...] | None = None
    command: tuple[Text, ...] | None = None
    workdir: str | None = None
    user: str | None = None
    env: Mapping[str, Text] = field(default_factory=dict)
    aliases: tuple[str, ...] = ()
    ports: tuple[Port, ...] = ()
    volumes: tuple[VolumeMount, ...] = ()
    binds: tuple[Bind, ...] = ()
    tmpfs: tuple[Tmpfs, ...] = ()
    files: tuple[InlineFile, ...] = ()
    healthcheck: Healthcheck | None = None
    depends_on: Mapping[str, Dependency] = field(default_factory=dict)
    shm_mb: int | None = None
    ulimits: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    cpus: float | None = None
    memory_mb: int | None = None
    stop_signal: str | None = None
    stop_grace_s: float | None = None
    hostname: str | None = None
    read_only: bool = False
    network: str | None = None
    cap_add: tuple[str, ...] = ()
    cap_drop: tuple[str, ...] = ()
    no_new_privileges: bool = False

    def texts(self) -> Iterator[tuple[str, Text]]:
        """Every text with parts, and the key it stands under."""
        for name, value in self.env.items():
            yield f"environment.{name}", value
        init = self.init or Init(None, ())
        for key, words in (
            ("entrypoint", self.entrypoint or init.entrypoint),
            ("command", self.command or init.command),
            ("healthcheck.test", self.healthcheck.test if self.healthcheck else None),
        ):
            for word in words or ():
                yield key, word
        for file in self.files:
            yield "configs", file.content

    def main_dict(self) -> dict[str, Any]:
        """As `main` stands in a plan."""
        always = ("image", "init", "env", "workdir", "cpus", "memory_mb", "binds", "volumes", "healthcheck", "ports", "depends_on")
        return self._dict(always)

    def to_dict(self) -> dict[str, Any]:
        """As a sidecar stands in a plan."""
        return self._dict(
            (
                *("image", "entrypoint", "command", "workdir", "user", "env", "aliases", "ports", "volumes", "binds", "tmpfs"),
                *("healthcheck", "depends_on", "shm_mb", "ulimits", "cpus", "memory_mb", "stop_signal"),
            )
        )

    @classmethod
    def from_dict(cls, value: Mapping[str, Any]) -> Self:
        """Of either form."""
        return cls(**{name: _READERS[name](item) if name in _READERS else item for name, item in value.items()})

    def _dict(self, always: tuple[str, ...]) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for item in fields(self):
            value = getattr(self, item.name)
            if item.name in always or value not in (None, False, (), {}):
                found[item.name] = _json(value)
        return found


@dataclass(frozen=True)
class External:
    """A service that a node service serves: no rollout starts it.

    service: the node service's name. scope: what a rollout's scope of it carries.
    """

    service: str
    ports: tuple[Port, ...] = ()
    aliases: tuple[str, ...] = ()
    scope: Mapping[str, Text] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        return {
            "service": self.service,
            "ports": _json(self.ports),
            "aliases": list(self.aliases),
            "scope": {key: to_json(value) for key, value in self.scope.items()},
        }

    @classmethod
    def from_dict(cls, value: Mapping[str, Any]) -> Self:
        ports = tuple(Port(**port) for port in value["ports"])
        return cls(value["service"], ports, tuple(value["aliases"]), _each(from_json)(value["scope"]))


@dataclass(frozen=True)
class StackPlan:
    """A task's containers: `main` and, in a stack, its sidecars. order: in which they start. notes: accepted without effect."""

    order: tuple[str, ...]
    main: ServicePlan
    services: Mapping[str, ServicePlan] = field(default_factory=dict)
    volumes: tuple[str, ...] = ()
    externals: Mapping[str, External] = field(default_factory=dict)
    privileges: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    host_network: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    @property
    def host_env(self) -> list[str]:
        """The host variables that a session resolves."""
        found = {
            name for service in (self.main, *self.services.values()) for _, text in service.texts() for name in host_names(text)
        }
        found |= {name for external in self.externals.values() for text in external.scope.values() for name in host_names(text)}
        found |= {bind.source for service in (self.main, *self.services.values()) for bind in service.binds if bind.kind == "host"}
        return sorted(found)

    @cached_property
    def digest(self) -> str:
        """`sha256:<hex>` of the canonical JSON: its key in a lock's `plans`."""
        return canonical_digest(self.to_dict())

    def to_dict(self) -> dict[str, Any]:
        """The plan as JSON values."""
        return {
            "rule": RULE,
            "order": list(self.order),
            "main": self.main.main_dict(),
            "services": {name: service.to_dict() for name, service in self.services.items()},
            "volumes": {name: {} for name in self.volumes},
            "externals": {name: external.to_dict() for name, external in self.externals.items()},
            "privileges": {name: dict(value) for name, value in self.privileges.items()},
            "host_env": self.host_env,
            "host_network": {name: dict(value) for name, value in self.host_network.items()},
            "notes": list(self.notes),
        }

    @classmethod
    def from_dict(cls, value: Mapping[str, Any]) -> Self:
        """The plan that `to_dict` wrote. Raises ValueError for anything else, another rule's plan among it."""
        try:
            plan = cls(
                order=tuple(value["order"]),
                main=ServicePlan.from_dict(value["main"]),
                services=_each(ServicePlan.from_dict)(value["services"]),
                volumes=tuple(value["volumes"]),
                externals=_each(External.from_dict)(value["externals"]),
                privileges=value["privileges"],
                host_network=value["host_network"],
                notes=tuple(value["notes"]),
            )
            # What was read and would not be written again, an unknown key or a wrong type, is seen here.
            same = plan.to_dict() == value
        except (KeyError, TypeError, AttributeError, RecursionError, ValueError) as error:
            raise ValueError(f"is no stack plan: {str(error)[:200]}") from None
        if not same:
            raise ValueError(f"is no stack plan of {RULE}")
        return plan


def _texts(words: tuple[Text, ...] | None) -> list[Any] | None:
    return None if words is None else [to_json(word) for word in words]


def _json(value: Any) -> Any:
    if hasattr(value, "to_dict"):
        return value.to_dict()
    if hasattr(value, "to_json"):
        return value.to_json()
    if isinstance(value, Mapping):
        return {key: _json(item) for key, item in value.items()}
    if isinstance(value, tuple):
        return [_json(item) for item in value]
    return value


def _words(value: Any) -> tuple[Text, ...] | None:
    return None if value is None else tuple(from_json(word) for word in value)


def _all(reader: Callable[[Any], T]) -> Callable[[Any], tuple[T, ...]]:
    return lambda value: tuple(reader(item) for item in value)


def _each(reader: Callable[[Any], T]) -> Callable[[Any], dict[str, T]]:
    return lambda value: {name: reader(item) for name, item in value.items()}


# Fields of a service whose JSON is not their value.
_READERS: Mapping[str, Callable[[Any], Any]] = {
    "init": lambda value: None if value is None else Init.from_dict(value),
    "entrypoint": _words,
    "command": _words,
    "env": _each(from_json),
    "aliases": tuple,
    "ports": _all(lambda value: Port(**value)),
    "volumes": _all(lambda value: VolumeMount(**value)),
    "binds": _all(Bind.from_dict),
    "tmpfs": _all(lambda value: Tmpfs(**value)),
    "files": _all(InlineFile.from_dict),
    "healthcheck": lambda value: None if value is None else Healthcheck.from_dict(value),
    "depends_on": _each(Dependency.from_dict),
    "cap_add": tuple,
    "cap_drop": tuple,
}
