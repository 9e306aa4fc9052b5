"""U74: what each reward file is worth, and the reward contract."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from platoon.envs.harbor.rewards import RewardContract, RewardFile, judge, parse_contract
from platoon.errors import ConfigError

pytestmark = pytest.mark.unit

MISSING = object()
LINK, HUGE = "not_regular", "too_large"

# reward.json, reward.txt, status, reward or reason
U74 = {
    "both missing": (MISSING, MISSING, "error", "reward_file_missing"),
    "empty json": ("", MISSING, "error", "reward_file_empty"),
    "blank text": (MISSING, " \n", "error", "reward_file_empty"),
    "text": (MISSING, "0.5\n", "scored", 0.5),
    "text with blanks": (MISSING, "\t1\n\n", "scored", 1.0),
    "text negative": (MISSING, "-2e3", "scored", -2000.0),
    "text of two numbers": (MISSING, "1\n0\n", "error", "reward_file_malformed"),
    "text no number": (MISSING, "passed", "error", "reward_file_malformed"),
    "text nan": (MISSING, "nan", "error", "reward_file_malformed"),
    "text inf": (MISSING, "-inf", "error", "reward_file_malformed"),
    "text 1e309": (MISSING, "1e309", "error", "reward_file_malformed"),
    "text true": (MISSING, "true", "error", "reward_file_malformed"),
    "object": ('{"reward": 0.25, "style": 1}', MISSING, "scored", 0.25),
    "json wins": ('{"reward": 0.25}', "1", "scored", 0.25),
    "empty json does not fall back": ("", "1", "error", "reward_file_empty"),
    "broken json does not fall back": ("{", "1", "error", "reward_file_malformed"),
    "not json": ("reward: 1", MISSING, "error", "reward_file_malformed"),
    "scalar": ("1.0", MISSING, "error", "reward_file_malformed"),
    "scalar true": ("true", MISSING, "error", "reward_file_malformed"),
    "string": ('"1"', MISSING, "error", "reward_file_malformed"),
    "null": ("null", MISSING, "error", "reward_file_malformed"),
    "list": ('[{"reward": 1}]', MISSING, "error", "reward_file_malformed"),
    "nested": ('{"reward": {"value": 1}}', MISSING, "error", "reward_file_malformed"),
    "value list": ('{"reward": [1]}', MISSING, "error", "reward_file_malformed"),
    "value string": ('{"reward": "1"}', MISSING, "error", "reward_file_malformed"),
    "value null": ('{"reward": null}', MISSING, "error", "reward_file_malformed"),
    "NaN": ('{"reward": NaN}', MISSING, "error", "reward_file_malformed"),
    "Infinity in another key": ('{"reward": 1, "x": -Infinity}', MISSING, "error", "reward_file_malformed"),
    "1e309": ('{"reward": 1e309}', MISSING, "error", "reward_file_malformed"),
    "a whole number beyond floats": ('{"reward": 1' + "0" * 400 + "}", MISSING, "error", "reward_file_malformed"),
    "a whole number of 5000 digits": ('{"reward": ' + "9" * 5000 + "}", MISSING, "error", "reward_file_malformed"),
    "deep": ("[" * 100_000, MISSING, "error", "reward_file_malformed"),
    "true is a number": ('{"reward": true}', MISSING, "scored", 1.0),
    "false is a number": ('{"reward": false}', MISSING, "scored", 0.0),
    "the last of equal keys counts": ('{"reward": 0, "reward": 1}', MISSING, "scored", 1.0),
    "no keys": ("{}", MISSING, "error", "verifier_no_primary"),
    "other keys": ('{"score": 1}', MISSING, "error", "verifier_no_primary"),
    "declared void": ('{"reward": 1, "invalid": true}', MISSING, "invalid", "verifier_declared"),
    "declared void by number": ('{"reward": 1, "invalid": 0.5}', MISSING, "invalid", "verifier_declared"),
    "void with a kind": ('{"invalid": 1, "failure_kind": "network_down"}', MISSING, "invalid", "network_down"),
    "a kind alone voids nothing": ('{"reward": 1, "failure_kind": "x"}', MISSING, "scored", 1.0),
    "not quite void": ('{"reward": 1, "invalid": 0.4}', MISSING, "scored", 1.0),
    "void by a string": ('{"reward": 1, "invalid": "yes"}', MISSING, "error", "reward_file_malformed"),
    "kind of no string": ('{"invalid": 1, "failure_kind": 3}', MISSING, "error", "reward_file_malformed"),
    "link, directory, FIFO": (LINK, MISSING, "invalid", "reward_file_not_regular"),
    "link beside a good file": ('{"reward": 1}', LINK, "invalid", "reward_file_not_regular"),
    "2 GB": (HUGE, MISSING, "invalid", "reward_file_too_large"),
    "2 GB text beside a good file": ('{"reward": 1}', HUGE, "invalid", "reward_file_too_large"),
}


def file(name: str, content: object) -> RewardFile:
    if content is MISSING:
        return RewardFile(name)
    if content in (LINK, HUGE):
        return RewardFile(name, content)  # type: ignore[arg-type]
    return RewardFile(name, "regular", content)  # type: ignore[arg-type]


def files(as_json: object, as_text: object = MISSING) -> list[RewardFile]:
    return [file("reward.json", as_json), file("reward.txt", as_text)]


@pytest.mark.parametrize("case", U74)
def test_u74_verdicts(case: str):
    as_json, as_text, status, expected = U74[case]
    outcome = judge(files(as_json, as_text), RewardContract())
    assert outcome.status == status
    if isinstance(expected, float):
        assert outcome.reward == expected and outcome.reason is None and "platoon_zero" not in outcome.metadata
    else:
        assert outcome.reason == expected
    if status == "error" and outcome.reason != "verifier_no_primary":
        assert outcome.failure_kind == "verifier_no_reward" and outcome.metadata["reward_problem"]
    if status == "invalid":
        assert not outcome.trainable and outcome.failure_kind == expected
    json.dumps(outcome.to_dict(), allow_nan=False)


def test_the_classes_of_malformed_files_are_told_apart():
    problems = [judge(files(text), RewardContract()).metadata["reward_problem"] for text in ("", "x", '{"reward": NaN}', "[]")]
    assert ["empty" in problems[0], "no JSON" in problems[1], "not finite" in problems[2], "array" in problems[3]] == [True] * 4


MALFORMED = {
    "surrogate name": ('{"reward": 1, "\\ud800": 1}', "holds \\ud800 alone"),
    "path": ('{"reward": 1, "../../x": 1}', "'../../x'"),
    "slash": ('{"reward": 1, "a/b": 1}', "'a/b'"),
    "empty name": ('{"reward": 1, "": 0.3}', "''"),
    "blank": ('{"reward": 1, "a b": 1}', "'a b'"),
    "newline at the end": ('{"reward": 1, "a\\n": 1}', "'a\\n'"),
    "quote": ('{"reward": 1, "\'": 1}', '"\'"'),
    "letters of other scripts": ('{"reward": 1, "\u0661": 1}', "'\\u0661'"),
    "65 characters": (json.dumps({"reward": 1, "x" * 65: 1}), "x" * 65),
    "20,000 keys": (json.dumps({f"k{index}": 1 for index in range(20_000)}), "20000 numbers"),
    "65 keys": (json.dumps({f"k{index}": 1 for index in range(65)}), "65 numbers"),
    "too large": ('{"reward": 1.7e308}', "beyond 1e+09"),
    "too small": ('{"reward": 1, "x": -1.7e308}', "'x' is -1.7e+308"),
    "just too large": ('{"reward": 1000000001}', "'reward' is 1000000001.0"),
    "surrogate kind": ('{"invalid": 1, "failure_kind": "\\udfff"}', "holds \\udfff alone"),
    "long kind": (json.dumps({"invalid": 1, "failure_kind": "x" * 900_000}), "failure_kind is 'xxx"),
    "newline in a kind": ('{"invalid": 1, "failure_kind": "a\\nb"}', "failure_kind is 'a\\nb'"),
    "a kind that is not used": ('{"reward": 1, "failure_kind": "a/b"}', "failure_kind is 'a/b'"),
}


@pytest.mark.parametrize("case", MALFORMED)
def test_u74_what_could_not_be_stored_or_summed_is_malformed(case: str):
    text, told = MALFORMED[case]
    outcome = judge(files(text), RewardContract())
    assert (outcome.status, outcome.failure_kind, outcome.reason) == ("error", "verifier_no_reward", "reward_file_malformed")
    problem = outcome.metadata["reward_problem"]
    assert told in problem and len(problem) < 300 and problem.isascii() and problem.isprintable()


@pytest.mark.parametrize("text", ["1.7e308", "-1.7e308", "1000000001"])
def test_u74_a_plain_number_is_bounded_too(text: str):
    outcome = judge(files(MISSING, text), RewardContract())
    assert outcome.reason == "reward_file_malformed" and "beyond 1e+09" in outcome.metadata["reward_problem"]


@pytest.mark.parametrize("text", ["0x10", "0.5.", "1,5", "--1", "e3", ".", "1e", "true", "infinit", "+nan1"])
def test_u74_a_plain_number_is_written_as_people_write_one(text: str):
    outcome = judge(files(MISSING, text), RewardContract())
    assert (outcome.reason, outcome.metadata["reward_problem"]) == ("reward_file_malformed", f"reward.txt is no number: {text!a}")


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("1", 1.0),
        ("0.5\n", 0.5),
        (" 1e-3 ", 0.001),
        ("+1.", 1.0),
        (".5", 0.5),
        ("-2E+3", -2000.0),
        ("007", 7.0),
        ("\r\n1\r\n", 1.0),
    ],
)
def test_u74_forms_of_a_plain_number(text: str, number: float):
    assert judge(files(MISSING, text), RewardContract()).reward == number


@given(st.floats(min_value=-1e9, max_value=1e9))
def test_u74_every_float_as_programs_print_it_counts(number: float):
    for text in (repr(number), f"{number:e}", f"{number:f}"):
        assert judge(files(MISSING, text), RewardContract()).reward == float(text)


def test_u74_names_and_numbers_at_their_bounds_count():
    rewards = {"reward": 1e9, "a:b.c-d_E": -1e9, "x" * 64: 0.0, **{f"k{index}": 1.0 for index in range(61)}}
    outcome = judge(files(json.dumps(rewards)), RewardContract())
    assert outcome.status == "scored" and outcome.rewards == rewards and len(rewards) == 64
    assert judge(files(json.dumps({"invalid": 1, "failure_kind": "x" * 64})), RewardContract()).failure_kind == "x" * 64


CONTRACTS = [
    ("score", '{"score": 0.5}', MISSING, "scored", 0.5),
    ("score", MISSING, "0.5", "error", "verifier_no_primary"),
    (["a", "b"], '{"b": 2}', MISSING, "scored", 2.0),
    (["a", "b"], '{"a": 1, "b": 2}', MISSING, "invalid", "verifier_ambiguous_primary"),
    (["a", "b"], '{"c": 1}', MISSING, "error", "verifier_no_primary"),
    (["reward", "b"], '{"b": 2}', "1", "invalid", "verifier_ambiguous_reward_files"),
    (["reward", "b"], MISSING, "1", "scored", 1.0),
    ({"primary": "a", "components": ["a", "b"]}, '{"a": 1, "b": 0}', MISSING, "scored", 1.0),
    ({"primary": "a", "components": ["a", "b"]}, '{"a": 1, "x": 0}', MISSING, "invalid", "verifier_unexpected_keys"),
    ({"primary": "a", "range": [0, 1]}, '{"a": 1}', MISSING, "scored", 1.0),
    ({"primary": "a", "range": [0, 1]}, '{"a": 1.5}', MISSING, "invalid", "verifier_out_of_range"),
    ({"range": [0, 1]}, '{"reward": -1, "invalid": 1}', MISSING, "invalid", "verifier_declared"),
]


@pytest.mark.parametrize(("contract", "as_json", "as_text", "status", "expected"), CONTRACTS)
def test_contracts(contract, as_json, as_text, status, expected):
    outcome = judge(files(as_json, as_text), parse_contract(contract))
    assert (outcome.status, outcome.reward if status == "scored" else outcome.reason) == (status, expected)


@pytest.mark.parametrize(
    "value",
    [
        "",
        [],
        ["a", "a"],
        ["a", 1],
        3,
        "invalid",
        ["failure_kind"],
        "a/b",
        ["a", "b c"],
        {"primary": "a", "components": ["b"]},
        {"primry": "a"},
        {"range": [1, 0]},
        {"range": [0]},
        {"range": [0, True]},
        {"range": [0, float("nan")]},
    ],
)
def test_contracts_that_are_none(value):
    with pytest.raises(ConfigError):
        parse_contract(value)


@given(st.text(), st.booleans())
def test_any_text_gives_an_outcome(text: str, as_json: bool):
    outcome = judge(files(text) if as_json else files(MISSING, text), RewardContract())
    assert outcome.status in ("scored", "error", "invalid")


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["reward", "invalid", "failure_kind", "x"]), inner),
    max_leaves=6,
)


@given(JSON)
def test_any_json_gives_an_outcome(value: object):
    outcome = judge(files(json.dumps(value)), RewardContract())
    json.dumps(outcome.to_dict(), allow_nan=False, ensure_ascii=False).encode()
    if outcome.status == "scored":
        assert isinstance(value, dict) and outcome.reward == float(value["reward"])
