"""`platoon train`: trains one run until its plan is done, and writes its receipt."""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from platoon.train.trainer.build import TrainInputs

DURATION = re.compile(r"(?P<number>\d+(\.\d+)?)(?P<unit>[smhd]?)")
SECONDS = {"": 60.0, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}


class Duration(click.ParamType):
    """`720m`, `12h`, `90s`; a bare number is minutes. Seconds as a float."""

    name = "duration"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> float:
        found = DURATION.fullmatch(str(value))
        if found is None or float(found["number"]) == 0:
            self.fail(f"{value!r} is no duration such as 720m, 12h or 90s", param, ctx)
        return float(found["number"]) * SECONDS[found["unit"]]


@click.command()
@click.argument("config", type=click.Path(path_type=Path))
@click.argument("overrides", nargs=-1, metavar="[KEY=VALUE]...")
@click.option("--inputs", type=click.Path(path_type=Path), help="Directory of resolved inputs; without it they are built.")
@click.option("--run", "name", help="Name of the run; its directory lies below the site's runs.")
@click.option("--run-dir", type=click.Path(path_type=Path), help="Directory of the run, in place of a name.")
@click.option("--receipt", type=click.Path(path_type=Path), help="Where the receipt goes when the run is done.")
@click.option("--from", "parent", type=click.Path(path_type=Path), help="Receipt of the run whose weights this one starts from.")
@click.option("--time-budget", type=Duration(), help="Stop early enough to save within this time (720m).")
@click.option("--log-file", type=click.Path(path_type=Path), help="Plain lines are appended here too.")
@click.option("--site", type=click.Path(path_type=Path), help="Site file; else PLATOON_SITE, else the user's.")
def train(  # noqa: PLR0917  because click passes options by name
    config: Path,
    overrides: tuple[str, ...],
    inputs: Path | None,
    name: str | None,
    run_dir: Path | None,
    receipt: Path | None,
    parent: Path | None,
    time_budget: float | None,
    log_file: Path | None,
    site: Path | None,
) -> None:
    """Trains the run that CONFIG describes, or goes on with it."""
    started_at = time.monotonic()
    from platoon.host.console import Console
    from platoon.train.launch import TrainRequest
    from platoon.train.launch import train as launch

    with Console(log_file=log_file) as console:
        console.progress("reading", str(config))
        found, directory = _inputs(config, overrides, inputs, name=name, run_dir=run_dir, site_file=site)
        request = TrainRequest(
            run=name or directory.name,
            run_dir=directory,
            inputs=found,
            receipt=receipt,
            parent=parent,
            time_budget_s=time_budget,
            budget_started_at=started_at,
        )
        code = launch(request, console)
    sys.exit(code)


def _inputs(
    config: Path,
    overrides: Sequence[str],
    inputs: Path | None,
    *,
    name: str | None,
    run_dir: Path | None,
    site_file: Path | None,
) -> tuple[TrainInputs, Path]:
    """What the run is made from, and its directory."""
    from platoon.artifacts.digests import file_digest
    from platoon.config.load import load
    from platoon.errors import ConfigError, Problem
    from platoon.site import load_site
    from platoon.train.config_defs.run import RunConfig
    from platoon.train.trainer.build import TrainInputs

    site = load_site(site_file)
    if inputs is not None and overrides:
        raise ConfigError(Problem("resolved inputs take no overrides", key=overrides[0], advice="give them to platoon resolve"))
    source = config if inputs is None else inputs / "config.yaml"
    loaded = load(source, overrides)
    model = loaded.build(RunConfig)
    root = site.runs or (Path(model.log_path) if model.log_path is not None else None)
    if run_dir is None and root is None:
        advice = "set runs: in the site file, log_path: here, or give --run-dir"
        raise ConfigError(Problem("says where runs go nowhere", key="log_path", file=str(config), advice=advice))
    if run_dir is None:
        assert root is not None
        run_dir = root / (name or f"{model.stats.experiment_name or config.stem}/{model.stats.trial_name}")
    files = sorted(inputs.iterdir()) if inputs is not None else []
    digests = {path.name: file_digest(path) for path in files}
    identity = {key: digests[key] for key in ("datasets.lock.json", "image_map.json") if key in digests}
    return TrainInputs(model, config.parent.absolute(), digests, identity), run_dir.absolute()
