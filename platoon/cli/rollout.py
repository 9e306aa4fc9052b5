"""`platoon rollout`: plays one task and shows what happened."""

from __future__ import annotations

import asyncio
import json
import re
import sys
import time
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import click

from platoon.cli.options import FILE, overrides_argument
from platoon.cli.problems import of_configuration
from platoon.cli.screen import tell_json

if TYPE_CHECKING:
    from platoon.episodes.result import RolloutResult
    from platoon.eval.adhoc import AdhocRequest
    from platoon.eval.results import Weights
    from platoon.host.console import Console
    from platoon.site import Site


@click.command()
@click.argument("config", type=FILE)
@overrides_argument
@click.option("--task", required=True, help="Id of the task; <entry>::<id> when several entries have it.")
@click.option("--split", help="Split the task is of; else train, or an evaluation's own.")
@click.option("--harness", help="Plays with this harness in place of the entry's (platoon-oracle, platoon-noop, ...).")
@click.option("--model", help="Base model, in place of the configuration's.")
@click.option("--of", "trained", type=FILE, help="Receipt of the run whose last checkpoint plays.")
@click.option("--model-path", help="Sampler weights on the training service (tinker://...).")
@click.option("--renderer", help="Renderer, in place of the configuration's.")
@click.option(
    "--seed", type=int, help="Decides every sample; without it the service chooses, unless the configuration is deterministic."
)
@click.option("--output-dir", type=FILE, help="Where files go; else adhoc/<time>-<task> below the site's runs.")
@click.option("--whole", is_flag=True, help="Show what was said, called and answered whole, not a line of each.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object on standard output.")
@click.option("--site", "site_path", type=FILE, help="Site file; else PLATOON_SITE, else the user's.")
@click.option("--log-file", type=FILE, help="Plain lines of progress are appended here.")
def rollout(config: Path, overrides: tuple[str, ...], *, as_json: bool, whole: bool, log_file: Path | None, **chosen: Any) -> None:
    """Play one task and show what happened.

    CONFIG is a training or an evaluation configuration, whose route the task is played through.
    """
    from platoon import exits
    from platoon.host.console import Console
    from platoon.host.interrupts import Interrupts
    from platoon.site import load_site

    if chosen["trained"] is not None and chosen["model_path"] is not None:
        raise click.UsageError("give --of or --model-path, not both")
    site = load_site(chosen.pop("site_path"))
    with of_configuration(config, overrides), Console(log_file=log_file) as console, Interrupts(console.say):
        from platoon.eval.opening import without_model
        from platoon.sampling.sample_timeout import told
        from platoon.train.services import place_of
        from platoon.train.trainer.signals import EXIT_CODES, run_loop

        console.progress("reading", str(config))
        request = _request(config, overrides, console, site=site, **chosen)
        asks = not without_model(request.route)
        place = f" on {place_of(request.opening.spec)}" if asks else ""
        console.progress("playing", f"{request.task_id} with {request.route.harness}{place}")
        if asks:
            console.say(told([request.opening.spec.sample_timeout]))
        result = run_loop(_play(request, console))
    if isinstance(result, str):
        sys.exit(EXIT_CODES[result])
    if as_json:
        tell_json(result.summary())
    else:
        _show(result, request.output_dir, whole=whole)
    sys.exit(exits.DONE if result.outcome.trainable else exits.FAILED)


def _new_directory(site: Site, task: str) -> Path:
    """An empty directory for a rollout that was given none; no other rollout has it, were it of the same task and second."""
    slug = re.sub(r"[^A-Za-z0-9._-]", "-", task)[-80:]
    parent = site.state_dir().parent / "adhoc"
    parent.mkdir(parents=True, exist_ok=True)
    name = f"{time.strftime('%Y%m%dT%H%M%SZ', time.gmtime())}-{slug}"
    for number in count(1):
        directory = parent / (name if number == 1 else f"{name}-{number}")
        try:
            directory.mkdir()
        except FileExistsError:
            continue
        return directory
    raise AssertionError


