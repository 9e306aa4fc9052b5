"""Options that several commands share."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

Command = TypeVar("Command", bound=Callable[..., Any])

# What a command makes of a path is its own to tell: missing or unreadable, it is refused in the same way.
FILE = click.Path(path_type=Path, readable=False)


RUN_NAME = r"(?!eval-)[a-z][a-z0-9_-]{0,63}"
EVALUATION_NAME = r"[a-z][a-z0-9_-]{0,63}"


class Name(click.ParamType):  # type: ignore[type-arg]  # older stubs of click know no parameter
    """A name that becomes a directory, in the shape the workflow's rules take."""

    name = "name"

    def __init__(self, pattern: str) -> None:
        self._pattern = re.compile(pattern)

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> str:
        if not self._pattern.fullmatch(str(value)):
            beyond = " that does not begin with eval-" if self._pattern.pattern == RUN_NAME else ""
            shape = f"a lower-case letter, then lower-case letters, digits, _ or -, at most 64 in all{beyond}"
            self.fail(f"{value!r} is no name: {shape}", param, ctx)
        return str(value)


class Override(click.ParamType):  # type: ignore[type-arg]  # as above
    """`key=value` or `key+=item`; what the key takes is for the configuration to say."""

    name = "override"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> str:
        from platoon.config.layers import override_fault

        if (rule := override_fault(str(value))) is not None:
            self.fail(rule, param, ctx)
        return str(value)


overrides_argument = click.argument("overrides", nargs=-1, metavar="[KEY=VALUE]...", type=Override())


def common(command: Command) -> Command:
    """`--site` and `--log-file`."""
    command = click.option("--log-file", type=FILE, help="Plain lines of progress are appended here.")(command)
    return click.option("--site", "site_path", type=FILE, help="Site file; else PLATOON_SITE, else the user's.")(command)


def requeuing(command: Command) -> Command:
    """`--requeue`."""
    text = "When the time budget ends it and it got further, put the Slurm job it is in back into the queue, if it may be."
    return click.option("--requeue", is_flag=True, help=text)(command)


def out(help_text: str) -> Callable[[Command], Command]:
    """A required `--out`."""
    return click.option("--out", required=True, type=FILE, help=help_text)
