"""What makes a run this run: a flat table of settings and digests, compared before anything of the directory is touched.

Plan length, cadence, limits and addresses are no part of it: changing them goes on with the run. Everything else that decides which
rows are trained, or how, is; of datasets the tasks that the run trains on, in their order, and none that is held out.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from platoon.artifacts.canonical import canonical_digest, read_json
from platoon.artifacts.publish import WRITABLE, publish_json
from platoon.config.text import few, printable
from platoon.errors import IdentityError, Problem

FILE = "identity.json"
RULES = "run-identity/"
RULE = f"{RULES}2"
TASKS = "tasks"
# Of each entry the ids of the tasks that are trained on and the digest of what each is, in their order.
TrainedTasks = Mapping[str, Sequence[tuple[str, str]]]

# Patterns over dotted keys of the resolved configuration.
OUTSIDE = (
    "train.num_epochs",
    "train.max_training_steps",
    "train.sample_timeout_seconds",
    "train.max_concurrent_rollouts",
    "train.max_starting_rollouts",
    "train.permit_release",
    "train.rollout_group_limits*",
    "train.*_timeout_seconds",
    "train.workflow_config.worker_*",
    "train.workflow_config.rollout_isolation",
    "checkpoint.*",
    "eval*",
    "stats*",
    "watchdog*",
    "log_path",
    "tinker_base_url",
    "policies.*.tinker_base_url",
    "policies.*.sample_timeout_seconds",
    "policies.*.load_checkpoint_path",
    "policies.*.checkpoint*",
    "trainer_options.data*",
    "trainer_options.num_epochs",
    "trainer_options.max_training_steps",
    # Where data lies; what is in it is in the digests of the tasks.
    "environments.*.service_kwargs.dataset",
    "environments.*.service_kwargs.dataset_dir",
    "environments.*.service_kwargs.task_dirs*",
    "environments.*.service_kwargs.tasks",
    "environments.*.service_kwargs.splits",
)


def flat(value: Any, prefix: str = "") -> dict[str, Any]:
    """Dotted keys to plain leaves. What is empty has none: to say nothing and to leave out are the same."""
    if isinstance(value, Mapping):
        items = [(str(key), item) for key, item in value.items()]
    elif isinstance(value, list | tuple):
        items = [(str(index), item) for index, item in enumerate(value)]
    else:
        return {prefix: value}
    table: dict[str, Any] = {}
    for key, item in items:
        table.update(flat(item, f"{prefix}.{key}" if prefix else key))
    return table


def run_identity(config: Mapping[str, Any], extra: Mapping[str, Any], tasks: TrainedTasks | None = None) -> dict[str, Any]:
    """The identity of a resolved configuration (plain values). extra: digests of inputs, the parent's checkpoint."""
    settings = {key: item for key, item in flat(config).items() if not any(fnmatchcase(key, pattern) for pattern in OUTSIDE)}
    identity = {"rule": RULE, "settings": settings, **flat(extra), TASKS: tasks or {}}
    # As it reads back from the file, so that comparing sees no difference that is none.
    read: dict[str, Any] = json.loads(json.dumps(identity))
    return read


def identity_digest(identity: Mapping[str, Any]) -> str:
    return canonical_digest(dict(identity))


def check_identity(run_dir: Path, identity: Mapping[str, Any], run: str) -> bool:
    """Whether the directory has an identity; touches nothing. Raises IdentityError, naming keys and tasks, when it has another."""
    path = run_dir / FILE
    if not os.path.lexists(path):
        return False
    advice = f"bring it back as it was; or {own_run_advice(run)}"
    found, wanted = read_json(path, "run identity", advice), dict(identity)
    if found == wanted:
        return True
    if not isinstance(found, dict) or not str(found.get("rule")).startswith(RULES) or not _are_tasks(found.get(TASKS, {})):
        raise IdentityError(Problem("is no identity of a run", file=str(path), advice=advice))
    if found["rule"] != RULE:
        rule = f"the run {run!r} was begun by another release of platoon, whose identities are not compared with {RULE}"
        raise IdentityError(Problem(rule, file=str(path), advice=f"go on with that release; or {own_run_advice(run)}"))
    differences = [*_other_settings(found, wanted, run), *_other_tasks(found.get(TASKS, {}), wanted.get(TASKS, {}), run)]
    advice = f"{own_run_advice(run)}; or take the change back"
    raise IdentityError(Problem(rule, key, str(path), advice) for key, rule in differences)


def _other_settings(found: Mapping[str, Any], wanted: Mapping[str, Any], run: str) -> Iterator[tuple[str, str]]:
    """Key and rule of each setting and each input that differs."""
    old, new = (flat({key: value for key, value in identity.items() if key != TASKS}) for identity in (found, wanted))
    for key in sorted(old.keys() | new.keys()):
        if old.get(key) != new.get(key):
            rule = f"the run {run!r} was trained with {_shown(old.get(key))}, this configuration says {_shown(new.get(key))}"
            yield key.removeprefix("settings."), rule


def _other_tasks(found: TrainedTasks, wanted: TrainedTasks, run: str) -> Iterator[tuple[str, str]]:
    """Key and rule of each entry whose tasks differ, naming them."""
    for label in sorted(found.keys() | wanted.keys()):
        old, new = dict(found.get(label, ())), dict(wanted.get(label, ()))
        groups = {
            "changed": [name for name in new if name in old and old[name] != new[name]],
            "added": [name for name in new if name not in old],
            "removed": [name for name in old if name not in new],
        }
        told = "; ".join(f"{word} {few(sorted(names))}" for word, names in groups.items() if names)
        if not told and list(old) != list(new):
            told = "their order changed"
        if told:
            yield f"environment {printable(label)}", f"its tasks are not those the run {run!r} was trained on: {told}"


def _are_tasks(value: Any) -> bool:
    """Whether a file's value has the form of `TrainedTasks`."""
    if not isinstance(value, dict) or not all(isinstance(tasks, list) for tasks in value.values()):
        return False
    pairs = [pair for tasks in value.values() for pair in tasks]
    return all(isinstance(pair, list) and len(pair) == 2 and all(isinstance(part, str) for part in pair) for pair in pairs)


def own_run_advice(run: str) -> str:
    """How a recipe trains something else beside a run that is there."""
    return f"train it as a run of its own: runs.{run}-2 in the recipe, named so in `from:` and `of:` of what uses it"


def write_identity(run_dir: Path, identity: Mapping[str, Any]) -> None:
    publish_json(run_dir / FILE, dict(identity), WRITABLE)


def _shown(value: Any) -> str:
    return "nothing" if value is None else json.dumps(value)
