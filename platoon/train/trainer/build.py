"""From inputs to a trainer: the table of trainers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from platoon.harness.registry import spec_content
from platoon.train.components.entries import EntryTasks
from platoon.train.config_defs.run import RunConfig
from platoon.train.config_defs.trainer_options import SftOptions
from platoon.train.run_directory.identity import TrainedTasks
from platoon.train.trainer.api import Trainer
from platoon.train.trainer.renderers import renderer_of
from platoon.train.trainer.sft import SftTrainer


@dataclass(frozen=True)
class TrainInputs:
    """Everything a run is made from, resolved.

    base: what relative paths of the configuration are relative to. digests: of the input files, for the receipt. tasks: what the
    train tasks of Harbor entries are, for the run's identity. chat: files of conversations by the path the configuration gives.
    entries: with their services and train tasks.
    """

    config: RunConfig
    base: Path
    digests: Mapping[str, str] = field(default_factory=dict)
    tasks: TrainedTasks = field(default_factory=dict)
    chat: Mapping[str, Path] = field(default_factory=dict)
    entries: Sequence[EntryTasks] = ()


def build_trainer(inputs: TrainInputs) -> Trainer:
    """The trainer that `trainer:` names. Raises ConfigError for data it cannot read."""
    return TRAINERS[inputs.config.trainer](inputs)


def _build_sft(inputs: TrainInputs) -> Trainer:
    options = SftOptions.model_validate(dict(inputs.config.trainer_options))
    files = {path: inputs.chat.get(path) or inputs.base / path for path in options.paths}
    return SftTrainer(inputs.config, files, options.max_length, renderer_of)


def _build_rl(inputs: TrainInputs) -> Trainer:
    from platoon.train.trainer.rl import RlTrainer
    from platoon.train.trainer.rl_rollouts import EnvironmentRollouts

    config, entries = inputs.config, inputs.entries
    tasks = {entry.label: entry.tasks for entry in entries}
    contents = {entry.label: spec_content(entry.config.harness or "") for entry in entries}
    harnesses = {label: content for label, content in contents.items() if content is not None}
    return RlTrainer(config, tasks, lambda run: EnvironmentRollouts(run, config, entries), harnesses)


TRAINERS: Mapping[str, Callable[[TrainInputs], Trainer]] = {"rl": _build_rl, "sft": _build_sft}
