"""`platoon rollout`: plays one task and shows what happened."""

from __future__ import annotations

import asyncio
import json
import re
import shutil
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from platoon.core.trajectory import Trajectory
    from platoon.episodes.result import RolloutResult
    from platoon.eval.adhoc import AdhocRequest
    from platoon.eval.results import Weights
    from platoon.host.console import Console
    from platoon.site import Site

PATH = click.Path(path_type=Path)
SHOWN_CHARACTERS = 160


@click.command()
@click.argument("config", type=PATH)
@click.argument("overrides", nargs=-1, metavar="[KEY=VALUE]...")
@click.option("--task", required=True, help="Id of the task; <entry>::<id> when several entries have it.")
@click.option("--split", help="Split the task is of; else train, or an evaluation's own.")
@click.option("--harness", help="Plays with this harness in place of the entry's (platoon-oracle, platoon-noop, ...).")
@click.option("--model", help="Base model, in place of the configuration's.")
@click.option("--of", "trained", type=PATH, help="Receipt of the run whose last checkpoint plays.")
@click.option("--model-path", help="Sampler weights on the training service (tinker://...).")
@click.option("--renderer", help="Renderer, in place of the configuration's.")
@click.option(
    "--seed", type=int, help="Decides every sample; without it the service chooses, unless the configuration is deterministic."
)
@click.option("--output-dir", type=PATH, help="Where files go; else adhoc/<time>-<task> below the site's runs.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object on standard output.")
@click.option("--site", "site_path", type=PATH, help="Site file; else PLATOON_SITE, else the user's.")
@click.option("--log-file", type=PATH, help="Plain lines of progress are appended here.")
def rollout(config: Path, overrides: tuple[str, ...], as_json: bool, log_file: Path | None, **chosen: Any) -> None:
    """Plays one task of CONFIG, a training or an evaluation configuration, through its route."""
    from platoon import exits
    from platoon.eval.adhoc import without_model
    from platoon.host.console import Console
    from platoon.train.services import place_of

    if chosen["trained"] is not None and chosen["model_path"] is not None:
        raise click.UsageError("give --of or --model-path, not both")
    site, directory = _places(**{name: chosen.pop(name) for name in ("site_path", "output_dir")}, task=chosen["task"])
    with Console(log_file=log_file) as console, _unless_refused(directory):
        console.progress("reading", str(config))
        request = _request(config, overrides, console, site=site, directory=directory, **chosen)
        place = "" if without_model(request.route) else f" on {place_of(request.opening.spec)}"
        console.progress("playing", f"{request.task_id} with {request.route.harness}{place}")
        result = asyncio.run(_play(request))
    if isinstance(result, signal.Signals):
        sys.exit(exits.INTERRUPTED if result is signal.SIGINT else exits.TERMINATED)
    if as_json:
        click.echo(json.dumps(result.summary(), ensure_ascii=False))
    else:
        _show(result, request.output_dir)
    sys.exit(exits.DONE if result.outcome.trainable else exits.FAILED)


def _places(*, site_path: Path | None, output_dir: Path | None, task: str) -> tuple[Site, Path]:
    """The site, and the directory that everything of the rollout goes to."""
    from platoon.site import load_site

    site = load_site(site_path)
    slug = re.sub(r"[^A-Za-z0-9._-]", "-", task)[-80:]
    return site, output_dir or site.state_dir().parent / "adhoc" / f"{time.strftime('%Y%m%dT%H%M%SZ', time.gmtime())}-{slug}"


@contextmanager
def _unless_refused(directory: Path) -> Iterator[None]:
    """What the block made of `directory` and its parents goes with a refusal; a directory that was there is left alone."""
    from platoon.errors import ConfigError

    made = [path for path in (directory, *directory.parents) if not path.exists()]
    try:
        yield
    except ConfigError:
        if directory in made:
            shutil.rmtree(directory, ignore_errors=True)
            # A parent that another program uses by now is not empty.
            with suppress(OSError):
                for path in made[1:]:
                    path.rmdir()
        raise


