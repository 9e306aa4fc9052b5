"""A byte-level tokenizer with chat tokens, and a ChatML template that writes replies back as they were sampled.

Token id = byte for 0 to 255, no merges; then 256 endoftext, 257 im_start, 258 im_end (the end token), 259/260 tool_call, 261/262
tool_response, 263/264 think.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

from platoon.sampling.model_spec import ModelSpec
from platoon.sampling.renderer import Renderer
from platoon.sampling.renderers.build import build_renderer
from platoon.sampling.renderers.tokenizer import load_tokenizer

TOY_MODEL_NAME = "platoon/toy"
TOY_RENDERER_NAME = "chat_template"
TOY_TOKENIZER_DIR = Path(__file__).parent / "toy"


@cache
def toy_tokenizer() -> Any:
    """The `tokenizers.Tokenizer`."""
    return load_tokenizer(TOY_TOKENIZER_DIR).tokenizer


@cache
def _renderer(name: str) -> Renderer:
    return build_renderer(ModelSpec(TOY_MODEL_NAME, name), TOY_TOKENIZER_DIR)


def toy_renderer(name: str = TOY_RENDERER_NAME) -> Renderer:
    """A renderer over the toy tokenizer; names of the cookbook work where it is installed."""
    return _renderer(name)
