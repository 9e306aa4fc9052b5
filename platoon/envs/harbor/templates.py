"""Values that take a variable of the host: `${NAME}` and `${NAME:-default}`, whole values alone. Text around one keeps it, a line
break in its default too, as with Harbor."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple

_TEMPLATE = re.compile(r"\$\{([^}:]+)(?::-(.*))?\}")


class Template(NamedTuple):
    """name: of the host's variable. default: what an unset one counts as, None where it has to be set."""

    name: str
    default: str | None


def template_of(value: str) -> Template | None:
    """The template that a value is; None for plain text."""
    found = _TEMPLATE.fullmatch(value)
    return None if found is None else Template(found[1], found[2])


def resolve_value(value: str, host: Mapping[str, str]) -> str:
    """A value of an environment table. Raises KeyError with the variable's name when one is unset and has no default."""
    template = template_of(value)
    if template is None:
        return value
    if template.name not in host and template.default is not None:
        return template.default
    return host[template.name]


def resolve_env(env: Mapping[str, str], host: Mapping[str, str]) -> dict[str, str]:
    """A whole table. Raises KeyError as `resolve_value` does."""
    return {name: resolve_value(value, host) for name, value in env.items()}
