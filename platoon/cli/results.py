"""Commands over a results folder: summary, verify."""

from __future__ import annotations

from pathlib import Path

import click

from platoon.cli.options import FILE, common, out
from platoon.config.text import counted
from platoon.pipeline.layout import DEFAULT_RECIPE, DEFAULT_RESULTS


@click.command()
@click.argument("receipts", nargs=-1, required=True, type=FILE)
@out("The summary to write.")
@click.option("--log-file", type=FILE, help="Plain lines of progress are appended here.")
def summary(receipts: tuple[Path, ...], out: Path, log_file: Path | None) -> None:
    """Write the headline figures of RECEIPTS by run and evaluation."""
    from platoon.artifacts.publish import publish_json
    from platoon.artifacts.receipts import read_receipt
    from platoon.host.console import Console
    from platoon.pipeline.summary import summarise

    with Console(log_file=log_file) as console:
        console.progress("summary", f"{counted(len(receipts), 'receipt')}")
        publish_json(out, summarise(read_receipt(path) for path in receipts))


@click.command()
@click.argument("targets", nargs=-1, metavar="[RECIPE] [RUN]...")
@click.option("--recipe", "recipe_path", type=FILE, help=f"The recipe; else the first argument, else {DEFAULT_RECIPE}.")
@click.option("--results", type=FILE, default=DEFAULT_RESULTS, show_default=True, help="Folder whose inputs are compared.")
@common
def verify(
    targets: tuple[str, ...], recipe_path: Path | None, results: Path, site_path: Path | None, log_file: Path | None
) -> None:
    """Make the inputs of each RUN again in an empty place and compare the bytes (exit 1 when one differs).

    RECIPE is the file; RUN a run of it or eval-NAME, all where none is given.
    """
    from platoon.errors import PlatoonError
    from platoon.host.console import Console
    from platoon.pipeline.recipe import open_recipe
    from platoon.pipeline.verify import verify as verify_units
    from platoon.site import load_site

    # No name of a run has a dot or a slash.
    if recipe_path is None and targets and {".", "/"} & set(targets[0]):
        recipe_path, targets = Path(targets[0]), targets[1:]
    recipe_path = recipe_path or DEFAULT_RECIPE
    with Console(log_file=log_file) as console:
        recipe = open_recipe(recipe_path)
        found = verify_units(recipe, recipe_path.parent, results, targets, site=load_site(site_path), console=console)
        if found is not None:
            raise PlatoonError(str(found))
        console.say(f"verified: {', '.join(targets or recipe.units)}")
