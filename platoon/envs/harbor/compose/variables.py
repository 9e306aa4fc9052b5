"""What the names in a task's compose file stand for: Harbor's own first, then the task's `[environment].env`, then the host's.

A name that is neither Harbor's, nor the task's, nor listed in an overlay's `compose_host_env` counts as unset, whatever the host
that fetches defines.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from platoon.envs.harbor.compose.errors import ComposeError
from platoon.envs.harbor.compose.interpolate import Host
from platoon.envs.harbor.compose.text import ContextPart, ImagePart, LogsPart, Text
from platoon.envs.harbor.task_toml import EnvironmentTable
from platoon.envs.harbor.templates import template_of

LOG_DIRECTORIES = {"verifier": "/logs/verifier", "agent": "/logs/agent", "artifacts": "/logs/artifacts"}
_LOG_NAMES = {"verifier": "VERIFIER_LOGS", "agent": "AGENT_LOGS", "artifacts": "ARTIFACTS"}
# Compose sets these itself, from what a session alone knows.
_OF_COMPOSE = re.compile(r"COMPOSE_[A-Z_]+")


@dataclass(frozen=True)
class TaskVariables:
    """What names stand for, in this order.

    harbor: Harbor's names. task: `[environment].env`. listed: `compose_host_env`. env_file: what `environment/.env` would give.
    ruled: names that a `host_network` rule sets in the service being read, whose values no fetch knows.
    """

    harbor: Mapping[str, Text]
    task: Mapping[str, str]
    listed: frozenset[str] = frozenset()
    env_file: frozenset[str] = frozenset()
    ruled: frozenset[str] = frozenset()

    def lookup(self, name: str) -> Text | Host | None:
        """Raises ComposeError for a name that only a start could give a value."""
        if name in self.ruled:
            raise ComposeError(f"interpolates {name}, which the host_network rule sets ($${name} hands it on)")
        if name in self.harbor:
            return self.harbor[name]
        if name in self.task:
            template = template_of(self.task[name])
            return self.task[name] if template is None else Host(template.name, always=True, default=template.default)
        if name in self.listed:
            return Host(name)
        if name in self.env_file:
            raise ComposeError(f"it gives {name}, which the compose file uses (set it in task.toml's [environment].env)", ".env")
        if _OF_COMPOSE.fullmatch(name):
            raise ComposeError(f"{name} is set by compose itself when a stack starts")
        return None


def harbor_variables(environment: EnvironmentTable) -> dict[str, Text]:
    """Harbor's names with the meaning they have in a plan; those that Harbor leaves out are left out."""
    found: dict[str, Text] = {"CONTEXT_DIR": (ContextPart(),)}
    if environment.docker_image is not None:
        found["PREBUILT_IMAGE_NAME"] = environment.docker_image
    else:
        found["MAIN_IMAGE_NAME"] = (ImagePart(),)
    if environment.cpus is not None:
        found["CPUS"] = f"{environment.cpus:g}"
    if environment.memory_mb is not None:
        found["MEMORY"] = f"{environment.memory_mb}M"
    for key, name in _LOG_NAMES.items():
        found[f"HOST_{name}_PATH"] = (LogsPart(key),)
        found[f"ENV_{name}_PATH"] = LOG_DIRECTORIES[key]
    return found
