"""The renderer a policy of a run is read with, over the tokenizer its service names.

Most of what can be wrong with one is known before a service is asked: the embedded service's tokenizers are here, a model may be a
directory, and settings need neither. `early_renderers` finds that out while nothing of a run is made yet.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

from platoon.config.text import quoted
from platoon.errors import ConfigError, Problem
from platoon.host.threads import in_daemon_thread
from platoon.sampling.context_window import refuse_small_window
from platoon.sampling.model_spec import ModelSpec
from platoon.sampling.renderer import Renderer
from platoon.train.policy.spec import LOCAL, MAIN
from platoon.train.services import base_url
from platoon.train.trainer.api import Run

OPEN_TIMEOUT_S = 300.0
TOKENIZER_FILES = ["tokenizer*", "*.jinja", "special_tokens_map.json", "vocab*", "merges.txt", "config.json"]


async def renderer_of(run: Run, policy: str) -> Renderer:
    """The renderer of a policy. A frozen policy has the tokenizer of a trained one of the same model, else its model's."""
    from platoon.sampling.renderers.build import build_renderer

    spec = run.policies[policy].spec
    same_model = [other for other in run.trained if other.spec.model.model_name == spec.model.model_name]

    def build() -> Renderer:
        named = same_model[0].tokenizer_id if same_model else None
        return build_renderer(spec.model, tokenizer_directory(named or spec.model.model_name))

    # Service and hub are asked, and may not answer.
    return await run.waits.alive(in_daemon_thread(build), what=f"the tokenizer of policy {policy!r}", timeout_s=OPEN_TIMEOUT_S)


def section_of(policy: str) -> str:
    """The section of the configuration that names a policy's model."""
    return "train" if policy == MAIN else f"policies.{policy}"


def early_renderers(models: Mapping[str, ModelSpec]) -> dict[str, Renderer]:
    """The renderers that can be built before any service is asked, by the section of the configuration that names the model.

    Raises ConfigError with the problems of every model, of those too whose tokenizer only their service knows.
    """
    found: dict[str, Renderer] = {}
    problems: list[Problem] = []
    told: list[ModelSpec] = []
    for section, model in models.items():
        # A policy that takes all of it from `train:` has no fault of its own.
        if model in told:
            continue
        told.append(model)
        try:
            renderer = _early(model)
        except ConfigError as error:
            problems += [replace(problem, key=f"{section}.{problem.key or 'model_name'}") for problem in error.problems]
        else:
            found |= {section: renderer} if renderer is not None else {}
    if problems:
        raise ConfigError(problems)
    return found


def tokenizer_directory(name: str) -> Path:
    """A directory as it is; for the name of a model its tokenizer files, fetched once into the hub's cache."""
    if Path(name).is_dir():
        return Path(name)
    from huggingface_hub import snapshot_download

    try:
        return Path(snapshot_download(name, allow_patterns=TOKENIZER_FILES))
    except Exception as error:
        rule = f"no tokenizer to be had for {quoted(name)}: {error}"
        raise ConfigError(Problem(rule, key="train.model_name", advice="use a model that is in reach, or a directory")) from error


def _early(model: ModelSpec) -> Renderer | None:
    """None where only the service knows the tokenizer: then model and settings are checked, each by itself.

    So they are where one of them has no name yet: an empty one is not judged.
    """
    from platoon.sampling.renderers.build import build_renderer, check_settings

    problems: list[Problem] = []
    for check, name in ((_check_base, model.model_name), (check_settings, model.renderer_name)):
        try:
            if name:
                check(model)
        except ConfigError as error:
            problems += error.problems
    if problems:
        raise ConfigError(problems)
    if not (model.model_name and model.renderer_name):
        return None
    if base_url(model) == LOCAL:
        from platoon.local.bases import find_base

        with TemporaryDirectory(prefix="platoon-tokenizer-") as directory:
            renderer = build_renderer(model, find_base(model.model_name).write_directory(Path(directory)))
    elif Path(model.model_name).is_dir():
        renderer = build_renderer(model, model.model_name)
    else:
        return None
    refuse_small_window(model, renderer)
    return renderer


def _check_base(model: ModelSpec) -> None:
    """Raises ConfigError for a base model that the embedded service does not have, and for a window that it has not."""
    if base_url(model) != LOCAL:
        return
    from platoon.local.bases import all_bases

    if (base := all_bases().get(model.model_name)) is None:
        rule = f"the embedded service has no base model {quoted(model.model_name)}"
        raise ConfigError(Problem(rule, key="model_name", advice=f"there is: {', '.join(all_bases())}"))
    most = base.shape.max_context
    if (model.context_window_length or 0) > most:
        rule = f"the embedded service's {model.model_name} takes at most {most} tokens, prompt and reply together"
        raise ConfigError(Problem(rule, key="context_window_length"))
