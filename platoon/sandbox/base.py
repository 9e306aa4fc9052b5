"""The sandbox contract: what to start, what a started sandbox can do, and what a provider promises.

Values and protocols only; providers implement them, everything above speaks nothing else. One suite (`tests/sandbox/contract.py`)
runs the same assertions over every provider.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Protocol, runtime_checkable

from platoon.core.protocols import Mount
from platoon.errors import PlatoonError

__all__ = [
    "CAPABILITIES",
    "CWD_ERROR_EXIT_CODE",
    "CWD_ERROR_PREFIX",
    "CWD_ERROR_REASONS",
    "Command",
    "DownloadReport",
    "DroppedLink",
    "ExecResult",
    "Mount",
    "RouteError",
    "Sandbox",
    "SandboxProvider",
    "SandboxSnapshot",
    "SandboxSpec",
    "SandboxesShutDown",
    "SupportsReap",
    "cwd_error",
]

CAPABILITIES = frozenset(
    {"snapshot", "network_none", "gpu", "isolation", "routes", "host_loopback", "stacks", "privileged", "externals"}
)
"""The names a provider may declare; an adapter keeps only these of what its inner provider has."""

CWD_ERROR_EXIT_CODE = 126
CWD_ERROR_PREFIX = "hpc-sandbox: cannot enter the working directory "
CWD_ERROR_REASONS = ("it does not exist or cannot be reached", "not a directory", "permission denied")

MAX_LISTED_LINKS = 100

Command = str | Sequence[str]


class RouteError(PlatoonError):
    """An upstream cannot be reached from inside a sandbox."""


class SandboxLeft(PlatoonError):
    """Something of a sandbox could not be removed: the text names it and says why."""

    may_remain = True


class SandboxesShutDown(PlatoonError):
    """Sandboxes of this process were shut down: stops still work, starts do not."""


@dataclass(frozen=True)
class SandboxSpec:
    """What to start.

    image: `docker://name[:tag][@sha256:...]`, a plain reference, a `.sif` or `.sqsh` path, or `local` (the process provider).
    workdir: where commands run unless they say otherwise. memory_mb, cpus: limits, None for none.
    labels: how the sandbox is found again by who reaps. upstreams: name -> `unix:///abs/socket`, `http://...` or `https://...`.
    file_owners: path of an owner manifest to apply, None for what the image gives.
    """

    image: str
    workdir: str = "/app"
    env: Mapping[str, str] = field(default_factory=dict)
    mounts: Sequence[Mount] = ()
    network: Literal["host", "none"] = "host"
    cpus: float | None = None
    memory_mb: int | None = None
    labels: Mapping[str, str] = field(default_factory=dict)
    upstreams: Mapping[str, str] = field(default_factory=dict)
    file_owners: str | None = None


@dataclass(frozen=True)
class ExecResult:
    """exit_code: after a timeout it is the provider's own, so test `timed_out`. Output that was left out is noted at its end."""

    exit_code: int
    stdout: str
    stderr: str
    timed_out: bool = False


@dataclass(frozen=True)
class DroppedLink:
    """A symlink that a download left out."""

    path: str
    target: str
    reason: str


@dataclass(frozen=True)
class DownloadReport:
    """dropped_links: the first 100 of dropped_total."""

    dropped_links: Sequence[DroppedLink] = ()
    dropped_total: int = 0


@dataclass(frozen=True)
class SandboxSnapshot:
    """The files of a sandbox at one moment, never its processes; it lives until its sandbox stops."""

    id: str
    provider: str
    path: str
    image: str
    metadata: Mapping[str, Any] = field(default_factory=dict)


@runtime_checkable
class Sandbox(Protocol):
    """A started sandbox.

    Infrastructure failures raise; a failing command never does. Optional, asked for with `getattr`: `routes` (upstream name -> URL
    usable inside), `ensure_routes()`, `keep_processes(entries)`, `exec_as(user, cmd, ...)`.
    """

    id: str

    async def exec(
        self,
        cmd: Command,
        *,
        timeout_s: float | None = None,
        env: Mapping[str, str] | None = None,
        cwd: str | None = None,
        stdin: bytes | None = None,
    ) -> ExecResult:
        """Runs a string through `bash -c`, a list as an argv. `cwd` defaults to the workdir; a relative one starts there.

        Returns or raises only once the command is gone, also on a timeout or a cancellation. Raises RuntimeError after `stop`.
        """
        ...

    async def upload(self, src: Path, dst: str) -> None:
        """A file to `dst`, or a directory's contents into `dst`; parents are made."""
        ...

    async def download(self, src: str, dst: Path) -> DownloadReport | None:
        """A file or directory of the sandbox to a host path. Raises FileNotFoundError when `src` is missing."""
        ...

    async def snapshot(self) -> SandboxSnapshot: ...

    async def kill_processes(self) -> None:
        """Ends what commands left running, but for kept processes. Raises RuntimeError when something survives."""
        ...

    async def stop(self) -> None:
        """Ends the sandbox and deletes its files; idempotent."""
        ...


@runtime_checkable
class SandboxProvider(Protocol):
    """Starts sandboxes. capabilities: a subset of `CAPABILITIES`; options: what it was built with, for reapers."""

    name: str
    capabilities: frozenset[str]
    options: Mapping[str, Any]

    async def start(self, spec: SandboxSpec) -> Sandbox: ...

    async def restore(self, snapshot: SandboxSnapshot, spec: SandboxSpec) -> Sandbox: ...


@runtime_checkable
class SupportsReap(Protocol):
    """A provider that can end sandboxes whose owner died."""

    async def reap(self, labels: Mapping[str, str]) -> int:
        """Ends and deletes every sandbox that bears all of `labels` and whose owner is gone or this process; returns how many.

        Raises ValueError without labels.
        """
        ...


_CWD_ERROR = re.compile(re.escape(CWD_ERROR_PREFIX) + r".*: (?:" + "|".join(map(re.escape, CWD_ERROR_REASONS)) + r")\n?", re.DOTALL)


def cwd_error(result: ExecResult) -> str | None:
    """The provider's explanation when `result` says that the working directory could not be entered, else None."""
    if result.exit_code != CWD_ERROR_EXIT_CODE or result.timed_out or result.stdout:
        return None
    return result.stderr.rstrip("\n") if _CWD_ERROR.fullmatch(result.stderr) else None
