"""The cookbook adapter, and our templates against the reference implementation."""

from __future__ import annotations

import re

import numpy as np
import pytest

from platoon.errors import ConfigError
from platoon.sampling.model_spec import ModelSpec
from platoon.sampling.renderer import RenderRequest
from platoon.sampling.renderers.build import build_renderer, check_settings
from platoon.testing import TOY_TOKENIZER_DIR, tool_call, toy_renderer, toy_tokenizer

# The reference packages warn about themselves.
pytestmark = [pytest.mark.model, pytest.mark.filterwarnings("ignore")]
PARAMETERS = {"type": "object", "properties": {"command": {"type": "string"}}}
TOOLS = [{"type": "function", "function": {"name": "bash", "description": "Rün it.", "parameters": PARAMETERS}}]
CALL = {"id": "c", "type": "function", "function": {"name": "bash", "arguments": {"command": 'echo "é" <b>'}}}
CONVERSATION = [
    {"role": "system", "content": "s"},
    {"role": "user", "content": " go\n"},
    {"role": "assistant", "content": "", "tool_calls": [CALL]},
    {"role": "tool", "content": "x", "tool_call_id": "c"},
    {"role": "assistant", "content": "done"},
]


def encode(text: str) -> np.ndarray:
    return np.asarray(toy_tokenizer().encode(text, add_special_tokens=False).ids, dtype=np.uint32)


@pytest.fixture(scope="module")
def cookbook():
    return build_renderer(ModelSpec("platoon/toy", "qwen3_instruct"), TOY_TOKENIZER_DIR)


@pytest.mark.parametrize("tools", [[], TOOLS])
@pytest.mark.parametrize("generation", [True, False])
def test_a_template_renders_as_transformers_renders_it(tools, generation):
    from transformers import AutoTokenizer

    reference = AutoTokenizer.from_pretrained(TOY_TOKENIZER_DIR)
    for length in range(1, len(CONVERSATION) + 1):
        messages = CONVERSATION[:length]
        expected = reference.apply_chat_template(
            messages, tools=tools or None, add_generation_prompt=generation, tokenize=False, enable_thinking=True
        )
        assert toy_renderer()._text(messages, tools, generation, {}) == expected
    assert reference(expected, add_special_tokens=False)["input_ids"] == toy_renderer()._encode(expected).tolist()


@pytest.mark.parametrize(
    ("reply", "content", "calls", "unparsed", "clean"),
    [
        ("hi<|im_end|>", "hi", 0, 0, True),
        (tool_call("bash", command="ls") + "<|im_end|>", "", 1, 0, True),
        ("half", "half", 0, 0, False),
        ("<tool_call>{bad</tool_call><|im_end|>", "", 0, 1, True),
        ("a<|im_end|>b<|im_end|>", "", 0, 1, False),
    ],
)
def test_replies_of_a_cookbook_renderer(cookbook, reply, content, calls, unparsed, clean):
    """A malformed end is not clean, although every member of the cookbook's enum is truthy."""
    parsed = cookbook.parse(encode(reply), RenderRequest([]), "stop")
    found = (parsed.content, len(parsed.tool_calls), len(parsed.unparsed), parsed.clean)
    assert found == (content, calls, unparsed, clean)


def test_a_cookbook_renderer_extends_its_prompts(cookbook):
    prompt_T = cookbook.render(RenderRequest(CONVERSATION[:2], TOOLS))
    tokens_T, trained_T = cookbook.render_conversation(CONVERSATION, TOOLS)
    assert tokens_T[: len(prompt_T)].tolist() == prompt_T.tolist()
    assert cookbook.decode(tokens_T[trained_T]).endswith("</tool_call><|im_end|>done<|im_end|>")


@pytest.mark.parametrize(("name", "kwargs", "told"), [("no_such", {}, "no_such"), ("qwen3_instruct", {"colour": 1}, "colour")])
def test_names_and_settings_are_checked(name, kwargs, told):
    with pytest.raises(ConfigError, match=told):
        build_renderer(ModelSpec("platoon/toy", name, kwargs), TOY_TOKENIZER_DIR)


@pytest.mark.parametrize(
    ("name", "advice"),
    [
        ("qwen3_instrukt", "did you mean qwen3_instruct?"),
        ("chat_templat", "did you mean chat_template?"),
        ("zzz", "known here: chat_template, deepseekv3, "),
    ],
)
def test_a_renderer_that_there_is_not(name, advice):
    """Known without a tokenizer too, as of a model that only its service knows."""
    spec = ModelSpec("served/elsewhere", name)
    for judge in (check_settings, lambda spec: build_renderer(spec, TOY_TOKENIZER_DIR)):
        with pytest.raises(ConfigError, match=f"^renderer_name: no renderer is called '{name}' [(]{re.escape(advice)}"):
            judge(spec)


def test_renderers_that_there_are():
    """Of the cookbook's, those that cannot be built without a tokenizer are still no unknown ones."""
    for name in ("chat_template", "qwen3_instruct", "kimi_k25", "deepseekv3", "tml_v0"):
        check_settings(ModelSpec("served/elsewhere", name))


def test_a_setting_that_a_renderer_has_not():
    with pytest.raises(ConfigError, match=r"^renderer_kwargs\.strip_thinkin: .*did you mean strip_thinking"):
        build_renderer(ModelSpec("m", "qwen3_instruct", {"strip_thinkin": True}), TOY_TOKENIZER_DIR)
