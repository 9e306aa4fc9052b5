"""Names of what can be chosen in a configuration: built-in ones from a table, else `module:Name` of the user's own code.

Code is imported when it is named, and not before.
"""

from __future__ import annotations

import difflib
import importlib
from collections.abc import Mapping
from typing import Any

from platoon.errors import ConfigError, Problem

# Of a name, or of `module:Name`: more is a slip, and would be repeated in every message.
MOST_CHARACTERS = 200


def find(kind: str, name: str, built_in: Mapping[str, str], *, key: str) -> Any:
    """What `name` stands for. kind: how a person calls it. built_in: `module:Name` by name. key: of the setting that names it.

    Raises ConfigError for a name in neither form and for code that does not import.
    """
    if (problem := name_problem(kind, name, built_in, key=key)) is not None:
        raise ConfigError(problem)
    return load(kind, built_in.get(name, name), key=key)


def name_problem(kind: str, name: str, built_in: Mapping[str, str], *, key: str) -> Problem | None:
    """Why `name` can stand for nothing, None when it has one of the two forms; imports nothing."""
    if (problem := _too_long(kind, name, key)) is not None:
        return problem
    if ":" in built_in.get(name, name):
        return None
    known = ", ".join(sorted(built_in))
    near = difflib.get_close_matches(name, built_in, n=1)
    advice = f"did you mean {near[0]}? " if near else ""
    rule = f"no {kind} is called {name!r}; there is: {known}"
    return Problem(rule, key=key, advice=f"{advice}Name one of them, or give your own as `module:Name`")


def load(kind: str, reference: str, *, key: str) -> Any:
    """What `module:Name` names. Raises ConfigError for code that does not import."""
    if (problem := _too_long(kind, reference, key)) is not None:
        raise ConfigError(problem)
    module, _, attribute = reference.partition(":")
    try:
        return getattr(importlib.import_module(module), attribute)
    except Exception as error:  # because importing runs the module, which may raise anything
        raise ConfigError(Problem(f"{kind} {reference!r} does not import: {type(error).__name__}: {error}", key=key)) from error


def _too_long(kind: str, name: str, key: str) -> Problem | None:
    if len(name) <= MOST_CHARACTERS:
        return None
    return Problem(f"no {kind} has a name of {len(name)} characters: {MOST_CHARACTERS} are the most", key=key)
