"""Receipts: what a finished run or evaluation hands on, one canonical file each, written last.

A receipt holds no time, no machine path and no host value. It names checkpoints by the paths the training service gave them, and
`weights_digest` says what the weights were made from: the identity of the run and the rows of all its steps.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from platoon.artifacts.canonical import read_json
from platoon.artifacts.publish import publish_json
from platoon.errors import ConfigError, Problem

TRAIN_RULE = "train-receipt/1"


@dataclass(frozen=True)
class PolicyReceipt:
    """One trained policy at the checkpoint: `tinker://` paths of its state and its sampler weights."""

    state_path: str
    sampler_path: str
    policy_version: int


@dataclass(frozen=True)
class CheckpointReceipt:
    """The checkpoint a run ends at. state_path, sampler_path, policy_version are main's; policies: the other trained ones."""

    name: str
    step: int
    policy_version: int
    state_path: str
    sampler_path: str
    weights_digest: str
    policies: Mapping[str, PolicyReceipt] = field(default_factory=dict)


@dataclass(frozen=True)
class TrainReceipt:
    """run: its name. identity: digest of `identity.json`. steps: completed. inputs: file name -> digest. platoon: version."""

    run: str
    identity: str
    steps: int
    checkpoint: CheckpointReceipt
    inputs: Mapping[str, str] = field(default_factory=dict)
    platoon: str = ""

    def write(self, path: Path) -> None:
        """Publishes the receipt atomically; an equal file is left untouched."""
        publish_json(path, {"rule": TRAIN_RULE, **asdict(self)})

    @classmethod
    def read(cls, path: Path) -> TrainReceipt:
        """Raises ConfigError, naming the file, for anything `write` did not write."""
        value: Any = read_json(path, "training receipt")
        try:
            if value.pop("rule") != TRAIN_RULE:
                raise ValueError("another rule")
            checkpoint = dict(value.pop("checkpoint"))
            policies = {key: PolicyReceipt(**item) for key, item in checkpoint.pop("policies").items()}
            return cls(checkpoint=CheckpointReceipt(**checkpoint, policies=policies), **value)
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            advice = "run the training again to write it anew"
            raise ConfigError(Problem(f"not a receipt of the form {TRAIN_RULE}", file=str(path), advice=advice)) from error
