"""From inputs to a trainer: the table of trainers, and the renderer a policy of a run is read with."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from platoon.errors import ConfigError, Problem
from platoon.sampling.renderer import Renderer
from platoon.train.config_defs.run import RunConfig
from platoon.train.trainer.api import Trainer
from platoon.train.trainer.run import TrainerRun
from platoon.train.trainer.sft import SftOptions, SftTrainer


@dataclass(frozen=True)
class TrainInputs:
    """Everything a run is made from, resolved.

    base: what relative paths of the configuration are relative to. digests: of the input files, for the receipt. identity: digests
    that are part of the run's identity. chat: files of conversations by the path the configuration gives. entries: what
    `pipeline.inputs` says of each environment entry, by label.
    """

    config: RunConfig
    base: Path
    digests: Mapping[str, str] = field(default_factory=dict)
    identity: Mapping[str, str] = field(default_factory=dict)
    chat: Mapping[str, Path] = field(default_factory=dict)
    entries: Mapping[str, Any] = field(default_factory=dict)


def build_trainer(inputs: TrainInputs) -> Trainer:
    """The trainer that `trainer:` names. Raises ConfigError for options it does not know, or data it cannot read."""
    return TRAINERS[inputs.config.trainer](inputs)


def renderer_of(run: TrainerRun, policy: str) -> Renderer:
    """The renderer of a policy, over the tokenizer its service names."""
    from platoon.sampling.renderers.build import build_renderer

    spec = run.policies[policy].spec
    same_model = [other for other in run.trained if other.spec.model.model_name == spec.model.model_name]
    named = same_model[0].tokenizer_id if same_model else None
    return build_renderer(spec.model, tokenizer_directory(named or spec.model.model_name))


def tokenizer_directory(name: str) -> Path:
    """A directory as it is; for the name of a model its tokenizer files, fetched once into the hub's cache."""
    if Path(name).is_dir():
        return Path(name)
    from huggingface_hub import snapshot_download

    try:
        patterns = ["tokenizer*", "*.jinja", "special_tokens_map.json", "vocab*", "merges.txt", "config.json"]
        return Path(snapshot_download(name, allow_patterns=patterns))
    except Exception as error:
        rule = f"no tokenizer to be had for {name!r}: {error}"
        raise ConfigError(Problem(rule, key="train.model_name", advice="use a model that is in reach, or a directory")) from error


def _build_sft(inputs: TrainInputs) -> Trainer:
    options = _options(SftOptions, inputs.config.trainer_options)
    paths = [inputs.chat.get(path) or inputs.base / path for path in options.paths]
    return SftTrainer(inputs.config, paths, options.max_length, renderer_of)


def _options(model: type[SftOptions], options: Mapping[str, Any]) -> SftOptions:
    from pydantic import ValidationError

    from platoon.config.problems import from_validation_error

    try:
        return model.model_validate(dict(options))
    except ValidationError as error:
        found = from_validation_error(error, model, dict(options), lambda key: "")
        raise ConfigError(
            [
                Problem(item.rule, f"trainer_options.{item.key}" if item.key else "trainer_options", item.file, item.advice)
                for item in found
            ]
        ) from error


TRAINERS: Mapping[str, Callable[[TrainInputs], Trainer]] = {"sft": _build_sft}
