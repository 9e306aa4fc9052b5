"""Names of what can be chosen in a configuration: built-in ones from a table, else `module:Name` of the user's own code.

Code is imported when it is named, and not before.
"""

from __future__ import annotations

import difflib
import importlib
from collections.abc import Mapping
from typing import Any

from platoon.errors import ConfigError, Problem


def find(kind: str, name: str, built_in: Mapping[str, str], *, key: str) -> Any:
    """What `name` stands for. kind: how a person calls it. built_in: `module:Name` by name. key: of the setting that names it.

    Raises ConfigError for a name in neither form and for code that does not import.
    """
    reference = built_in.get(name, name)
    if ":" not in reference:
        known = ", ".join(sorted(built_in))
        near = difflib.get_close_matches(name, built_in, n=1)
        advice = f"did you mean {near[0]}? " if near else ""
        raise ConfigError(
            Problem(
                f"no {kind} is called {name!r}; there is: {known}",
                key=key,
                advice=f"{advice}Name one of them, or give your own as `module:Name`",
            )
        )
    return load(kind, reference, key=key)


def load(kind: str, reference: str, *, key: str) -> Any:
    """What `module:Name` names. Raises ConfigError for code that does not import."""
    module, _, attribute = reference.partition(":")
    try:
        return getattr(importlib.import_module(module), attribute)
    except Exception as error:  # because importing runs the module, which may raise anything
        raise ConfigError(Problem(f"{kind} {reference!r} does not import: {type(error).__name__}: {error}", key=key)) from error
