from __future__ import annotations

import json
import shutil

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from platoon.errors import ConfigError
from platoon.sampling.model_spec import ModelSpec
from platoon.sampling.renderer import RenderError, RenderRequest
from platoon.sampling.renderers.build import build_renderer, check_settings
from platoon.sampling.renderers.chat_template import BATCH_CHARACTERS
from platoon.testing import TOY_TOKENIZER_DIR, tool_call, toy_renderer, toy_tokenizer
from tests.properties import examples

pytestmark = pytest.mark.unit
TOOLS = [{"type": "function", "function": {"name": "bash", "parameters": {"type": "object", "properties": {}}}}]
END = 258


def encode(text: str) -> np.ndarray:
    return np.asarray(toy_tokenizer().encode(text, add_special_tokens=False).ids, dtype=np.uint32)


def as_message(parsed) -> dict:
    """The assistant message as a harness would send it back."""
    message = {"role": "assistant", "content": parsed.content}
    if parsed.reasoning:
        message["reasoning_content"] = parsed.reasoning
    if parsed.tool_calls:
        message["tool_calls"] = [
            {
                "id": f"c{i}",
                "type": "function",
                "function": {"name": c.name, "arguments": json.dumps(c.arguments, ensure_ascii=False)},
            }
            for i, c in enumerate(parsed.tool_calls)
        ]
    return message


def test_toy_tokens_are_bytes():
    assert encode("aé<|im_end|><think>").tolist() == [97, 0xC3, 0xA9, END, 263]
    assert toy_renderer().stop_tokens == (END,)


def test_auto_finds_hermes():
    assert toy_renderer().parser.name == "hermes"


def test_prompt_text():
    renderer = toy_renderer()
    prompt_T = renderer.render(RenderRequest([{"role": "user", "content": "hi"}]))
    assert prompt_T.dtype == np.uint32
    assert renderer.decode(prompt_T) == "<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\n"


def test_key_order_of_tools_is_tokens():
    request = RenderRequest([{"role": "user", "content": "x"}], TOOLS)
    swapped = RenderRequest(request.messages, [{"function": TOOLS[0]["function"], "type": "function"}])
    assert toy_renderer().render(request).tolist() != toy_renderer().render(swapped).tolist()


@pytest.mark.parametrize(
    "reply",
    [
        "done",
        "",
        tool_call("bash", command="ls"),
        "first\n" + tool_call("bash", command="a\n b"),
        tool_call("a") + "\n" + tool_call("b", x=[1, {"y": None}]),
        "<think>\nhm\n</think>\nso\n" + tool_call("bash", command="</tool_call>é"),
    ],
)
def test_next_prompt_begins_with_prompt_and_completion(reply):
    renderer = toy_renderer()
    messages = [{"role": "user", "content": "go"}]
    prompt_T = renderer.render(RenderRequest(messages, TOOLS))
    completion_T = encode(reply + "<|im_end|>")
    parsed = renderer.parse(completion_T, RenderRequest(messages, TOOLS), "stop", prompt_T)
    assert parsed.clean and not parsed.unparsed
    following = [*messages, as_message(parsed), {"role": "tool", "content": "out", "tool_call_id": "c0"}]
    told_T = np.concatenate([prompt_T, completion_T])
    for continues_T in (None, told_T):
        next_T = renderer.render(RenderRequest(following, TOOLS, continues_T=continues_T))
        assert next_T[: len(told_T)].tolist() == told_T.tolist()


@given(
    st.text(st.characters(exclude_categories=["Cs"], exclude_characters="<"), max_size=40),
    st.text(st.characters(exclude_categories=["Cs"], exclude_characters="<"), max_size=30),
)
@settings(max_examples=100, deadline=None)
def test_extension_holds_for_any_content_and_command(content, command):
    renderer = toy_renderer()
    messages = [{"role": "user", "content": "go"}]
    prompt_T = renderer.render(RenderRequest(messages))
    reply = f"{content}\n{tool_call('bash', command=command)}" if content else tool_call("bash", command=command)
    completion_T = encode(reply + "<|im_end|>")
    parsed = renderer.parse(completion_T, RenderRequest(messages), "stop", prompt_T)
    next_T = renderer.render(RenderRequest([*messages, as_message(parsed), {"role": "tool", "content": "x"}]))
    told_T = np.concatenate([prompt_T, completion_T])
    assert next_T[: len(told_T)].tolist() == told_T.tolist()


