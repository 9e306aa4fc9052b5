"""Rules between keys of a training configuration. Each function looks at one feature and yields every problem it finds.

Keys are relative to the top of the configuration. Nothing here needs the datasets; what does is checked when they are listed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from platoon.config.model import unknown_keys
from platoon.config.text import quoted
from platoon.errors import Problem
from platoon.train.config_defs.entries import AgentsConfig, EnvironmentConfig, PolicyConfig
from platoon.train.config_defs.rollout import WorkflowConfig, WorkflowLayer, effective
from platoon.train.config_defs.training import LOSS_KEYS, CheckpointConfig, TrainConfig, default_loss_config
from platoon.train.config_defs.values import MAIN

CREDIT = ("group", "keyed")
# Every group of a step is in memory at once, and each of its members is a task of the event loop.
MAX_GROUP_SIZE = 4096
MAX_STEP_ROLLOUTS = 65536
KEY_PARTS = ("task", "policy", "role", "depth")


def plan_problems(train: TrainConfig, trainer: str) -> Iterator[Problem]:
    """Length of the plan and divisibility of its batches."""
    if train.num_epochs is None and train.max_training_steps is None:
        yield Problem("set train.num_epochs, train.max_training_steps or both (the shorter counts)", key="train.num_epochs")
    if train.batch_size % train.num_minibatches:
        yield Problem(f"must divide train.batch_size {train.batch_size}", key="train.num_minibatches")
    elif (train.batch_size // train.num_minibatches) % train.num_microbatches:
        per_minibatch = train.batch_size // train.num_minibatches
        yield Problem(f"must divide the {per_minibatch} groups of a minibatch", key="train.num_microbatches")
    if trainer == "rl":
        yield from _loss_problems(train.loss_fn, train.loss_fn_config, "train")


def _loss_problems(loss: str, settings: Mapping[str, float], where: str) -> Iterator[Problem]:
    if settings != default_loss_config():
        for key in sorted(settings.keys() - LOSS_KEYS[loss]):
            reads = f"reads {' and '.join(sorted(LOSS_KEYS[loss]))} only" if LOSS_KEYS[loss] else "takes no settings"
            yield Problem(f"{loss} {reads}", key=f"{where}.loss_fn_config.{key}")


def group_problems(workflow: WorkflowConfig, where: str) -> Iterator[Problem]:
    """One entry's effective group settings."""
    if workflow.min_successful_group_size > workflow.group_size:
        yield Problem(f"must be at most group_size {workflow.group_size}", key=f"{where}.min_successful_group_size")
    if workflow.straggler_quorum is not None:
        if workflow.straggler_timeout_seconds is None:
            yield Problem("needs straggler_timeout_seconds", key=f"{where}.straggler_quorum")
        if workflow.straggler_quorum > workflow.group_size:
            yield Problem(f"must be at most group_size {workflow.group_size}", key=f"{where}.straggler_quorum")


def _size_problems(train: TrainConfig, workflow: WorkflowConfig, where: str) -> Iterator[Problem]:
    """A step that fits into memory. An entry that takes the run's size is not told again."""
    if workflow is not train.workflow_config and workflow.group_size == train.workflow_config.group_size:
        return
    if workflow.group_size > MAX_GROUP_SIZE:
        yield Problem(f"must be at most {MAX_GROUP_SIZE}, got {workflow.group_size}", key=f"{where}.group_size")
    elif (rollouts := train.batch_size * workflow.group_size) > MAX_STEP_ROLLOUTS:
        rule = f"times train.batch_size {train.batch_size} is {rollouts} rollouts a step, must be at most {MAX_STEP_ROLLOUTS}"
        yield Problem(rule, key=f"{where}.group_size")


def entry_problems(train: TrainConfig, environments: Sequence[EnvironmentConfig], trainer: str) -> Iterator[Problem]:
    """Names, weights, services and bounds of the entries; a group of each fits into the permits."""
    if trainer == "sft":
        return
    if not environments:
        yield Problem("trainer rl needs at least one entry", key="environments")
    yield from group_problems(train.workflow_config, "train.workflow_config")
    yield from _size_problems(train, train.workflow_config, "train.workflow_config")
    permits = train.max_concurrent_rollouts
    labels = [entry.label for entry in environments]
    for index, entry in enumerate(environments):
        where = f"environments.{index}"
        if entry.service is None:
            yield Problem("is required", key=f"{where}.service", advice="name the environment service, such as harbor")
        if entry.harness is None:
            yield Problem("is required", key=f"{where}.harness", advice="name the harness that plays the tasks")
        if len(environments) > 1 and entry.name is None:
            yield Problem("is required when there are several entries", key=f"{where}.name")
        elif labels.index(entry.label) != index:
            yield Problem(f"must be unique, {quoted(entry.label)} is taken", key=f"{where}.name")
        if "::" in entry.label:
            yield Problem("must not contain '::'", key=f"{where}.name")
        settings = effective(train.workflow_config, entry.workflow_config)
        if entry.workflow_config != WorkflowLayer():
            yield from group_problems(settings, f"{where}.workflow_config")
            yield from _size_problems(train, settings, f"{where}.workflow_config")
        if permits is not None and settings.group_size > permits:
            yield Problem(
                f"holds no group of entry {quoted(entry.label)}, which has {settings.group_size} members",
                key="train.max_concurrent_rollouts",
            )
        if entry.max_staleness is not None and (train.max_staleness is None or entry.max_staleness < train.max_staleness):
            yield Problem("must be at least train.max_staleness, which must be set", key=f"{where}.max_staleness")
    if len({entry.weight == "tasks" for entry in environments}) > 1:
        yield Problem("use numbers in every entry, or 'tasks' in every entry", key="environments")


