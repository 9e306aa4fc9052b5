"""Builds the renderer a model spec names."""

from __future__ import annotations

from pathlib import Path

from platoon.sampling.model_spec import ModelSpec
from platoon.sampling.renderer import Renderer
from platoon.sampling.renderers.chat_template import CHAT_TEMPLATE, ChatTemplateRenderer, ChatTemplateSettings
from platoon.sampling.renderers.tokenizer import load_tokenizer


def build_renderer(spec: ModelSpec, tokenizer_dir: Path | str) -> Renderer:
    """The renderer of `spec`, over the tokenizer in a local directory (as a served model's `get_info` names it).

    Raises ConfigError for an unknown renderer, an unknown setting, or a directory that holds no tokenizer.
    """
    if spec.renderer_name == CHAT_TEMPLATE:
        settings = ChatTemplateSettings.from_kwargs(spec.renderer_kwargs)
        return ChatTemplateRenderer(load_tokenizer(Path(tokenizer_dir)), settings, spec.model_name)
    from platoon.sampling.renderers.cookbook import CookbookRenderer

    return CookbookRenderer.build(spec, str(tokenizer_dir))


def check_settings(spec: ModelSpec) -> None:
    """What can be said of a renderer without its tokenizer. Raises ConfigError for a name or a setting that is none."""
    if spec.renderer_name == CHAT_TEMPLATE:
        ChatTemplateSettings.from_kwargs(spec.renderer_kwargs)
        return
    from platoon.sampling.renderers.cookbook import refuse_unknown

    refuse_unknown(spec.renderer_name)
