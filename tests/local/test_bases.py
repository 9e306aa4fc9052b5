from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from platoon.local.bases import all_bases, find_base
from platoon.local.refusals import NotFound
from platoon.local.tokenizer_build import MARKERS, SPECIAL, bpe_tokenizer, byte_tokenizer
from platoon.local.tokens import Tokens

pytestmark = pytest.mark.unit

NAMES = ["local/small", "local/tiny"]


def test_the_bases_and_an_unknown_one() -> None:
    assert sorted(all_bases()) == NAMES
    with pytest.raises(NotFound, match="local/small"):
        find_base("local/huge")


@pytest.mark.parametrize("name", NAMES)
def test_parameters_follow_from_the_seed_and_have_the_width_that_learns(name: str) -> None:
    base = find_base(name)
    parameters = base.parameters()
    np.testing.assert_array_equal(parameters, base.parameters())
    assert parameters.dtype == np.float32 and parameters.size == base.shape.parameter_count
    assert not np.array_equal(parameters, base.parameters(seed=1))
    for piece in base.shape.slices:
        values = parameters[piece.offset : piece.offset + piece.size]
        assert piece.offset % 16 == 0
        if piece.name.endswith("norm"):
            assert (values == 1).all()
        else:
            assert values.std() == pytest.approx(base.shape.hidden**-0.5, rel=0.05)


@pytest.mark.parametrize("name", NAMES)
def test_the_tokenizer_keeps_any_text_and_marks_what_is_special(name: str, tmp_path: Path) -> None:
    from tokenizers import Tokenizer

    base = find_base(name)
    directory = base.write_directory(tmp_path)
    assert base.write_directory(tmp_path) == directory and ":" not in str(directory)
    tokenizer = Tokenizer.from_file(str(directory / "tokenizer.json"))
    text = '<|im_start|>user\nhéllo → 🎈\t{"name": "bash"}<|im_end|>\n<tool_call>\n1\n</tool_call>'
    encoded = tokenizer.encode(text, add_special_tokens=False)
    assert tokenizer.decode(encoded.ids, skip_special_tokens=False) == text
    assert [tokenizer.token_to_id(token) for token in SPECIAL] == [0, 1, 2]
    assert base.stop_token == 2
    for marker in MARKERS:
        assert len(tokenizer.encode(marker, add_special_tokens=False).ids) == 1
        assert marker in tokenizer.decode(tokenizer.encode(marker).ids, skip_special_tokens=True)
    assert max(tokenizer.get_vocab().values()) == base.shape.vocab - 1
    config = json.loads((directory / "tokenizer_config.json").read_bytes())
    assert config["eos_token"] == "<|im_end|>" and "im_start" in config["chat_template"]


def test_building_a_tokenizer_is_deterministic_and_of_the_asked_size() -> None:
    texts = ["cat notes.txt\n", "echo 47 > notes.txt\n"] * 50
    built = bpe_tokenizer(texts, 300)
    assert built == bpe_tokenizer(texts, 300)
    content = json.loads(built)
    ids = {*content["model"]["vocab"].values(), *(token["id"] for token in content["added_tokens"])}
    assert len(ids) <= 300 and ids == set(range(len(ids)))
    assert len(json.loads(byte_tokenizer())["model"]["vocab"]) == 256 + len(SPECIAL)


def test_stop_rules(tmp_path: Path) -> None:
    base = find_base("local/tiny")
    tokens = Tokens(base, base.write_directory(tmp_path))
    end = base.stop_token
    assert tokens.stop_rule(None).token_ids == {end}
    assert tokens.stop_rule([]).token_ids == frozenset() and tokens.stop_rule([]).strings == ()
    assert tokens.stop_rule([7, 8]).token_ids == {end, 7, 8}
    assert tokens.stop_rule("\n\nUser:").strings == ("\n\nUser:",)
    assert tokens.stop_rule(["a", "b"]).strings == ("a", "b")
