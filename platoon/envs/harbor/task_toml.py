"""The keys of `task.toml` that are read, with types and defaults as Harbor 0.24 has them. Unknown keys are ignored, as it does."""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

NetworkMode = Literal["public", "allowlist", "no-network"]
NonNegativeNumber = Annotated[float, Field(ge=0)]
PositiveNumber = Annotated[float, Field(gt=0)]

_PACKAGE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*/[A-Za-z0-9][A-Za-z0-9._-]*")
_SIZE = re.compile(r"([0-9]{1,12}(?:\.[0-9]{1,12})?)\s*([KMG])B?", re.IGNORECASE)
_MEBIBYTES = {"K": 1 / 1024, "M": 1, "G": 1024}


class _Table(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True, strict=True, allow_inf_nan=False)


class PackageTable(_Table):
    """`[task]`."""

    name: str | None = None

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
    args: list[str] = Field(default_factory=list)
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
        return self


class EnvironmentTable(_Table):
    """`[environment]` and `[verifier.environment]`. cpus: None is no limit. memory_mb, storage_mb: MiB."""

    docker_image: str | None = None
    os: str = "linux"
    cpus: float | None = None
    memory_mb: int | None = None
    storage_mb: int | None = None
    gpus: Annotated[int, Field(ge=0)] | None = None
    network_mode: NetworkMode | None = None
    allowed_hosts: list[str] | None = None
    allow_internet: bool | None = None
    env: dict[str, str] = Field(default_factory=dict)
    workdir: str | None = None
    mcp_servers: list[McpServer] = Field(default_factory=list)
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
        if self.allowed_hosts is not None and self.network_mode != "allowlist":
            raise ValueError("allowed_hosts needs network_mode allowlist")
        return self

    @property
    def network(self) -> NetworkMode:
        """The mode as written, or what `allow_internet` meant."""
        if self.network_mode is not None:
            return self.network_mode
        return "no-network" if self.allow_internet is False and self.allowed_hosts is None else "public"


class AgentTable(_Table):
    """`[agent]`; timeout_sec None is no limit."""

    timeout_sec: PositiveNumber | None = None
    user: str | int | None = None
    network_mode: NetworkMode | None = None


class CollectHook(_Table):
    """`[[verifier.collect]]`."""

    command: str
    service: Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]*$")] = "main"
    timeout_sec: PositiveNumber = 60.0
    user: str | int | None = None


class VerifierTable(_Table):
    """`[verifier]`."""

    timeout_sec: PositiveNumber = 600.0
    user: str | int | None = None
    network_mode: NetworkMode | None = None
    env: dict[str, str] = Field(default_factory=dict)
    environment_mode: Literal["shared", "separate"] | None = None
    environment: EnvironmentTable | None = None
    collect: list[CollectHook] = Field(default_factory=list)

    @model_validator(mode="after")
    def _one_mode(self) -> Self:
        if self.environment_mode == "shared" and self.environment is not None:
            raise ValueError("environment_mode shared excludes [verifier.environment]")
        return self

    @property
    def separate(self) -> bool:
        return self.environment_mode == "separate" or (self.environment_mode is None and self.environment is not None)


class SolutionTable(_Table):
    """`[solution]`."""

    env: dict[str, str] = Field(default_factory=dict)


class Artifact(_Table):
    """One of `artifacts`: a path that a separate verifier sees where it was."""

    source: str
    exclude: list[str] = Field(default_factory=list)
    service: str = "main"

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


class TaskToml(_Table):
    """A whole `task.toml`."""

    task: PackageTable = PackageTable()
    metadata: dict[str, Any] = Field(default_factory=dict)
    environment: EnvironmentTable = EnvironmentTable()
    agent: AgentTable = AgentTable()
    verifier: VerifierTable = VerifierTable()
    solution: SolutionTable = SolutionTable()
    artifacts: list[Artifact] = Field(default_factory=list)
    steps: list[dict[str, Any]] = Field(default_factory=list)
