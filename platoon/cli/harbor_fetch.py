"""`platoon harbor fetch`, `lock` and `verify`: datasets into the cache, their locks, and whether both still hold."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

from platoon import exits
from platoon.cli.options import FILE, common, overrides_argument
from platoon.cli.screen import tell, tell_json
from platoon.config.text import counted, few, printable

if TYPE_CHECKING:
    from platoon.host.console import Console
    from platoon.pipeline.fetch import FetchedEntry
    from platoon.site import Site

WORKERS = click.IntRange(1, 64)


splits_option = click.option("--splits", is_flag=True, help="Name all tasks of each split; in JSON too, as splits.")


def _refuse_removed(context: click.Context, parameter: click.Parameter, value: str | None) -> None:
    from platoon.errors import ConfigError, Problem

    if value is not None:
        advice = {"lock": "set lock: in service_kwargs of the environment", "cache": "set cache: in the site file"}
        raise ConfigError(Problem("was removed", key=f"--{parameter.name}", advice=advice[str(parameter.name)]))


@click.command()
@click.argument("config", type=FILE)
@overrides_argument
@click.option("--update", is_flag=True, help="Resolve what moves: branches, tags, registries at URLs.")
@click.option("--repair", is_flag=True, help="Fetch and hash although the lock is current; nothing kept is trusted.")
@splits_option
@click.option("--workers", type=WORKERS, default=8, show_default=True, help="Downloads at a time.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object an entry.")
@click.option("--lock", hidden=True, expose_value=False, callback=_refuse_removed)
@click.option("--cache", hidden=True, expose_value=False, callback=_refuse_removed)
@common
def fetch(
    *,
    config: Path,
    overrides: tuple[str, ...],
    update: bool,
    repair: bool,
    splits: bool,
    workers: int,
    as_json: bool,
    site_path: Path | None,
    log_file: Path | None,
) -> None:
    """Fetch datasets into the cache and write their locks.

    CONFIG, a configuration or a file of environments, names them. Datasets that are pinned and here already are not fetched again.
    """
    from platoon.pipeline.datasets import fetch_tools
    from platoon.pipeline.fetch import fetch_entries

    with _working(site_path, log_file) as (site, console):
        tools = fetch_tools(site, console, workers=workers, repair=repair)
        rows = fetch_entries(config, site, tools, overrides, update=update)
    _print_entries(rows, as_json=as_json, splits=splits)


@click.command()
@click.argument("config", type=FILE)
@overrides_argument
@click.option("--check", is_flag=True, help="Make the locks again and name what differs first (exit 1); write no lock.")
@splits_option
@click.option("--json", "as_json", is_flag=True, help="One JSON object an entry.")
@common
def lock(
    *,
    config: Path,
    overrides: tuple[str, ...],
    check: bool,
    splits: bool,
    as_json: bool,
    site_path: Path | None,
    log_file: Path | None,
) -> None:
    """Lock datasets as fetch does, or check their locks.

    CONFIG names the datasets, as for fetch. Tasks that the cache lacks are fetched into it, for a check too. A task of one's own
    that cannot load is told as refused, where a run and prepare stop.
    """
    from platoon.pipeline.datasets import fetch_tools
    from platoon.pipeline.fetch import fetch_entries
    from platoon.pipeline.harbor_locks import check_locks

    with _working(site_path, log_file) as (site, console):
        tools = fetch_tools(site, console)
        if not check:
            rows = fetch_entries(config, site, tools, overrides)
        else:
            checked = list(check_locks(config, site, tools, overrides))
    if not check:
        _print_entries(rows, as_json=as_json, splits=splits)
        return
    for found in checked:
        if as_json:
            row = {"environment": found.environment, "lock": str(found.path), "lock_digest": found.lock.digest}
            differs = vars(found.difference) if found.difference is not None else None
            tell_json({**row, "same": differs is None, "difference": differs})
        elif found.difference is None:
            tell(f"{found.environment}: same, {counted(len(found.lock.tasks), 'task')}, {found.lock.digest}")
        else:
            tell(f"{found.environment}: {found.difference}")
    if any(found.difference is not None for found in checked):
        sys.exit(exits.FAILED)


@click.command()
@click.argument("path", metavar="CONFIG|LOCK", type=FILE)
@overrides_argument
@click.option("--cache", type=FILE, help="The Harbor cache of a LOCK; the site's when unset.")
@click.option("--task", "tasks", multiple=True, metavar="ID", help="Look at this task alone; repeatable.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object a fault.")
@common
def verify(
    *,
    path: Path,
    overrides: tuple[str, ...],
    cache: Path | None,
    tasks: tuple[str, ...],
    as_json: bool,
    site_path: Path | None,
    log_file: Path | None,
) -> None:
    """Hash the cached tasks of locks again.

    Prints a line for each that is missing or differs (exit 1).
    """
    from platoon.pipeline.datasets import say_warnings
    from platoon.pipeline.harbor_locks import verify_cache

    with _working(site_path, log_file) as (site, console):
        found = verify_cache(path, site, overrides, cache=cache, tasks=tasks)
        for label, warnings in found.warnings.items():
            say_warnings(console.say, label, warnings)
        advice = " (platoon harbor fetch CONFIG --repair fetches the others again)" if found.faults else ""
        console.say(f"{found.count - len(found.faults)} of {counted(found.count, 'task')} as locked{advice}")
    for fault in found.faults:
        if as_json:
            tell_json(vars(fault))
        else:
            tell(str(fault))
    if found.faults:
        sys.exit(exits.FAILED)


@contextmanager
def _working(site_path: Path | None, log_file: Path | None) -> Iterator[tuple[Site, Console]]:
    """Site and console; a signal ends what runs."""
    from platoon.host.console import Console
    from platoon.host.interrupts import Interrupts
    from platoon.site import load_site

    with Console(log_file=log_file) as console, Interrupts(console.say):
        yield load_site(site_path), console


def _print_entries(rows: Sequence[FetchedEntry], *, as_json: bool, splits: bool) -> None:
    if as_json:
        for row in rows:
            tell_json(row.to_dict(splits=splits))
    else:
        _print_table(rows, splits=splits)


def _print_table(rows: Sequence[FetchedEntry], *, splits: bool) -> None:
    from platoon.cli.screen import print_table, say, screen, short_digest

    cells = []
    for row in rows:
        held = f"{row.holdout['eval']} of {row.runnable}" if row.holdout else "-"
        counts = map(str, (row.tasks, row.excluded, row.runnable, row.fetched))
        cells.append((row.environment, *counts, held))
    console = screen()
    print_table(console, "datasets", cells, ("environment", "tasks", "excluded", "runnable", "fetched", "held out"))
    for row in rows:
        say(console, f"{row.environment}: lock {row.lock} ({short_digest(row.lock_digest)})")
        if not row.resolved.startswith("tree:"):
            say(console, f"{row.environment}: resolved to {row.resolved}")
        for split, ids in (row.splits or {}).items():
            names = ", ".join(map(printable, sorted(ids))) if splits else few(sorted(ids))
            say(console, f"{row.environment}: {split} has {f'{len(ids)}: {names}' if ids else 'no task'}")
        codes: dict[str, list[tuple[str, str]]] = {}
        for item in row.refused:
            code, _, why = item["refused"].partition(": ")
            codes.setdefault(code, []).append((item["task"], why))
        for code, tasks in codes.items():
            first = printable(": ".join(tasks[0]))
            say(console, f"{row.environment}: {len(tasks)} refused as {code}: {few([name for name, _ in tasks])} ({first})")
