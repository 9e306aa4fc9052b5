"""The keys of `task.toml` that are read, with types and defaults as Harbor 0.24 has them. Unknown keys change nothing, as with it;
`unread` names them, since one of them may be a slip of the pen.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Iterator
from itertools import islice
from typing import Annotated, Any, Literal, Self, TypeVar

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, field_validator, model_validator

from platoon.config.model import nearest, problems_error
from platoon.config.text import printable
from platoon.errors import Problem
from platoon.images.image_reference import reference_fault

T = TypeVar("T")
# One wrong item is told: a file of a megabyte may hold half a million.
Items = Annotated[list[T], Field(fail_fast=True)]
NetworkMode = Literal["public", "allowlist", "no-network"]
NonNegativeNumber = Annotated[float, Field(ge=0)]
PositiveNumber = Annotated[float, Field(gt=0)]
ServiceName = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]*$")]
# MiB whose bytes fit 64 bits.
Mebibytes = Annotated[int, Field(ge=0, lt=2**43)]
MOST_CPUS = 1_000_000
HIGHEST_ID = 2**31 - 1
STEP_NAME_LIMIT_BYTES = 255
MOST_UNREAD = 20
SHOWN_KEY_CHARACTERS = 60

# Tables of texts, whose keys are no settings.
MAPPINGS = frozenset({"env", "headers"})

USER_CHARACTERS = 64
_USER = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,62}\$?(?::[A-Za-z0-9_][A-Za-z0-9_.-]{0,62})?")
_PACKAGE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*/[A-Za-z0-9][A-Za-z0-9._-]*")
_SIZE = re.compile(r"([0-9]{1,12}(?:\.[0-9]{1,12})?)\s*([KMG])", re.IGNORECASE)
_MEBIBYTES = {"K": 1 / 1024, "M": 1, "G": 1024}


def _check_image(reference: str) -> str:
    if (fault := reference_fault(reference)) is not None:
        raise ValueError(fault)
    return reference


def _check_user(user: str | int) -> str | int:
    numbers = [int(part) for part in str(user).split(":") if part.isascii() and part.isdecimal() and len(part) < USER_CHARACTERS]
    if not _USER.fullmatch(str(user)[: 2 * USER_CHARACTERS]) or any(number > HIGHEST_ID for number in numbers):
        raise ValueError(f"must be a user's name or a number up to {HIGHEST_ID}, with :group where wanted")
    return user


def _check_workdir(path: str) -> str:
    if not path.startswith("/") or not path.isprintable():
        raise ValueError("must be an absolute path on one line")
    return path


def _check_env(env: dict[str, str]) -> dict[str, str]:
    if bad := sorted(name for name in env if not name or "=" in name or not name.isprintable()):
        raise ValueError(f"a variable has a name on one line without '=', got {printable(bad[0][:40])!r}")
    return env


Image = Annotated[str, AfterValidator(_check_image)]
User = Annotated[str | int, AfterValidator(_check_user)]
Workdir = Annotated[str, AfterValidator(_check_workdir)]
Env = Annotated[dict[str, str], AfterValidator(_check_env)]


def _check_hosts(mode: NetworkMode | None, hosts: list[str] | None) -> None:
    if hosts is not None and mode != "allowlist":
        raise ValueError("allowed_hosts needs network_mode allowlist")


class _Table(BaseModel):
    model_config = ConfigDict(extra="allow", frozen=True, strict=True, allow_inf_nan=False)

    @model_validator(mode="before")
    @classmethod
    def _without_nul(cls, value: Any) -> Any:
        """No path, argument, variable or file that a sandbox gets may hold a NUL."""
        if isinstance(value, dict):
            bad = [key for key, item in value.items() if key in cls.model_fields and _has_nul(item, within=key in MAPPINGS)]
            if bad:
                raise problems_error([Problem("holds a NUL character", key=key) for key in bad])
        return value


class Author(_Table):
    """One of `[task].authors`."""

    name: str
    email: str | None = None


class PackageTable(_Table):
    """`[task]`; only the name is used."""

    name: str | None = None
    version: Annotated[str, Field(min_length=1)] | None = None
    description: str = ""
    authors: Items[Author] = Field(default_factory=list)
    keywords: Items[str] = Field(default_factory=list)

    @field_validator("name")
    @classmethod
    def _is_package(cls, name: str | None) -> str | None:
        if name is not None and (not _PACKAGE.fullmatch(name) or ".." in name):
            raise ValueError("must be org/name of letters, digits, '.', '_' and '-'")
        return name


class Healthcheck(_Table):
    """`[environment.healthcheck]`, times in seconds."""

    command: str
    interval_sec: PositiveNumber = 5.0
    timeout_sec: PositiveNumber = 30.0
    start_period_sec: NonNegativeNumber = 0.0
    start_interval_sec: PositiveNumber = 5.0
    retries: Annotated[int, Field(ge=1)] = 3


class McpServer(_Table):
    """`[[environment.mcp_servers]]`; headers may hold `${VAR}` and are never recorded resolved."""

    name: str
    transport: Literal["stdio", "sse", "streamable-http"] = "sse"
    url: str | None = None
    command: str | None = None
    args: Items[str] = Field(default_factory=list)
    headers: dict[str, str] = Field(default_factory=dict)

    @model_validator(mode="before")
    @classmethod
    def _alias(cls, value: Any) -> Any:
        return {**value, "transport": "streamable-http"} if isinstance(value, dict) and value.get("transport") == "http" else value

    @model_validator(mode="after")
    def _has_address(self) -> Self:
        needed = "command" if self.transport == "stdio" else "url"
        if getattr(self, needed) is None:
            raise ValueError(f"transport {self.transport} needs {needed}")
        if self.headers and self.transport == "stdio":
            raise ValueError("transport stdio has no headers")
        return self


class Tpu(_Table):
    """`[environment].tpu`; read and not used."""

    type: str
    topology: str


class EnvironmentTable(_Table):
    """`[environment]` and `[verifier.environment]`. cpus: None is no limit. memory_mb, storage_mb: MiB, storage not enforced.

    build_timeout_sec, gpu_types, tpu and skills_dir are read, as Harbor does, and not used.
    """

    docker_image: Image | None = None
    build_timeout_sec: float = 600.0
    gpu_types: Items[str] | None = None
    tpu: Tpu | None = None
    skills_dir: str | None = None
    os: str = "linux"
    cpus: Annotated[float, Field(ge=0, le=MOST_CPUS)] | None = None
    memory_mb: Mebibytes | None = None
    storage_mb: Mebibytes | None = None
    gpus: Annotated[int, Field(ge=0)] | None = None
    network_mode: NetworkMode | None = None
    allowed_hosts: Items[str] | None = None
    allow_internet: bool | None = None
    env: Env = Field(default_factory=dict)
    workdir: Workdir | None = None
    mcp_servers: Items[McpServer] = Field(default_factory=list)
    healthcheck: Healthcheck | None = None

    @model_validator(mode="before")
    @classmethod
    def _old_sizes(cls, value: Any) -> Any:
        if not isinstance(value, dict):
            return value
        value = dict(value)
        for old, new in (("memory", "memory_mb"), ("storage", "storage_mb")):
            size = value.pop(old, None)
            if not isinstance(size, str):
                continue
            found = _SIZE.fullmatch(size.strip())
            if found is None:
                raise ValueError(f'{old} must be a size such as "2G", got {size[:40]!r}')
            size_mb = int(float(found[1]) * _MEBIBYTES[found[2].upper()])
            if value.setdefault(new, size_mb) != size_mb:
                raise ValueError(f"{old} and {new} are both given and differ")
        return value

    @model_validator(mode="after")
    def _hosts_need_a_list(self) -> Self:
        _check_hosts(self.network_mode, self.allowed_hosts)
        return self

    @property
    def network(self) -> NetworkMode:
        """The mode as written, or what `allow_internet` meant."""
        if self.network_mode is not None:
            return self.network_mode
        return "no-network" if self.allow_internet is False and self.allowed_hosts is None else "public"


class AgentTable(_Table):
    """`[agent]`; timeout_sec None is no limit. network_mode: of this phase, None for the environment's."""

    timeout_sec: PositiveNumber | None = None
    user: User | None = None
    network_mode: NetworkMode | None = None
    allowed_hosts: Items[str] | None = None

    @model_validator(mode="after")
    def _hosts_need_a_list(self) -> Self:
        _check_hosts(self.network_mode, self.allowed_hosts)
        return self


