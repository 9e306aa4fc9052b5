"""`platoon eval`: plays the tasks of a split with fixed weights and reports what came of it."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import click

from platoon.cli.options import EVALUATION_NAME, FILE, Name, overrides_argument, requeuing
from platoon.cli.problems import of_configuration
from platoon.cli.train import Duration

if TYPE_CHECKING:
    from platoon.eval.launch import EvalRequest
    from platoon.eval.results import Weights
    from platoon.host.console import Console


@click.command()
@click.argument("config", type=FILE)
@overrides_argument
@click.option("--inputs", type=FILE, help="Directory of resolved inputs; without it they are built.")
@click.option("--of", "trained", type=FILE, help="Receipt of the run whose last checkpoint is evaluated.")
@click.option("--checkpoint", help="Sampler weights on the training service, in place of a run's.")
@click.option("--name", type=Name(EVALUATION_NAME), help="Name of the evaluation; without it the configuration's.")
@click.option("--output-dir", type=FILE, help="Where rollouts and reports go; else below the site's runs.")
@click.option("--receipt", type=FILE, help="Where the receipt goes when all rollouts are done.")
@click.option("--time-budget", type=Duration(), help="Stop within this time (60m); the same command goes on.")
@requeuing
@click.option("--log-file", type=FILE, help="Plain lines are appended here too.")
@click.option("--site", type=FILE, help="Site file; else PLATOON_SITE, else the user's.")
def eval(
    config: Path,
    overrides: tuple[str, ...],
    *,
    inputs: Path | None,
    trained: Path | None,
    checkpoint: str | None,
    name: str | None,
    output_dir: Path | None,
    receipt: Path | None,
    time_budget: float | None,
    requeue: bool,
    log_file: Path | None,
    site: Path | None,
) -> None:
    """Evaluate weights on the tasks that CONFIG describes.

    Rollouts that are done already are kept: the same command goes on.
    """
    started_at = time.monotonic()
    from dataclasses import replace

    from platoon.host.console import Console
    from platoon.host.interrupts import Interrupts

    with of_configuration(config, overrides), Console(log_file=log_file) as console, Interrupts(console.say):
        from platoon.eval.launch import evaluate

        console.progress("reading", str(config))
        request = _request(
            config,
            overrides,
            inputs=inputs,
            weights=_weights(trained, checkpoint),
            name=name,
            output_dir=output_dir,
            site_file=site,
            console=console,
        )
        request = replace(request, receipt=receipt, time_budget_s=time_budget, budget_started_at=started_at, requeue=requeue)
        code = evaluate(request, console)
    sys.exit(code)


def _weights(trained: Path | None, checkpoint: str | None) -> Weights | None:
    """What the command line names, None when it is the configuration's to say."""
    from platoon.artifacts.receipts import read_receipt
    from platoon.eval.results import Weights, weights_of

    if trained is not None and checkpoint is not None:
        raise click.UsageError("give --of or --checkpoint, not both")
    if trained is not None:
        return weights_of(read_receipt(trained, "train"))
    return Weights(checkpoint, checkpoint) if checkpoint is not None else None


def _request(
    config: Path,
    overrides: tuple[str, ...],
    *,
    inputs: Path | None,
    weights: Weights | None,
    name: str | None,
    output_dir: Path | None,
    site_file: Path | None,
    console: Console,
) -> EvalRequest:
    """What is evaluated, and where what comes of it goes."""
    from platoon.eval.config_defs import EvaluationConfig
    from platoon.eval.launch import EvalRequest
    from platoon.eval.results import Weights, own_directory
    from platoon.pipeline.inputs import opened_inputs
    from platoon.pipeline.played import played_entries
    from platoon.site import load_site
    from platoon.train.policy.spec import LOCAL
    from platoon.train.services import base_url

    site = load_site(site_file)
    with opened_inputs("evaluation", config, overrides, inputs, site=site, console=console) as found:
        # Through JSON, as strict models want it.
        model = EvaluationConfig.model_validate_json(json.dumps(found.values))
        entries = played_entries(found, model, config.parent)
    path = model.inference.model_path
    weights = weights or (Weights(path, path) if path is not None else Weights())
    state_dir = site.state_dir()
    name = name or config.stem
    if output_dir is None:
        given = model.inference.output_dir
        output_dir = Path(given) if given is not None else state_dir.parent / own_directory(model, weights, found.digests, name)
    request = EvalRequest(model, name, weights, tuple(entries), output_dir.absolute(), state_dir, found.digests)
    if weights.path is None and request.asks and base_url(model.model_spec()) == LOCAL:
        console.say("the weights are untrained: --of RECEIPT evaluates those of a run")
    return request
