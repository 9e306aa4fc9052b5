"""`platoon train`: trains one run until its plan is done, and writes its receipt."""

from __future__ import annotations

import json
import re
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import click

from platoon.cli.options import FILE, RUN_NAME, Name, overrides_argument, requeuing
from platoon.cli.problems import of_configuration

if TYPE_CHECKING:
    from platoon.config.load import LoadedConfig
    from platoon.host.console import Console
    from platoon.site import Site
    from platoon.train.config_defs.training import StatsConfig
    from platoon.train.trainer.build import TrainInputs

DURATION = re.compile(r"(?P<number>[0-9]+(\.[0-9]+)?)(?P<unit>[smhd]?)")
SECONDS = {"": 60.0, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}


class Duration(click.ParamType):  # type: ignore[type-arg]  # older stubs of click know no parameter
    """`720m`, `12h`, `90s`; a bare number is minutes. Seconds as a float."""

    name = "duration"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> float:
        found = DURATION.fullmatch(str(value))
        if found is None or float(found["number"]) == 0:
            self.fail(f"{value!r} is no duration such as 720m, 12h or 90s", param, ctx)
        return float(found["number"]) * SECONDS[found["unit"]]


@click.command()
@click.argument("config", type=FILE)
@overrides_argument
@click.option("--inputs", type=FILE, help="Directory of resolved inputs; without it they are built.")
@click.option("--run", "name", type=Name(RUN_NAME), help="Name of the run, and of its directory below the site's runs.")
@click.option("--run-dir", type=FILE, help="Directory of the run, in place of --run.")
@click.option("--receipt", type=FILE, help="Where the receipt goes when the run is done.")
@click.option("--from", "parent", type=FILE, help="Receipt of the run whose weights this one starts from.")
@click.option("--time-budget", type=Duration(), help="Stop early enough to save within this time (720m).")
@requeuing
@click.option("--log-file", type=FILE, help="Plain lines are appended here too.")
@click.option("--site", type=FILE, help="Site file; else PLATOON_SITE, else the user's.")
def train(  # noqa: PLR0917  because click passes options by name
    config: Path,
    overrides: tuple[str, ...],
    inputs: Path | None,
    name: str | None,
    run_dir: Path | None,
    receipt: Path | None,
    parent: Path | None,
    time_budget: float | None,
    requeue: bool,
    log_file: Path | None,
    site: Path | None,
) -> None:
    """Train the run that CONFIG describes, or go on with it.

    Its directory is --run-dir; or that of --run below the site's runs; or else EXPERIMENT/TRIAL below log_path, or below the
    site's runs where CONFIG has no log_path. EXPERIMENT is stats.experiment_name, or the file name of CONFIG without its ending;
    TRIAL is stats.trial_name, or "run". So rl.yaml alone goes to rl/run.
    """
    started_at = time.monotonic()
    from platoon.host.console import Console
    from platoon.host.interrupts import Interrupts

    with of_configuration(config, overrides), Console(log_file=log_file) as console, Interrupts(console.say):
        from platoon.site import load_site
        from platoon.train.launch import TrainRequest
        from platoon.train.launch import train as launch

        console.progress("reading", str(config))
        place = load_site(site)
        directory, runs = _run_directory(config, overrides, name, run_dir, place)
        found = _inputs(config, overrides, inputs, place, console)
        request = TrainRequest(
            run=name or directory.name,
            run_dir=directory,
            state_dir=place.state_dir(runs),
            inputs=found,
            receipt=receipt,
            parent=parent,
            time_budget_s=time_budget,
            budget_started_at=started_at,
            requeue=requeue,
        )
        code = launch(request, console)
    sys.exit(code)


def _inputs(config: Path, overrides: tuple[str, ...], made: Path | None, site: Site, console: Console) -> TrainInputs:
    """What the run is made from, `made` or not yet."""
    from platoon.pipeline.entries import task_digests
    from platoon.pipeline.inputs import opened_inputs
    from platoon.pipeline.played import played_entries
    from platoon.train.config_defs.run import RunConfig
    from platoon.train.trainer.build import TrainInputs

    with opened_inputs("train", config, overrides, made, site=site, console=console) as found:
        # Through JSON, as strict models want it.
        model = RunConfig.model_validate_json(json.dumps(found.values))
        entries = played_entries(found, model, config.parent)
        return TrainInputs(model, config.parent, found.digests, task_digests(entries), found.chat, entries)


def _run_directory(
    config: Path, overrides: tuple[str, ...], name: str | None, run_dir: Path | None, site: Site
) -> tuple[Path, Path]:
    """The directory of the run and the root it lies below, its parent where the run was given a directory of its own.

    `--run-dir`; else the name below the site's runs; else the names that `stats:` gives, below `log_path` or the site's runs.
    """
    from platoon.config.load import load
    from platoon.errors import ConfigError, Problem
    from platoon.train.run_directory.place import refuse_place

    if run_dir is not None:
        directory, runs = run_dir.absolute(), run_dir.absolute().parent
        refuse_place(directory, site.state_dir(runs), "--run-dir")
        return directory, runs
    loaded = load(config, overrides)
    values = loaded.values
    log_path = values.get("log_path")
    named = Path(log_path) if isinstance(log_path, str) else None
    root = (site.runs or named) if name is not None else (named or site.runs)
    if root is None:
        advice = "set runs: in the site file, log_path: here, or give --run-dir"
        raise ConfigError(Problem("nothing says where runs go", key="log_path", file=str(config), advice=advice))
    below = name
    if below is None:
        stats = _stats(loaded)
        below = f"{stats.experiment_name or config.stem}/{stats.trial_name}"
    refuse_place((root / below).absolute(), site.state_dir(root.absolute()), "log_path" if root == named else "runs")
    return (root / below).absolute(), root.absolute()


def _stats(loaded: LoadedConfig) -> StatsConfig:
    """The names that a configuration gives its run. Raises ConfigError with every problem of it when they are none."""
    from pydantic import ValidationError

    from platoon.train.config_defs.run import RunConfig
    from platoon.train.config_defs.training import StatsConfig

    try:
        return StatsConfig.model_validate(loaded.values.get("stats") or {})
    except ValidationError:
        return loaded.build(RunConfig).stats
