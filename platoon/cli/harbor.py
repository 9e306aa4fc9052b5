"""`platoon harbor`: content hashes and fetches of Harbor datasets."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from platoon.cli.harbor_plan import plan
from platoon.cli.options import FILE, common

if TYPE_CHECKING:
    from platoon.errors import Problem


@click.group()
def harbor() -> None:
    """Hash tasks and fetch datasets."""


harbor.add_command(plan)


@harbor.command("hash")
@click.argument("directories", nargs=-1, required=True, type=FILE)
@click.option("--json", "as_json", is_flag=True, help="One JSON object a directory: directory, digest, rule, files.")
def hash_tasks(directories: tuple[Path, ...], as_json: bool) -> None:
    """Print the content hash of task directories."""
    from platoon.artifacts.digests import CONTENT_HASH_RULE
    from platoon.config.text import printable
    from platoon.envs.harbor.content import HASH_ERRORS, read_contents
    from platoon.errors import ConfigError, Problem

    for directory in directories:
        if directory.is_dir() and not (directory / "task.toml").is_file():
            raise ConfigError(_no_task(directory))
        try:
            contents = read_contents(directory)
        except HASH_ERRORS as error:
            raise ConfigError(Problem(f"has no content hash: {printable(str(error))}", file=printable(str(directory)))) from None
        if as_json:
            files = {file.path: file.digest for file in contents.files}
            row = {"directory": str(directory), "digest": contents.digest, "rule": CONTENT_HASH_RULE, "files": files}
            click.echo(json.dumps(row, ensure_ascii=True, sort_keys=True))
        else:
            click.echo(f"{contents.digest}  {directory}" if len(directories) > 1 else contents.digest)


def _no_task(directory: Path) -> Problem:
    from platoon.config.text import printable
    from platoon.errors import Problem

    shown = printable(str(directory))
    tasks = sorted(path.parent.name for path in directory.glob("*/task.toml"))
    advice = f"its children are tasks: platoon harbor hash {shown}/{printable(tasks[0])}, or {shown}/*" if tasks else ""
    return Problem("is no task: a task directory holds a task.toml", file=shown, advice=advice)


@harbor.command()
@click.argument("config", type=FILE)
@click.argument("overrides", nargs=-1, metavar="[KEY=VALUE]...")
@click.option("--json", "as_json", is_flag=True, help="One JSON object an entry.")
@common
def fetch(config: Path, overrides: tuple[str, ...], as_json: bool, site_path: Path | None, log_file: Path | None) -> None:
    """Fetch every dataset CONFIG names into the cache and write its lock."""
    from platoon.host.console import Console
    from platoon.pipeline.fetch import fetch_entries
    from platoon.site import load_site

    with Console(log_file=log_file) as console:
        rows = fetch_entries(config, load_site(site_path), console, overrides)
    if as_json:
        for row in rows:
            click.echo(json.dumps(row.to_dict(), ensure_ascii=False, sort_keys=True))
    else:
        _print_table(rows)


def _print_table(rows: list[Any]) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table("environment", "tasks", "runnable", "fetched", "held out", "lock", title="datasets", title_justify="left")
    for row in rows:
        held = f"{row.holdout['eval']} of {row.runnable}" if row.holdout else "-"
        table.add_row(row.environment, str(row.tasks), str(row.runnable), str(row.fetched), held, row.lock_digest[:19])
    console = Console()
    console.print(table)
    for row in rows:
        for code, (count, example) in row.refusals.items():
            console.print(f"{row.environment}: {count} refused as {code}, such as {example}", markup=False, highlight=False)
