"""`platoon prepare`: everything that runs will read, made by the workflow."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from platoon.cli.options import FILE, common


@click.command(context_settings={"ignore_unknown_options": True})
@click.argument("config", type=FILE)
@click.argument("extra", nargs=-1, metavar="[SNAKEMAKE OPTIONS]...", type=click.UNPROCESSED)
@click.option("--dry-run", is_flag=True, help="Tell what would be done; exit 1 when that is anything.")
@click.option("--profile", default="local", show_default=True, help="Workflow profile: a shipped one, or a folder.")
@common
def prepare(
    *, config: Path, extra: tuple[str, ...], dry_run: bool, profile: str, site_path: Path | None, log_file: Path | None
) -> None:
    """Make the inputs of every run and evaluation of a recipe, or of one configuration: below results/ of this folder.

    A recipe goes through the workflow, which gets the options that are not ours. A configuration alone is made in this process.
    """
    from platoon.config.load import load
    from platoon.host.console import Console
    from platoon.pipeline.check import check_recipe
    from platoon.pipeline.inputs import build_inputs
    from platoon.pipeline.kinds import is_recipe, kind_of
    from platoon.pipeline.layout import EVALUATION_PREFIX, inputs_of
    from platoon.pipeline.prepare import prepare as run_workflow
    from platoon.site import load_site

    with Console(log_file=log_file) as console:
        site = load_site(site_path)
        values = load(config).values
        if is_recipe(values):
            check_recipe(config, site, console)
            sys.exit(run_workflow(config, site=site_path, profile=profile, dry_run=dry_run, extra=extra, console=console))
        if extra or dry_run:
            given = [*(["--dry-run"] if dry_run else []), *extra]
            raise click.UsageError(f"{' '.join(given)}: options of the workflow, which only a recipe goes through")
        unit = f"{EVALUATION_PREFIX if kind_of(values, config) == 'evaluation' else ''}{config.stem}"
        directory = inputs_of(Path("results"), unit)
        build_inputs(config, directory, site, console)
        console.say(f"ready: {directory}")