def test_sampled_tokens_are_kept_where_the_encoder_would_choose_others(tmp_path):
    """A tokenizer with one merge: the policy samples `a`, `b` apart, the encoder would give `ab`."""
    shutil.copytree(TOY_TOKENIZER_DIR, tmp_path / "merging")
    path = tmp_path / "merging" / "tokenizer.json"
    value = json.loads(path.read_text())
    value["model"]["vocab"]["ab"] = 265
    value["model"]["merges"] = [["a", "b"]]
    path.write_text(json.dumps(value))
    renderer = build_renderer(ModelSpec("m", "chat_template"), path.parent)
    messages = [{"role": "user", "content": "x"}]
    prompt_T = renderer.render(RenderRequest(messages))
    told_T = np.concatenate([prompt_T, np.array([97, 98, *renderer.stop_tokens], dtype=np.uint32)])
    following = [*messages, {"role": "assistant", "content": "ab"}, {"role": "user", "content": "ab"}]
    assert 265 in renderer.render(RenderRequest(following))[len(prompt_T) : len(prompt_T) + 2]
    next_T = renderer.render(RenderRequest(following, continues_T=told_T))
    assert next_T[: len(told_T)].tolist() == told_T.tolist()
    assert next_T[len(told_T) :].tolist().count(265) == 1


def test_a_truncated_reply_is_not_clean():
    parsed = toy_renderer().parse(encode("half of"), RenderRequest([]), "length")
    assert (parsed.content, parsed.clean) == ("half of", False)


def test_conversation_trains_each_reply_with_its_end_token():
    messages = [
        {"role": "system", "content": "s"},
        {"role": "user", "content": "go"},
        {"role": "assistant", "content": "", "tool_calls": [{"function": {"name": "bash", "arguments": {"command": "ls"}}}]},
        {"role": "tool", "content": "out"},
        {"role": "assistant", "content": "done"},
        {"role": "user", "content": "thanks"},
    ]
    renderer = toy_renderer()
    tokens_T, trained_T = renderer.render_conversation(messages, TOOLS)
    assert (tokens_T.dtype, trained_T.dtype, tokens_T.shape) == (np.uint32, np.bool_, trained_T.shape)
    assert renderer.decode(tokens_T[trained_T]) == tool_call("bash", command="ls") + "<|im_end|>done<|im_end|>"
    first = int(trained_T.argmax())
    assert tokens_T[:first].tolist() == renderer.render(RenderRequest(messages[:2], TOOLS)).tolist()
    whole = renderer.render(RenderRequest(messages, TOOLS))
    assert renderer.decode(whole).startswith(renderer.decode(tokens_T))


def test_conversation_without_replies_trains_nothing():
    _, trained_T = toy_renderer().render_conversation([{"role": "user", "content": "x"}])
    assert len(trained_T) and not trained_T.any()


def with_template(tmp_path, template: str, **kwargs):
    directory = tmp_path / "model"
    shutil.copytree(TOY_TOKENIZER_DIR, directory)
    (directory / "chat_template.jinja").write_text(template)
    return build_renderer(ModelSpec("m", "chat_template", kwargs), directory)


CHATML = "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"


def test_a_template_that_rewrites_history_is_refused_for_training(tmp_path):
    template = CHATML.replace("{{ m.content }}", "{{ m.content if loop.last else 'cut' }}")
    renderer = with_template(tmp_path, template + "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}")
    with pytest.raises(RenderError, match="otherwise than it was sampled"):
        renderer.render_conversation([{"role": "assistant", "content": "abc"}, {"role": "user", "content": "b"}])


def test_a_template_without_tools_parses_none(tmp_path, caplog):
    assert with_template(tmp_path, CHATML).parser.name == "none"
    assert "renders no tools" in caplog.text


def test_a_template_no_parser_reads_is_refused(tmp_path):
    template = "{% if tools %}{{ tools | tojson }}{% endif %}" + CHATML
    with pytest.raises(ConfigError, match="no tool-call parser reads"):
        with_template(tmp_path, template)


@pytest.mark.parametrize(
    ("kwargs", "told"), [({"colour": 1}, "colour"), ({"tool_call_parser": "nope"}, "nope"), ({"reasoning_tags": ["a"]}, "pair")]
)
def test_settings_are_checked(kwargs, told):
    with pytest.raises(ConfigError, match=told):
        build_renderer(ModelSpec("m", "chat_template", kwargs), TOY_TOKENIZER_DIR)


