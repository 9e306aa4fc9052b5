"""`train`: from a resolved configuration to a finished run and its receipt.

Idempotent: a run that is complete for its identity only gets its receipt written. Before the run directory is touched: the
configuration is checked, a live holder refused, what is there judged, the identity compared. Then the lease is held until all is
closed.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from platoon import exits
from platoon.artifacts.publish import WRITABLE, publish_json
from platoon.artifacts.receipts import read_receipt, write_receipt
from platoon.config.text import counted
from platoon.errors import PlatoonError
from platoon.host.console import Console, near
from platoon.host.slurm import requeue_job
from platoon.sampling.sample_timeout import told
from platoon.train.checkpoints.rows import checkpoint_rows
from platoon.train.checkpoints.saving import Cadence, kept
from platoon.train.config_defs.run import RunConfig
from platoon.train.config_defs.training import StatsConfig
from platoon.train.policy.learner import Timeouts
from platoon.train.policy.service import ServiceAddress, ServiceFactory, TinkerFactory
from platoon.train.policy.spec import MAIN, PolicySpec, policy_specs
from platoon.train.run_directory.identity import identity_digest, run_identity, write_identity
from platoon.train.run_directory.lease import Lease, refuse_held
from platoon.train.run_directory.place import refuse_target, refuse_unwritable
from platoon.train.sandboxes import run_sandboxes
from platoon.train.services import check_key, place_of, run_services
from platoon.train.trainer.api import Trainer
from platoon.train.trainer.build import TrainInputs, build_trainer
from platoon.train.trainer.found import check_found
from platoon.train.trainer.receipt import finished_row, receipt_body, refuse_trained_beyond, refuse_unmeasured, told_figures
from platoon.train.trainer.renderers import early_renderers, section_of
from platoon.train.trainer.run import STARTING, TrainerRun
from platoon.train.trainer.settings import RunSettings
from platoon.train.trainer.signals import EXIT_CODES, STOPS, SignalHandlers, StopRequest, run_loop

RESOLVED_FILE = "config.resolved.yaml"


@dataclass(frozen=True)
class TrainRequest:
    """One `platoon train`. run: the run's name. receipt: where to write it. parent: receipt of the run whose weights it starts
    from.

    state_dir: where embedded services keep checkpoints, shared by runs and evaluations.
    budget_started_at: on `time.monotonic`, when the time budget began to count. requeue: whether its end puts the Slurm job of this
    process back into the queue, where the start got further: a run that does not move ends.
    """

    run: str
    run_dir: Path
    state_dir: Path
    inputs: TrainInputs
    receipt: Path | None = None
    parent: Path | None = None
    time_budget_s: float | None = None
    budget_started_at: float = field(default_factory=time.monotonic)
    requeue: bool = False

    @property
    def title(self) -> str:
        """The run for messages: one that nobody named is the only one they can be about."""
        return "the run" if self.run == StatsConfig().trial_name else f"run {self.run}"


def train(request: TrainRequest, console: Console, make_factory: Callable[[], ServiceFactory] = TinkerFactory) -> int:
    """Trains until the plan is done or a stop is asked; an exit code. Raises PlatoonError for what cannot go on."""
    config = request.inputs.config
    if request.receipt is not None:
        refuse_target(request.receipt, "--receipt")
    parent = read_receipt(request.parent, "train") if request.parent is not None else None
    specs = policy_specs(config, _parent_states(parent))
    trainer = build_trainer(request.inputs)
    identity = _identity(request, trainer, parent)
    refuse_held(request.run_dir)
    known = check_found(request.run_dir, identity, request.run)
    facts = _facts(request, identity, parent)
    if known and _write_receipt(request, trainer, facts, console, already=True):
        return exits.DONE
    if known:
        refuse_trained_beyond(request.run, request.run_dir, trainer.planned_steps(), _plan_key(config, trainer.planned_steps()))
    check_key(spec.model for spec in specs.values())
    for directory in (request.run_dir, request.state_dir):
        refuse_unwritable(directory, "runs")
    _preview(config, specs, trainer)
    # Snakemake deletes a rule's log before each attempt: the run keeps what all its starts told.
    with Lease(request.run_dir) as lease, console.also_to(request.run_dir / "logs" / "train.log"):
        # Another start may have made the run between the two looks.
        if not check_found(request.run_dir, identity, request.run):
            write_identity(request.run_dir, identity)
        # JSON is YAML, and canonical JSON is the same bytes for the same values.
        publish_json(request.run_dir / RESOLVED_FILE, config.plain(), WRITABLE)
        before = _saved_step(request.run_dir)
        try:
            reason = run_loop(_start(request, specs, trainer, _Surroundings(identity, lease, console, make_factory)))
        except OSError as error:
            raise PlatoonError(f"{request.title}: {error}; {kept(request.run_dir)}") from error
        if reason is not None and lease.loss is not None:
            raise lease.loss
    if reason is not None:
        console.say(f"stopped after {reason}; the same command goes on")
        if request.requeue and reason == "budget" and _saved_step(request.run_dir) > before:
            requeue_job(console.say)
        return EXIT_CODES[reason]
    _write_receipt(request, trainer, facts, console)
    return exits.DONE


def _saved_step(run_dir: Path) -> int:
    rows = checkpoint_rows(run_dir)
    return int(rows[-1]["batch"]) if rows else 0


def _preview(config: RunConfig, specs: Mapping[str, PolicySpec], trainer: Trainer) -> None:
    """Raises ConfigError for renderers that would render nothing, and for data they refuse, before anything is made."""
    read = config.agents.sampled if trainer.needs().rollouts else {MAIN}
    sections = {section_of(policy): policy for policy in specs if policy in read}
    found = early_renderers({section: specs[policy].model for section, policy in sections.items()})
    trainer.preview({sections[section]: renderer for section, renderer in found.items()})


@dataclass(frozen=True)
class _Surroundings:
    """What a start works with beside its request."""

    identity: Mapping[str, Any]
    lease: Lease
    console: Console
    make_factory: Callable[[], ServiceFactory]


async def _start(request: TrainRequest, specs: Mapping[str, PolicySpec], trainer: Trainer, around: _Surroundings) -> str | None:
    """One start; the reason it stopped early, None when the plan is done."""
    config, console = request.inputs.config, around.console
    places = ", ".join(dict.fromkeys(place_of(spec.model) for spec in specs.values()))
    console.progress(STARTING, request.title, places)
    if trainer.needs().rollouts:
        console.say(told(specs[policy].model.sample_timeout for policy in specs if policy in config.agents.sampled))
    stop = StopRequest()
    async with AsyncExitStack() as stack:
        stack.enter_context(SignalHandlers(stop, console.say, then=STOPS))
        await stack.enter_async_context(run_sandboxes(request.run_dir, console))
        starting = run_services(config, specs, request.state_dir, request.run_dir / "logs")
        services = await stop.unless_asked(stack.enter_async_context(starting))
        if services is None:
            return stop.reason
        settings = _settings(request, specs, trainer, around, services.addresses)
        run = TrainerRun(settings, trainer, around.make_factory(), console, services=services.died, stop=stop)
        await run.run()
        if not run.ended and run.stop.reason is None:
            raise PlatoonError(f"{request.title}: the trainer ended after step {run.step} of {run.planned_steps}")
        return None if run.ended else run.stop.reason


def _settings(
    request: TrainRequest,
    specs: Mapping[str, PolicySpec],
    trainer: Trainer,
    around: _Surroundings,
    addresses: Mapping[str, ServiceAddress],
) -> RunSettings:
    config = request.inputs.config
    bounds = [config.staleness_of(policy, entry.label) for policy in config.trained for entry in config.environments]
    known_bounds = [bound for bound in bounds if bound is not None]
    watchdog = config.watchdog
    return RunSettings(
        run_dir=request.run_dir,
        identity_digest=identity_digest(around.identity),
        specs=specs,
        addresses=addresses,
        sampled=config.agents.sampled,
        cadence=_cadence(config, trainer),
        keep_recovery=config.checkpoint.keep_recovery,
        largest_staleness=max(known_bounds) if known_bounds else None,
        timeouts=Timeouts(config.train.forward_backward_timeout_seconds, config.train.optim_step_timeout_seconds),
        time_budget_s=request.time_budget_s,
        budget_started_at=request.budget_started_at,
        watchdog=(watchdog.timeout_seconds, watchdog.exit_code) if watchdog.enabled else None,
        lease=around.lease,
    )


def _cadence(config: RunConfig, trainer: Trainer) -> Cadence:
    checkpoint = config.checkpoint
    unit_steps = trainer.steps_per_epoch() if checkpoint.strategy == "epoch" else 1.0
    return Cadence(checkpoint.permanent_every, checkpoint.recovery_every, unit_steps)


def _identity(request: TrainRequest, trainer: Trainer, parent: Mapping[str, Any] | None) -> dict[str, Any]:
    extra: dict[str, Any] = {"inputs": trainer.identity()}
    if parent is not None:
        extra["from"] = _parent_facts(parent)
    return run_identity(request.inputs.config.plain(), extra, request.inputs.tasks)


def _facts(request: TrainRequest, identity: Mapping[str, Any], parent: Mapping[str, Any] | None) -> dict[str, Any]:
    return {
        "trainer": request.inputs.config.trainer,
        "identity": identity_digest(identity),
        "inputs": dict(request.inputs.digests),
        "parent": _parent_facts(parent) if parent is not None else None,
        "seed": request.inputs.config.seed,
    }


def _parent_facts(parent: Mapping[str, Any]) -> dict[str, Any]:
    return {"run": parent["run"], "step": parent["steps"], "weights": parent["checkpoint"]["weights"]}


def _parent_states(parent: Mapping[str, Any] | None) -> dict[str, str]:
    if parent is None:
        return {}
    others = {policy: str(entry["state_path"]) for policy, entry in parent["policies"].items()}
    return {MAIN: str(parent["checkpoint"]["state_path"]), **others}


def _plan_key(config: RunConfig, planned_steps: int) -> str:
    """The setting that bounds the plan."""
    return "train.max_training_steps" if config.train.max_training_steps == planned_steps else "train.num_epochs"


def _write_receipt(
    request: TrainRequest, trainer: Trainer, facts: Mapping[str, Any], console: Console, *, already: bool = False
) -> bool:
    """Writes the receipt of a run that is complete; False when it is not. Raises PlatoonError for one that measured nothing.

    already: whether it was complete before this command.
    """
    row = finished_row(request.run_dir, trainer.planned_steps())
    if row is None:
        return False
    if request.inputs.config.trainer == "rl":
        refuse_unmeasured(request.run, request.run_dir, row)
    if request.receipt is not None:
        write_receipt(request.receipt, "train", receipt_body(request.run, request.run_dir, row, facts))
    figures = told_figures(request.run_dir, row)
    idle = "already trained, nothing to do; " if already else ""
    done = f"{counted(row['batch'], 'step')} done, checkpoint {row['name']}"
    console.say(f"{request.title}: {idle}{done}" + (f"; {figures}" if figures else ""))
    console.say(f"run in {near(request.run_dir)}" + (f", receipt {near(request.receipt)}" if request.receipt is not None else ""))
    return True
