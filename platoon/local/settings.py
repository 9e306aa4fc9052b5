"""How a server listens and computes, and which settings cannot be served. Loads nothing heavy, so that refusals are quick."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from platoon.errors import ConfigError, Problem
from platoon.local.launcher import check_state_dir

LOOPBACK = "127.0.0.1"


@dataclass(frozen=True)
class ServiceSettings:
    """How a service computes and what it keeps.

    state_dir: checkpoints and tokenizer directories; servers may share it. deterministic: refuse operations whose additions have no
    fixed order. session_timeout_s: silence that ends a session.
    """

    state_dir: Path
    threads: int = 1
    deterministic: bool = False
    session_timeout_s: float = 900.0


@dataclass(frozen=True)
class ServerSettings:
    """How a server listens. api_key None lets every local process in; faults opens the control route `/local/faults`."""

    service: ServiceSettings
    host: str = LOOPBACK
    port: int = 0
    api_key: str | None = None
    faults: bool = False
    ready_descriptor: int | None = None


def check_settings(settings: ServerSettings) -> None:
    """Raises ConfigError for what would only fail later, or not keep its promise."""
    problems = []
    service = settings.service
    check_state_dir(service.state_dir)
    if service.deterministic and service.threads != 1:
        problems.append(Problem(f"deterministic sampling needs one thread, got {service.threads}", key="--threads"))
    if settings.host not in (LOOPBACK, "::1", "localhost") and settings.api_key is None:
        problems.append(Problem(f"listening on {settings.host} needs an API key", key="--api-key-file"))
    if problems:
        raise ConfigError(problems)
