"""Entry point: finds the command, runs it, turns errors into one clear text and an exit code of `platoon.exits`."""

from __future__ import annotations

import importlib
import os
import sys
from contextlib import nullcontext, suppress
from typing import Any

import click

from platoon import exits
from platoon.cli.problems import told
from platoon.cli.screen import give_up_results, open_streams, warn
from platoon.config.text import short_path
from platoon.errors import PlatoonError
from platoon.host.interrupts import Interrupts, handlers_restored
from platoon.host.utf8 import ensure_utf8

# Command -> (module below platoon.cli, one line for the listing). The attribute in the module bears the command's name, `-` as `_`.
COMMANDS: dict[str, tuple[str, str]] = {
    "report": ("report", "write the report page from receipts"),
    "eval": ("eval", "evaluate weights on a split of tasks"),
    "rollout": ("rollout", "play one task and show what happened"),
    "train": ("train", "train a run, or go on with it"),
    "sandbox": ("sandbox", "end what dead runs left in sandboxes"),
    "show": ("show", "show the headline figures of a results folder"),
    "local": ("local", "the embedded Tinker-compatible service"),
    "config": ("config", "check and show configurations"),
    "docs": ("docs", "generate reference pages and schemas"),
    "harbor": ("harbor", "hash tasks and fetch datasets"),
    "images": ("images", "read what images hold"),
    "image-map": ("inputs", "write where each image of a plan is"),
    "lock": ("inputs", "lock the data of a resolved configuration"),
    "plan": ("inputs", "name the images that tasks need"),
    "prepare": ("prepare", "make everything that runs will read"),
    "resolve": ("inputs", "write a configuration in canonical form"),
    "summary": ("results", "write the headline figures of receipts"),
    "verify": ("results", "make inputs again and compare the bytes"),
}


class LazyGroup(click.Group):
    """A group that imports a command's module when the command is asked for, not before, and whose commands signals unwind."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        module = importlib.import_module(f"platoon.cli.{COMMANDS[cmd_name][0]}")
        command: click.Command = getattr(module, cmd_name.replace("-", "_"))
        return command

    def invoke(self, ctx: click.Context) -> Any:
        with Interrupts(warn):
            return super().invoke(ctx)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, COMMANDS[name][1]) for name in self.list_commands(ctx)])


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="platoon")
def platoon() -> None:
    """Train systems of LLM agents on sandboxed tasks, reproducibly."""


def main(arguments: list[str] | None = None) -> None:
    """Runs the command line, of this process where `arguments` is None, and exits with a code of `platoon.exits`.

    A caller who gives arguments and catches the exit has its signal handlers back.
    """
    with nullcontext() if arguments is None else handlers_restored():
        _run(arguments)


def _run(arguments: list[str] | None) -> None:
    # Long texts are tokenized one at a time, in threads that exist already: a pool of its own would only warn of forks.
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    open_streams()
    try:
        if arguments is None:
            ensure_utf8()
        platoon.main(args=arguments, standalone_mode=False)
    except click.exceptions.Exit as stop:
        sys.exit(stop.exit_code)
    except click.Abort:
        sys.exit(exits.INTERRUPTED)
    except click.ClickException as error:
        with suppress(OSError):
            error.show()
        sys.exit(exits.USAGE)
    except PlatoonError as error:
        warn(told(error))
        sys.exit(error.exit_code)
    except OSError as error:
        warn(f"platoon: {short_path(str(error.filename or 'the system'))}: {error.strerror or error}")
        give_up_results()
        sys.exit(exits.FAILED)
    sys.exit(exits.DONE)
