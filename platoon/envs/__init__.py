"""Environments: services that hold tasks and open a session for each rollout."""

from __future__ import annotations

import inspect
from typing import Any, cast

from platoon import registry
from platoon.core.protocols import EnvironmentService
from platoon.errors import ConfigError, Problem

__all__ = ["SERVICES", "get_service", "service_problem"]

SERVICES: dict[str, str] = {"harbor": "platoon.envs.harbor.service:HarborService"}
KIND = "environment service"


def service_problem(name: str, *, key: str) -> Problem | None:
    """Why `name` can be no service; the user's own code is not imported for it."""
    return registry.name_problem(KIND, name, SERVICES, key=key)


def get_service(name: str, **kwargs: Any) -> EnvironmentService:
    """The service `name`: a built-in one, or any factory as `module:Class`, called with `kwargs`.

    Harbor takes the entry's `service_kwargs` beside the keywords of `HarborService`. Raises ConfigError for a name that is none and
    for keywords the factory does not take.
    """
    factory = registry.find(KIND, name, SERVICES, key="service")
    if name in SERVICES:
        own = {key for key in inspect.signature(factory).parameters if key != "options"}
        # `provider` is a name in an entry's options, and a built provider for the factory.
        own = {key for key in own if key != "provider" or not isinstance(kwargs.get(key), str | None)}
        options = kwargs.pop("options", None) or {key: value for key, value in kwargs.items() if key not in own}
        kwargs = {"options": options, **{key: value for key, value in kwargs.items() if key in own}}
    try:
        inspect.signature(factory).bind(**kwargs)
    except TypeError as error:
        raise ConfigError(Problem(f"service {name!r}: {error}", key="service_kwargs")) from error
    return cast(EnvironmentService, factory(**kwargs))