class CollectHook(_Table):
    """`[[verifier.collect]]`."""

    command: str
    service: ServiceName = "main"
    timeout_sec: PositiveNumber = 60.0
    user: User | None = None


class VerifierTable(_Table):
    """`[verifier]`."""

    timeout_sec: PositiveNumber = 600.0
    user: User | None = None
    network_mode: NetworkMode | None = None
    allowed_hosts: Items[str] | None = None
    env: Env = Field(default_factory=dict)
    environment_mode: Literal["shared", "separate"] | None = None
    environment: EnvironmentTable | None = None
    collect: Items[CollectHook] = Field(default_factory=list)

    @model_validator(mode="after")
    def _one_mode(self) -> Self:
        if self.environment_mode == "shared" and self.environment is not None:
            raise ValueError("environment_mode shared excludes [verifier.environment]")
        _check_hosts(self.network_mode, self.allowed_hosts)
        return self

    @property
    def separate(self) -> bool:
        return self.environment_mode == "separate" or (self.environment_mode is None and self.environment is not None)


class SolutionTable(_Table):
    """`[solution]`."""

    env: Env = Field(default_factory=dict)


class Artifact(_Table):
    """One of `artifacts`: a path that a separate verifier sees where it was.

    destination: where Harbor keeps a copy on its host; checked and not used.
    """

    source: str
    destination: str | None = None
    exclude: Items[str] = Field(default_factory=list)
    service: ServiceName = "main"

    @model_validator(mode="before")
    @classmethod
    def _from_path(cls, value: Any) -> Any:
        return {"source": value} if isinstance(value, str) else value

    @field_validator("source")
    @classmethod
    def _stays_inside(cls, source: str) -> str:
        if not source or "\0" in source or ".." in source.split("/"):
            raise ValueError("must be a path without '..'")
        return source

    @field_validator("destination")
    @classmethod
    def _stays_below(cls, destination: str | None) -> str | None:
        if destination is not None:
            parts = destination.split("/")
            if destination.startswith("/") or ".." in parts or "\\" in destination or destination == "manifest.json":
                raise ValueError("must be a relative path without '..' and backslash, and not manifest.json")
        return destination

    @model_validator(mode="after")
    def _is_absolute_elsewhere(self) -> Self:
        if self.service != "main" and not self.source.startswith("/"):
            raise ValueError("the source of a service other than main is an absolute path")
        return self


