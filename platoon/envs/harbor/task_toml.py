"""The keys of `task.toml` that are read, with types and defaults as Harbor 0.24 has them. Unknown keys change nothing, as with it;
`unread` names them, since one of them may be a slip of the pen.
"""

from __future__ import annotations

import unicodedata
from collections import Counter
from collections.abc import Iterator
from itertools import islice
from typing import Annotated, Any, Literal, Self

from pydantic import AliasChoices, BaseModel, ConfigDict, Field, model_validator

from platoon.config.model import nearest, problems_error
from platoon.config.text import few, printable, show
from platoon.envs.harbor.task_values import (
    Count,
    Destination,
    Env,
    Hosts,
    Image,
    Items,
    Mebibytes,
    NetworkMode,
    OperatingSystem,
    PackageName,
    Seconds,
    ServiceName,
    Source,
    StepName,
    Topology,
    User,
    Workdir,
    check_hosts,
    size_mb,
    wrong,
)
from platoon.errors import Problem

MOST_CPUS = 1_000_000
MOST_UNREAD = 20
SHOWN_KEY_CHARACTERS = 60

# Tables of texts, whose keys are no settings.
MAPPINGS = frozenset({"env", "headers"})


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

    name: PackageName
    version: Annotated[str, Field(min_length=1)] | None = None
    description: str = ""
    authors: Items[Author] = Field(default_factory=list)
    keywords: Items[str] = Field(default_factory=list)


class Healthcheck(_Table):
    """`[environment.healthcheck]`, times in seconds."""

    command: str
    interval_sec: Seconds = 5.0
    timeout_sec: Seconds = 30.0
    start_period_sec: Seconds = 0.0
    start_interval_sec: Seconds = 5.0
    retries: Count = 3


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
        if not getattr(self, needed):
            raise wrong(f"is needed for transport {self.transport}", needed)
        if self.headers and self.transport == "stdio":
            raise wrong("transport stdio has none", "headers")
        return self


class Tpu(_Table):
    """`[environment].tpu`; read and not used."""

    type: Annotated[str, Field(min_length=1)]
    topology: Topology


class EnvironmentTable(_Table):
    """`[environment]` and `[verifier.environment]`. cpus: None is no limit. memory_mb, storage_mb: MiB, storage not enforced.

    build_timeout_sec, gpu_types, tpu and skills_dir are read, as Harbor does, and not used.
    """

    docker_image: Image = None
    build_timeout_sec: float = 600.0
    gpu_types: Items[str] | None = None
    tpu: Tpu | None = None
    skills_dir: str | None = None
    os: OperatingSystem = "linux"
    cpus: Annotated[float, Field(ge=0, le=MOST_CPUS)] | None = None
    memory_mb: Mebibytes | None = None
    storage_mb: Mebibytes | None = None
    gpus: Count | None = None
    network_mode: NetworkMode | None = None
    allowed_hosts: Hosts | None = None
    allow_internet: bool | None = None
    env: Env = Field(default_factory=dict)
    workdir: Workdir = None
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
            found_mb = size_mb(old, size)
            if value.setdefault(new, found_mb) != found_mb:
                raise wrong(f"{new} is given too and differs, got {show(size)} and {show(value[new])}", old)
        return value

    @model_validator(mode="after")
    def _hosts_need_a_list(self) -> Self:
        check_hosts(self.network_mode, self.allowed_hosts, without_mode=True)
        return self

    @property
    def network(self) -> NetworkMode:
        """The mode as written, or what `allow_internet` meant."""
        if self.network_mode is not None:
            return self.network_mode
        return "no-network" if self.allow_internet is False and self.allowed_hosts is None else "public"


class AgentTable(_Table):
    """`[agent]`; timeout_sec None is no limit. network_mode: of this phase, None for the environment's."""

    timeout_sec: Seconds | None = None
    user: User = None
    network_mode: NetworkMode | None = None
    allowed_hosts: Hosts | None = None

    @model_validator(mode="after")
    def _hosts_need_a_list(self) -> Self:
        check_hosts(self.network_mode, self.allowed_hosts, without_mode=False)
        return self


class CollectHook(_Table):
    """`[[verifier.collect]]`."""

    command: str
    service: ServiceName = "main"
    timeout_sec: Seconds = 60.0
    user: User = None


class VerifierTable(_Table):
    """`[verifier]`."""

    timeout_sec: Seconds = 600.0
    user: User = None
    network_mode: NetworkMode | None = None
    allowed_hosts: Hosts | None = None
    env: Env = Field(default_factory=dict)
    environment_mode: Literal["shared", "separate"] | None = None
    environment: EnvironmentTable | None = None
    collect: Items[CollectHook] = Field(default_factory=list)

    @model_validator(mode="after")
    def _one_mode(self) -> Self:
        if self.environment_mode == "shared" and self.environment is not None:
            raise wrong("shared excludes [verifier.environment]", "environment_mode")
        check_hosts(self.network_mode, self.allowed_hosts, without_mode=False)
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

    source: Source
    destination: Destination = None
    exclude: Items[str] = Field(default_factory=list)
    service: ServiceName = "main"

    @model_validator(mode="before")
    @classmethod
    def _from_path(cls, value: Any) -> Any:
        return {"source": value} if isinstance(value, str) else value

    @model_validator(mode="after")
    def _is_absolute_elsewhere(self) -> Self:
        if self.service != "main" and not self.source.startswith("/"):
            raise wrong(f"is an absolute path for a service other than main, got {show(self.source)}", "source")
        return self


class StepTable(_Table):
    """One of `[[steps]]`. Tasks of several steps are refused; a step that Harbor would not take is told before that."""

    name: StepName
    agent: AgentTable = AgentTable()
    verifier: VerifierTable = VerifierTable()
    min_reward: float | dict[str, float] | None = None
    healthcheck: Healthcheck | None = None
    artifacts: Items[Artifact] = Field(default_factory=list)


class TaskToml(_Table):
    """A whole `task.toml`."""

    # Its old name is the last choice.
    schema_version: Annotated[str, Field(validation_alias=AliasChoices("schema_version", "version"))] = "1.4"
    source: str | None = None
    task: PackageTable | None = None
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
            raise wrong(f"names are apart where case does not count, got {few(twins)} twice", "steps")
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
