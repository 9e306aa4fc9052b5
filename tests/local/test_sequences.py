from __future__ import annotations

import random

import pytest

from platoon.local.sequences import DrawSettings, Sequence, StopRule

pytestmark = pytest.mark.unit


def decode(tokens: list[int]) -> str:
    return bytes(tokens).decode(errors="replace")


def grown(text: bytes, stop: StopRule, limit: int = 100) -> Sequence:
    sequence = Sequence((1,), limit, DrawSettings(), stop, random.Random(0))
    for token in text:
        if sequence.extend(token, -1.0):
            break
    return sequence


def test_a_stop_token_ends_a_sequence_and_belongs_to_it() -> None:
    sequence = grown(b"ab.cd", StopRule(frozenset({ord(".")})))
    assert bytes(sequence.tokens) == b"ab." and sequence.stopped
    assert len(sequence.logprobs) == 3


@pytest.mark.parametrize(("text", "ended"), [(b"say END now", b"say END"), (b"EN D", b"EN D"), ("ÄENDÄ".encode(), "ÄEND".encode())])
def test_a_stop_string_ends_a_sequence_where_it_is_complete(text: bytes, ended: bytes) -> None:
    assert bytes(grown(text, StopRule(strings=("END",), decode=decode)).tokens) == ended


def test_a_stop_string_of_many_bytes_is_found_across_tokens() -> None:
    assert grown("… → stop".encode(), StopRule(strings=("→ st",), decode=decode)).tokens[-1] == ord("t")


def test_without_stops_only_the_limit_ends_a_sequence() -> None:
    sequence = grown(b"abcdef", StopRule(), limit=4)
    assert len(sequence.tokens) == 4 and not sequence.stopped
