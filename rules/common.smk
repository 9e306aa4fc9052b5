# What every stage shares: the recipe, the command, the shape of names.

import shlex
import sys
from pathlib import Path

from platoon.pipeline.dag import read_recipe

RECIPE = read_recipe(config["recipe"])
PLATOON = f"{shlex.quote(sys.executable)} -m platoon"


pathvars:
    results="results",
    logs="logs",


wildcard_constraints:
    run="(?!eval-)[a-z][a-z0-9_-]*",
    evaluation="[a-z][a-z0-9_-]*",
    unit="[a-z][a-z0-9_-]*",