async def _play(request: AdhocRequest, console: Console) -> RolloutResult | str:
    """The rollout, or why it was stopped (a key of EXIT_CODES); its sandbox and service are gone either way."""
    from platoon.eval.adhoc import play
    from platoon.train.trainer.signals import SignalHandlers, StopRequest

    stop = StopRequest()
    with SignalHandlers(stop, console.say):
        return await stop.unless_asked(play(request)) or stop.reason or ""


def _request(
    config: Path,
    overrides: tuple[str, ...],
    console: Console,
    *,
    task: str,
    split: str | None,
    harness: str | None,
    model: str | None,
    trained: Path | None,
    model_path: str | None,
    renderer: str | None,
    seed: int | None,
    site: Site,
    output_dir: Path | None,
) -> AdhocRequest:
    """What is to be played. Nothing is written before the last refusal: where it goes, another rollout may write too."""
    from dataclasses import replace

    from platoon.eval.adhoc import AdhocRequest, find_task, refuse_unplayable
    from platoon.eval.opening import OpenRequest, without_model
    from platoon.pipeline.entries import check_tasks, entry_tasks, unplayed
    from platoon.pipeline.inputs import build_inputs
    from platoon.pipeline.kinds import model_of
    from platoon.train.components.player import rollout_settings, route_of
    from platoon.train.policy.spec import LOCAL
    from platoon.train.services import base_url

    with TemporaryDirectory(prefix="platoon-inputs-") as passing:
        found = build_inputs(config, Path(passing), site, console, overrides)
        # Through JSON, as strict models want it.
        read: Any = model_of(found.kind).model_validate_json(json.dumps(found.values))
        training = found.kind == "train"
        chosen_split = split or ("train" if training else read.split)
        entries = asyncio.run(entry_tasks(found, read.environments, chosen_split, config.parent))
    entry, task_id = find_task(entries, task, unplayed(found, entries, chosen_split))
    asyncio.run(check_tasks([replace(entry, tasks=(task_id,))], chosen_split))
    route = route_of(entry.config, training=chosen_split == "train")
    if harness is not None:
        route = replace(route, harness=harness, harness_options={})
    spec = read.model_spec("main") if training else read.model_spec()
    spec = replace(spec, model_name=model or spec.model_name, renderer_name=renderer or spec.renderer_name)
    weights = _weights(trained, model_path or (None if training else read.inference.model_path))
    if weights.path is None and base_url(spec) == LOCAL and not without_model(route):
        console.say("the weights are untrained: --of RECEIPT plays those of a run")
    rollout_config = _rollout_config(read, entry.config, training)
    section = "train" if training else "inference"
    given = {f"{section}.model_name": model and "--model", f"{section}.renderer_name": renderer and "--renderer"}
    refuse_unplayable(route, spec, section, {key: option for key, option in given.items() if option})
    directory = output_dir or _new_directory(site, task)
    return AdhocRequest(
        entry=entry,
        task_id=task_id,
        route=route,
        settings=rollout_settings(rollout_config),
        opening=OpenRequest(
            spec, weights.path, weights.version, read.deterministic, site.state_dir(), directory / "logs" / "service.log"
        ),
        seed=seed if seed is not None else (read.seed if read.deterministic else None),
        output_dir=directory,
    )


def _weights(trained: Path | None, path: str | None) -> Weights:
    """Those of a run's receipt, else those of a path, else the base model's."""
    from platoon.artifacts.receipts import read_receipt
    from platoon.eval.results import Weights, weights_of

    return Weights(path) if trained is None else weights_of(read_receipt(trained, "train"))


def _rollout_config(read: Any, entry: Any, training: bool) -> Any:
    """An entry's effective rollout settings, by the layers of its kind of configuration."""
    if not training:
        return read.rollout_config(entry)
    from platoon.train.config_defs.rollout import effective

    return effective(read.train.workflow_config, entry.workflow_config).rollout_config


def _show(result: RolloutResult, output_dir: Path, *, whole: bool) -> None:
    from rich.console import Console as RichConsole

    from platoon.cli.rollout_view import rollout_view

    # Lines are cut to a terminal's width, never in a file or a pipe.
    out = RichConsole(highlight=False, soft_wrap=True, markup=False, width=None if sys.stdout.isatty() else 1000)
    for part in (*rollout_view(result, whole=whole), str(output_dir)):
        out.print(part)