class StepTable(_Table):
    """One of `[[steps]]`. Tasks of several steps are refused; a step that Harbor would not take is told before that."""

    name: str
    agent: AgentTable = AgentTable()
    verifier: VerifierTable = VerifierTable()
    min_reward: float | dict[str, float] | None = None
    healthcheck: Healthcheck | None = None
    artifacts: Items[Artifact] = Field(default_factory=list)

    @field_validator("name")
    @classmethod
    def _is_a_directory(cls, name: str) -> str:
        is_plain = name.isprintable() and not any(character in name for character in '/\\<>:"|?*')
        if not name or not is_plain or name[-1] in " ." or name != name.strip() or len(name.encode()) > STEP_NAME_LIMIT_BYTES:
            raise ValueError(f"must be a portable directory name of at most {STEP_NAME_LIMIT_BYTES} bytes")
        return name


class TaskToml(_Table):
    """A whole `task.toml`."""

    schema_version: str = "1.4"
    version: str | None = None
    source: str | None = None
    task: PackageTable = PackageTable()
    metadata: dict[str, Any] = Field(default_factory=dict)
    environment: EnvironmentTable = EnvironmentTable()
    agent: AgentTable = AgentTable()
    verifier: VerifierTable = VerifierTable()
    solution: SolutionTable = SolutionTable()
    artifacts: Items[Artifact] = Field(default_factory=list)
    steps: Items[StepTable] = Field(default_factory=list)
    multi_step_reward_strategy: Literal["mean", "final"] | None = None

    @model_validator(mode="after")
    def _steps_are_apart(self) -> Self:
        names = Counter(unicodedata.normalize("NFC", step.name).casefold() for step in self.steps)
        if twins := sorted(name for name, count in names.items() if count > 1):
            raise ValueError(f"steps called {', '.join(twins[:5])} are not apart where case does not count")
        return self


def _has_nul(value: Any, *, within: bool) -> bool:
    """Whether a text, a text of a list, or one of a mapping has a NUL. within: a mapping is looked into."""
    texts = value if isinstance(value, list) else (*value, *value.values()) if within and isinstance(value, dict) else [value]
    return any(isinstance(text, str) and "\0" in text for text in texts)


def unread(toml: TaskToml) -> list[str]:
    """A warning for each key that nothing reads, with the known one that is near; the first of many."""
    return list(islice(_unread(toml, ""), MOST_UNREAD))


def _unread(table: _Table, above: str) -> Iterator[str]:
    known = type(table).model_fields
    for key in table.model_extra or ():
        near = nearest(key, known)
        advice = f" ({near})" if near.startswith("did") else ""
        yield f"task.toml: {above}{printable(key[:SHOWN_KEY_CHARACTERS])} is read by nothing{advice}"
    for name in known:
        value = getattr(table, name)
        for item in value if isinstance(value, list) else [value]:
            if isinstance(item, _Table):
                yield from _unread(item, f"{above}{name}.")