async def _play(request: AdhocRequest) -> RolloutResult | signal.Signals:
    """The rollout, or the signal that ended it; its sandbox and service are gone either way."""
    from platoon.eval.adhoc import play

    task = asyncio.ensure_future(play(request))
    ended: list[signal.Signals] = []

    def end(number: signal.Signals) -> None:
        ended.append(number)
        task.cancel()

    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, end, number)
    try:
        return await task
    except asyncio.CancelledError:
        if ended:
            return ended[0]
        raise


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
    directory: Path,
) -> AdhocRequest:
    from dataclasses import replace

    from platoon.eval.adhoc import AdhocRequest, find_task, without_model
    from platoon.eval.opening import OpenRequest
    from platoon.pipeline.entries import entry_tasks, other_splits
    from platoon.pipeline.inputs import build_inputs
    from platoon.pipeline.kinds import model_of
    from platoon.train.components.player import rollout_settings, route_of
    from platoon.train.policy.spec import LOCAL
    from platoon.train.services import base_url

    found = build_inputs(config, directory / "inputs", site, console, overrides)
    # Through JSON, as strict models want it.
    read: Any = model_of(found.kind).model_validate_json(json.dumps(found.values))
    training = found.kind == "train"
    chosen_split = split or ("train" if training else read.split)
    entries = asyncio.run(entry_tasks(found, read.environments, chosen_split, config.parent))
    entry, task_id = find_task(entries, task, other_splits(found, chosen_split))
    route = route_of(entry.config, training=chosen_split == "train")
    if harness is not None:
        route = replace(route, harness=harness, harness_options={})
    spec = read.model_spec("main") if training else read.model_spec()
    spec = replace(spec, model_name=model or spec.model_name, renderer_name=renderer or spec.renderer_name)
    weights = _weights(trained, model_path or (None if training else read.inference.model_path))
    if weights.path is None and base_url(spec) == LOCAL and not without_model(route):
        console.say("the weights are untrained: --of RECEIPT plays those of a run")
    rollout_config = _rollout_config(read, entry.config, training)
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


def _show(result: RolloutResult, output_dir: Path) -> None:
    """The agents as a tree, each with what it said and did."""
    from rich.console import Console as RichConsole
    from rich.text import Text
    from rich.tree import Tree

    branches: dict[str, Tree] = {}
    top: Tree | None = None
    for trajectory in result.collection.trajectories.values():
        label = Text(_line(trajectory))
        parent = None if trajectory.parent_info is None else branches.get(trajectory.parent_info.id)
        branch = Tree(label) if parent is None else parent.add(label)
        branches[trajectory.id] = branch
        top = top or branch
        for number, step in enumerate(trajectory.steps, start=1):
            branch.add(Text(f"{number}. {_step(step.misc)}"))
    # Lines are cut to a terminal's width, never in a file or a pipe.
    out = RichConsole(highlight=False, soft_wrap=True, width=None if sys.stdout.isatty() else 1000)
    if top is not None:
        out.print(top)
    reward = "none" if result.outcome.reward is None else f"{result.outcome.reward:g}"
    why = f" ({_short(result.outcome.explanation)})" if result.outcome.explanation else ""
    out.print(Text(f"{result.outcome.status}{why}, reward {reward}, {result.calls} calls, {result.seconds['total']:.1f} s"))
    if result.outcome.status == "scored" and len(result.outcome.rewards) > 1:
        out.print(Text(", ".join(f"{name} {value:g}" for name, value in result.outcome.rewards.items())))
    out.print(Text(str(output_dir)))


def _line(trajectory: Trajectory) -> str:
    agent = trajectory.misc["agent"]
    parts = [
        f"{agent['role']} {trajectory.id[:8]}",
        f"{len(trajectory.steps)} steps",
        f"reward {trajectory.reward:g}",
        trajectory.misc["outcome"]["status"],
    ]
    if trajectory.error_message:
        parts.append(_short(trajectory.error_message))
    return ", ".join(parts) + (f": {_short(trajectory.task.goal)}" if trajectory.task.goal else "")


def _step(misc: dict[str, Any]) -> str:
    message = misc["message"]
    said = [_short(message["content"])] if message.get("content") else []
    for call in message.get("tool_calls") or ():
        said.append(_short(f"{call['function']['name']}({call['function']['arguments']})"))
    return "; ".join(said) or "(nothing)"


def _short(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= SHOWN_CHARACTERS else line[: SHOWN_CHARACTERS - 1] + "…"
