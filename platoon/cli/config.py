"""`platoon config`: checks and shows configurations without running them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from platoon.cli.options import FILE, overrides_argument
from platoon.cli.screen import tell, tell_json


@click.group()
def config() -> None:
    """Check and show configurations."""


@config.command()
@click.argument("files", nargs=-1, required=True, type=FILE)
@click.option("--tasks", is_flag=True, help="Fetch the datasets too, which reads every task.")
@click.option("--site", "site_path", type=FILE, help="Site file; else PLATOON_SITE, else the user's.")
def validate(files: tuple[Path, ...], tasks: bool, site_path: Path | None) -> None:
    """Check recipes and configurations, whole.

    Every problem of all FILES is reported at once (exit 78).
    """
    from platoon.errors import ConfigError, Problem
    from platoon.host.console import Console
    from platoon.pipeline.check import check_file
    from platoon.site import load_site

    site = load_site(site_path)
    problems: list[Problem] = []
    with Console() as console:
        for path in files:
            try:
                checked = check_file(path, site, console, tasks=tasks)
            except ConfigError as error:
                problems.extend(error.problems)
            else:
                tell(f"{path}: {checked}")
    if problems:
        raise ConfigError(dict.fromkeys(problems))


@config.command()
@click.argument("file", type=FILE)
@overrides_argument
@click.option("--json", "as_json", is_flag=True, help="Print the resolved values as one JSON object.")
@click.option("--defaults", is_flag=True, help="Show keys that were not given too.")
@click.option("--site", "site_path", type=FILE, help="Site file; else PLATOON_SITE, else the user's.")
def show(file: Path, overrides: tuple[str, ...], as_json: bool, defaults: bool, site_path: Path | None) -> None:
    """Show each resolved value of FILE and where it comes from."""
    import json

    from platoon.config.load import load
    from platoon.pipeline.kinds import model_of
    from platoon.pipeline.resolve import resolve
    from platoon.site import load_site

    resolved = resolve(file, load_site(site_path), overrides)
    if as_json:
        tell_json(resolved.values)
        return
    loaded = load(file, overrides)
    values = loaded.build(model_of(resolved.kind)).plain() if defaults else resolved.values
    for path, value in _leaves(values):
        given = loaded.layered.origins.get(path)
        if given is None and path[2:3] in (("workflow_config",), ("eval_overrides",)):
            continue  # what an entry does not say comes from the run's settings, not from a default
        source = given or ("default" if defaults else "site")
        tell(f"{'.'.join(path)}: {json.dumps(value, ensure_ascii=False)}  ({source})")


def _leaves(value: Any, path: tuple[str, ...] = ()) -> Any:
    if isinstance(value, dict) and value:
        for key in value:
            yield from _leaves(value[key], (*path, key))
    elif isinstance(value, list) and any(isinstance(item, dict | list) for item in value):
        for number, item in enumerate(value):
            yield from _leaves(item, (*path, str(number)))
    else:
        yield path, value
