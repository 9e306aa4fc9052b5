"""What makes a run this run: a flat table of settings and digests, compared before anything of the directory is touched.

Plan length, cadence, limits and addresses are no part of it: changing them goes on with the run. Everything else that decides which
rows are trained, or how, is.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from platoon.artifacts.canonical import canonical_digest, read_json
from platoon.artifacts.publish import WRITABLE, publish_json
from platoon.errors import IdentityError, Problem

FILE = "identity.json"
RULE = "run-identity/1"

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
    # Where data lies; what is in it is in the digest of the lock.
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


def run_identity(config: Mapping[str, Any], extra: Mapping[str, Any]) -> dict[str, Any]:
    """The identity of a resolved configuration (plain values). extra: digests of inputs, the parent's checkpoint."""
    settings = {key: item for key, item in flat(config).items() if not any(fnmatchcase(key, pattern) for pattern in OUTSIDE)}
    return {"rule": RULE, "settings": settings, **flat(extra)}


def identity_digest(identity: Mapping[str, Any]) -> str:
    return canonical_digest(dict(identity))


def check_identity(run_dir: Path, identity: Mapping[str, Any], run: str) -> bool:
    """Whether the directory has an identity; touches nothing. Raises IdentityError, naming each key, when it has another one."""
    path = run_dir / FILE
    if not os.path.lexists(path):
        return False
    advice = f"bring it back as it was; or {own_run_advice(run)}"
    value = read_json(path, "run identity", advice)
    if not isinstance(value, dict) or value.get("rule") != RULE:
        raise IdentityError(Problem(f"not a run identity of rule {RULE}", file=str(path), advice=advice))
    found, wanted = flat(value), flat(json.loads(json.dumps(dict(identity))))
    changed = sorted(key for key in found.keys() | wanted.keys() if found.get(key) != wanted.get(key))
    if not changed:
        return True
    advice = f"{own_run_advice(run)}; or take the change back"
    raise IdentityError(
        Problem(
            f"the run {run!r} was trained with {_shown(found.get(key))}, this configuration says {_shown(wanted.get(key))}",
            key=key.removeprefix("settings."),
            file=str(path),
            advice=advice,
        )
        for key in changed
    )


def own_run_advice(run: str) -> str:
    """How a recipe trains something else beside a run that is there."""
    return f"train it as a run of its own: runs.{run}-2 in the recipe, named so in `from:` and `of:` of what uses it"


def write_identity(run_dir: Path, identity: Mapping[str, Any]) -> None:
    publish_json(run_dir / FILE, dict(identity), WRITABLE)


def _shown(value: Any) -> str:
    return "nothing" if value is None else json.dumps(value)
