"""`platoon prepare`: everything that runs will read, made by the workflow."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from platoon.cli.options import FILE, common


@click.command(context_settings={"ignore_unknown_options": True})
@click.argument("config", type=FILE)
@click.argument("extra", nargs=-1, metavar="[SNAKEMAKE OPTIONS]...", type=click.UNPROCESSED)
@click.option("--dry-run", "--dryrun", "-n", is_flag=True, help="Tell what would be done; exit 1 when that is anything.")
@click.option("--profile", default="local", show_default=True, help="Workflow profile: a shipped one, or a folder.")
@common
def prepare(
    *, config: Path, extra: tuple[str, ...], dry_run: bool, profile: str, site_path: Path | None, log_file: Path | None
) -> None:
    """Make the inputs of every run and evaluation of a recipe, or of one configuration: below results/ of this folder.

    A recipe goes through the workflow, which gets the options that are not ours. The inputs of a configuration alone are made in
    this process, in results/PATH.inputs, for `--inputs` of train and eval.
    """
    from platoon.config.load import load
    from platoon.host.console import Console
    from platoon.pipeline.check import check_config, check_recipe
    from platoon.pipeline.inputs import build_inputs
    from platoon.pipeline.kinds import is_recipe
    from platoon.pipeline.layout import DEFAULT_RESULTS, inputs_of_config
    from platoon.pipeline.played import check_played
    from platoon.pipeline.prepare import prepare as run_workflow
    from platoon.site import load_site

    with Console(log_file=log_file) as console:
        site = load_site(site_path)
        values = load(config).values
        if is_recipe(values):
            recipe = check_recipe(config, site, console)
            sys.exit(run_workflow(config, recipe, site=site_path, profile=profile, dry_run=dry_run, extra=extra, console=console))
        if extra or dry_run:
            given = [*(["--dry-run"] if dry_run else []), *extra]
            raise click.UsageError(f"{' '.join(given)}: options of the workflow, which only a recipe goes through")
        check_config(config, site, console)
        directory = inputs_of_config(DEFAULT_RESULTS, config)
        check_played(build_inputs(config, directory, site, console), config.parent)
        console.say(f"ready: {directory}")
