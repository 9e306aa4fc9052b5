"""Which sandbox provider an entry uses, and why there is no such one: judged before anything is fetched."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from platoon.config.model import nearest
from platoon.errors import ConfigError, Problem
from platoon.sandbox.registry import BUILT_IN, provider_class

DEFAULT_PROVIDER = "docker"
Entries = Iterable[tuple[int, str, Mapping[str, Any]]]


def provider_of(entry: Mapping[str, Any]) -> str:
    """The provider of a resolved Harbor entry."""
    return str(entry["service_kwargs"].get("provider") or DEFAULT_PROVIDER)


def provider_key(number: int) -> str:
    """Where an entry names its provider."""
    return f"environments.{number}.service_kwargs.provider"


def provider_problems(
    entries: Entries, named_in: Callable[[int], tuple[str, str]] = lambda number: ("", provider_key(number))
) -> Iterator[Problem]:
    """What is wrong with the sandbox provider of each Harbor entry: every rollout would fail on it.

    entries: place, label and entry. named_in: file and key that name the provider of the entry at a place.
    """
    for number, _, entry in entries:
        name = provider_of(entry)
        try:
            provider_class(name)
        except ConfigError as error:
            near = nearest(name, BUILT_IN)
            advice = near if near.startswith("did") else "set `provider: process` there or in the site file"
            file, key = named_in(number)
            yield from (Problem(problem.rule, key=key, file=file, advice=advice) for problem in error.problems)


def check_providers(entries: Entries) -> None:
    """Raises ConfigError with what is wrong with the sandbox providers of resolved entries."""
    if problems := list(provider_problems(entries)):
        raise ConfigError(problems)
