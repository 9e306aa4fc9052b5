"""The renderer a policy of a run is read with, over the tokenizer its service names."""

from __future__ import annotations

from pathlib import Path

from platoon.errors import ConfigError, Problem
from platoon.sampling.renderer import Renderer
from platoon.train.trainer.api import Run

TOKENIZER_FILES = ["tokenizer*", "*.jinja", "special_tokens_map.json", "vocab*", "merges.txt", "config.json"]


def renderer_of(run: Run, policy: str) -> Renderer:
    """The renderer of a policy. A frozen policy has the tokenizer of a trained one of the same model, else its model's."""
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
        return Path(snapshot_download(name, allow_patterns=TOKENIZER_FILES))
    except Exception as error:
        rule = f"no tokenizer to be had for {name!r}: {error}"
        raise ConfigError(Problem(rule, key="train.model_name", advice="use a model that is in reach, or a directory")) from error