@pytest.mark.parametrize(
    "message",
    [
        {"role": "alien", "content": "x"},
        {"role": "user", "content": [{"type": "image"}]},
        {"role": "user", "content": "\ud800"},
        {"role": "user", "content": 3},
        {"role": "assistant", "tool_calls": [{"function": {"name": "f", "arguments": "{"}}]},
    ],
)
def test_requests_that_cannot_be_rendered(message):
    with pytest.raises(RenderError):
        toy_renderer().render(RenderRequest([message]))


@pytest.mark.parametrize("text", ["a b\n\tc é <|im_end|> 中文 ", "\ud800"])
def test_much_text_is_encoded_as_little_is(monkeypatch, text):
    requests = [RenderRequest([{"role": "user", "content": text * times}]) for times in (1, BATCH_CHARACTERS)]
    if text == "\ud800":
        with pytest.raises(RenderError):
            toy_renderer().render(requests[1])
        return
    renderer = toy_renderer()
    told = [renderer.render(request) for request in requests]
    monkeypatch.setattr("platoon.sampling.renderers.chat_template.BATCH_CHARACTERS", 10**9)
    for request, tokens_T in zip(requests, told, strict=True):
        np.testing.assert_array_equal(renderer.render(request), tokens_T)


def test_a_bug_in_the_parser_costs_no_call(monkeypatch, caplog):
    class Broken:
        name = "broken"

        def parse(self, text, **kwargs):
            raise IndexError("x")

    renderer = build_renderer(ModelSpec("m", "chat_template"), TOY_TOKENIZER_DIR)
    renderer.parser = Broken()
    parsed = renderer.parse(encode("text<|im_end|>"), RenderRequest([]), "stop")
    assert [item.raw_text for item in parsed.unparsed] == ["text"]
    assert "the broken parser failed" in caplog.text


def test_missing_files_are_named(tmp_path):
    with pytest.raises(ConfigError, match=r"tokenizer\.json"):
        build_renderer(ModelSpec("m", "chat_template"), tmp_path)


@pytest.mark.parametrize(
    "template",
    ["{% for %}", "{{ messages", "{% unknown %}", "{{ x | nofilter }}", "{% generation %}", "{{ 1 +", "{% break %}", b"\xff\xfe"],
)
def test_a_template_that_is_none_is_refused_by_its_directory(template: str | bytes, tmp_path) -> None:
    directory = tmp_path / "model"
    shutil.copytree(TOY_TOKENIZER_DIR, directory)
    (directory / "chat_template.jinja").write_bytes(template if isinstance(template, bytes) else template.encode())
    with pytest.raises(ConfigError, match="template") as refusal:
        build_renderer(ModelSpec("toy", "chat_template"), directory)
    assert str(refusal.value).startswith(str(directory))


SETTINGS = (
    "enable_thinking",
    "preserve_thinking",
    "reasoning_effort",
    "chat_template_kwargs",
    "tool_call_parser",
    "reasoning_tags",
    "nothing",
)
ANY = st.none() | st.booleans() | st.integers() | st.text(max_size=4) | st.lists(st.text(max_size=4), max_size=3)


@examples(60)
@given(kwargs=st.dictionaries(st.sampled_from(SETTINGS), ANY | st.dictionaries(st.text(max_size=3), ANY, max_size=2), max_size=3))
def test_settings_of_any_kind_make_a_renderer_or_are_refused_by_key(kwargs) -> None:
    spec = ModelSpec("toy", "chat_template", kwargs)
    try:
        check_settings(spec)
        build_renderer(spec, TOY_TOKENIZER_DIR).render(RenderRequest([{"role": "user", "content": "x"}]))
    except RenderError:
        assert kwargs["chat_template_kwargs"]
    except ConfigError as error:
        assert all(problem.key.partition(".")[2] in kwargs for problem in error.problems)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("reasoning_tags", 5),
        ("reasoning_tags", ["a"]),
        ("enable_thinking", "yes"),
        ("tool_call_parser", None),
        ("reasoning_effort", 3),
    ],
)
def test_a_setting_of_another_type_is_refused_without_a_tokenizer(key: str, value: object) -> None:
    with pytest.raises(ConfigError, match=f"renderer_kwargs.{key}: must be"):
        check_settings(ModelSpec("toy", "chat_template", {key: value}))
