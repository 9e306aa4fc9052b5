# What every stage shares: the recipe, the command, the shape of names.

import atexit
import os
import shlex
import sys
from functools import cache
from pathlib import Path

from snakemake.exceptions import WorkflowError

from platoon.errors import ConfigError
from platoon.pipeline.outcome import ASKED, tell
from platoon.pipeline.recipe import open_recipe
from platoon.pipeline.sources import read_sources
from platoon.report.figures import FIGURES

try:
    RECIPE = open_recipe(Path(str(config["recipe"])))
except ConfigError as error:
    # Snakemake shows what it does not know with the frames of our code.
    raise WorkflowError(
        f"{error}\nWhat is wrong with a recipe and all that it names:"
        f" platoon config validate {config['recipe']}"
    ) from None

UNITS = [*RECIPE.runs, *(f"eval-{name}" for name in RECIPE.evaluations)]
# Each configuration is read once, however many rules and units ask for its files.
sources = cache(read_sources)
RESULTS = str(config.get("results", "results")).rstrip("/")

if ASKED in os.environ and workflow.is_main_process:
    atexit.register(tell, workflow, Path(RESULTS).absolute())


pathvars:
    results=RESULTS,
    # Two recipes with results of their own write no log of the other.
    logs=config.get("logs", "logs" if RESULTS == "results" else f"{RESULTS}/logs"),


wildcard_constraints:
    run="(?!eval-)[a-z][a-z0-9_-]*",
    evaluation="[a-z][a-z0-9_-]*",
    unit="[a-z][a-z0-9_-]*",


def platoon(wildcards, input):
    """The command of this interpreter. As a function of the inputs it is not compared: another spelling of it reruns nothing."""
    return f"{shlex.quote(sys.executable)} -m platoon"


def requeue(wildcards, input):
    """Where a job was submitted for this one rule. One that the whole workflow runs in is somebody's own. Not compared either."""
    return "--requeue" if workflow.remote_exec else ""


def config_path(unit):
    """The configuration that the recipe names for a run, or for the evaluation behind `eval-`."""
    entry = (
        RECIPE.evaluations[unit.removeprefix("eval-")]
        if unit.startswith("eval-")
        else RECIPE.runs[unit]
    )
    return str(Path(config["recipe"]).parent / entry.config)


def parent_of(run):
    """The run whose weights this one begins with, or None."""
    return RECIPE.runs[run].parent
