"""Providers by name, and what can be asked of a provider's class before one is built.

`get_provider` takes a built-in name or `module:Class`. The questions (`provider_unavailable`, `network_none_refusal`, ...) take a
name with options, or a built provider, and return why not, None meaning that nothing is known to be in the way.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from platoon import registry
from platoon.errors import ConfigError, Problem
from platoon.sandbox.base import SandboxProvider

BUILT_IN: dict[str, str] = {"process": "platoon.sandbox.process.provider:ProcessProvider"}


def provider_class(name: str) -> type[Any]:
    """Imports a provider's class. Raises ConfigError for a name that is none."""
    found = registry.find("sandbox provider", name, BUILT_IN, key="provider")
    if not isinstance(found, type):
        raise ConfigError(Problem(f"sandbox provider {name!r} is no class", key="provider"))
    return found


def get_provider(name: str, **options: Any) -> SandboxProvider:
    """Builds a provider. Raises ConfigError for an unknown name, options it does not take, or one that cannot work here."""
    cls = provider_class(name)
    reason = provider_unavailable(name, options)
    if reason is not None:
        raise ConfigError(Problem(f"sandbox provider {name!r} cannot be used here: {reason}", key="provider"))
    try:
        return cast(SandboxProvider, cls(**options))
    except TypeError as error:
        raise ConfigError(Problem(f"sandbox provider {name!r}: {error}", key="provider_options")) from error


def ask(question: str, provider: str | SandboxProvider, options: Mapping[str, Any] | None = None) -> Any:
    """Asks a provider's class a question; None where it has no answer or does not import (building it reports that)."""
    if isinstance(provider, str):
        try:
            cls = provider_class(provider)
        except ConfigError:
            return None
    else:
        cls, options = type(provider), provider.options
    method = getattr(cls, question, None)
    return None if method is None else method(dict(options or {}))


def provider_unavailable(provider: str | SandboxProvider, options: Mapping[str, Any] | None = None) -> str | None:
    """Why the provider cannot be used on this host; here a class that does not import is an answer too."""
    if isinstance(provider, str):
        try:
            provider_class(provider)
        except ConfigError as error:
            return str(error)
    return cast("str | None", ask("unavailable", provider, options))


def network_none_refusal(provider: str | SandboxProvider, options: Mapping[str, Any] | None = None) -> str | None:
    """Why every sandbox without a network would be refused."""
    return cast("str | None", ask("network_none_refusal", provider, options))


def rootfs_layout_refusal(provider: str | SandboxProvider, options: Mapping[str, Any] | None = None) -> str | None:
    """Why the root filesystem layout asked for cannot be given."""
    return cast("str | None", ask("rootfs_layout_refusal", provider, options))


def root_refusal(provider: str | SandboxProvider, options: Mapping[str, Any] | None = None) -> str | None:
    """Why commands cannot be root with other users to switch to."""
    return cast("str | None", ask("root_refusal", provider, options))


def stack_refusal(provider: str | SandboxProvider, options: Mapping[str, Any] | None = None) -> str | None:
    """Why stacks of several services cannot run."""
    return cast("str | None", ask("stack_refusal", provider, options))


def privilege_refusal(provider: str | SandboxProvider, options: Mapping[str, Any] | None = None) -> str | None:
    """Why a stack's privileges would not be given."""
    return cast("str | None", ask("privilege_refusal", provider, options))


def loses_file_owners(provider: str | SandboxProvider, options: Mapping[str, Any] | None = None) -> bool:
    """Whether images lose the owners of their files here."""
    return bool(ask("loses_file_owners", provider, options))


def file_owners_refusal(provider: str | SandboxProvider, options: Mapping[str, Any] | None = None) -> str | None:
    """Why an owner manifest cannot be applied."""
    return cast("str | None", ask("file_owners_refusal", provider, options))