def credit_problems(environments: Sequence[EnvironmentConfig]) -> Iterator[Problem]:
    """Names of estimators and their options."""
    for index, entry in enumerate(environments):
        where, options = f"environments.{index}", entry.credit_options
        if entry.credit in (None, "group"):
            if options:
                advice = "name an estimator" if entry.credit is None else "leave_one_out_baseline is in workflow_config"
                yield Problem("takes no options", key=f"{where}.credit_options", advice=advice)
        elif entry.credit != "keyed":
            yield Problem(f"must be one of {', '.join(CREDIT)}, got {quoted(entry.credit)}", key=f"{where}.credit")
        else:
            yield from unknown_keys(options, ("key", "leave_one_out"), f"{where}.credit_options")
            key = options.get("key")
            if not isinstance(key, list) or not key or len({*map(str, key)}) != len(key) or not {*map(str, key)} <= {*KEY_PARTS}:
                rule = f"must be a list of {', '.join(KEY_PARTS)}, at least one and none twice"
                yield Problem(rule, key=f"{where}.credit_options.key")
            if not isinstance(options.get("leave_one_out", False), bool):
                yield Problem("must be true or false", key=f"{where}.credit_options.leave_one_out")


def policy_problems(
    train: TrainConfig,
    policies: Mapping[str, PolicyConfig],
    agents: AgentsConfig,
    trainer: str,
) -> Iterator[Problem]:
    """Bindings of agents to policies, and which keys a frozen policy may have."""
    if trainer == "sft":
        if policies:
            yield Problem("trainer sft trains main alone", key="policies")
        return
    if MAIN in policies:
        yield Problem("main is the policy of train:, give another id", key="policies.main")
    known = {MAIN, *policies}
    bound = {"agents.policy": agents.policy}
    bound |= {f"agents.roles.{role}.policy": item.policy for role, item in agents.roles.items() if item.policy is not None}
    for key, policy in bound.items():
        if policy not in known:
            yield Problem(f"no such policy {quoted(policy)}; known are {', '.join(sorted(known))}", key=key)
    if agents.policy in policies and not policies[agents.policy].trainable:
        yield Problem("the root agent needs a trained policy", key="agents.policy")
    for policy in (MAIN, *(name for name, own in policies.items() if own.trainable)):
        if policy not in agents.sampled:
            where = "agents.policy" if policy == MAIN else f"policies.{policy}"
            yield Problem(f"trained policy {quoted(policy)} is sampled by no agent", key=where)
    for name, own in policies.items():
        yield from _one_policy(train, name, own)


def _one_policy(train: TrainConfig, name: str, own: PolicyConfig) -> Iterator[Problem]:
    where = f"policies.{name}"
    if own.load_optimizer_state and own.load_checkpoint_path is None:
        yield Problem("needs load_checkpoint_path", key=f"{where}.load_optimizer_state")
    if own.trainable:
        settings = own.loss_fn_config if own.loss_fn_config is not None else {}
        yield from _loss_problems(own.loss_fn or train.loss_fn, settings, where)
        return
    trained_only = ("load_optimizer_state", "lora_rank", "optimizer", "loss_fn", "loss_fn_config", "max_staleness")
    for key in trained_only:
        if getattr(own, key) not in (None, False):
            yield Problem("a frozen policy has no such key", key=f"{where}.{key}")


def checkpoint_problems(
    train: TrainConfig,
    checkpoint: CheckpointConfig,
    environments: Sequence[EnvironmentConfig],
    policies: Mapping[str, PolicyConfig],
    trainer: str,
) -> Iterator[Problem]:
    """A save that is pruned must not be one that waiting groups may still be sampled from."""
    if checkpoint.load_optimizer_state and checkpoint.load_checkpoint_path is None:
        yield Problem("needs checkpoint.load_checkpoint_path", key="checkpoint.load_optimizer_state")
    if checkpoint.keep_recovery is None or trainer == "sft":
        return
    if train.max_staleness is None:
        yield Problem("needs train.max_staleness", key="checkpoint.keep_recovery")
        return
    bounds = [train.max_staleness]
    bounds += [entry.max_staleness for entry in environments if entry.max_staleness is not None]
    bounds += [own.max_staleness for own in policies.values() if own.max_staleness is not None]
    every = checkpoint.recovery_every
    if every is not None and checkpoint.keep_recovery * every <= max(bounds):
        yield Problem(
            f"times recovery_every {every} must exceed the largest staleness bound {max(bounds)}", key="checkpoint.keep_recovery"
        )


def determinism_problems(
    train: TrainConfig, environments: Sequence[EnvironmentConfig], policies: Mapping[str, PolicyConfig], trainer: str
) -> Iterator[Problem]:
    """Deterministic mode keeps every group of a step in that step, and cancels nothing by the clock."""
    if trainer == "sft":
        return
    if train.max_staleness != 0:
        yield Problem("needs train.max_staleness 0", key="deterministic")
    for where, bound in [
        *((f"environments.{index}.max_staleness", entry.max_staleness) for index, entry in enumerate(environments)),
        *((f"policies.{name}.max_staleness", own.max_staleness) for name, own in policies.items()),
    ]:
        if bound not in (None, 0):
            yield Problem("must be 0 when deterministic is true", key=where)
    for where, timeout in [
        ("train.workflow_config", train.workflow_config.straggler_timeout_seconds),
        *(
            (f"environments.{index}.workflow_config", entry.workflow_config.straggler_timeout_seconds)
            for index, entry in enumerate(environments)
        ),
    ]:
        if timeout is not None:
            yield Problem("must be unset when deterministic is true", key=f"{where}.straggler_timeout_seconds")
