"""Merging the calls of one long trajectory beside numpy."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from bench.case import Case, Peer
from platoon.rows.block import RowBlock
from platoon.rows.merge import Call, TrajectoryCalls, build_block

TURNS, TOKENS = 40, 32_000


def make_calls(turns: int, tokens: int) -> list[Call]:
    """Calls whose prompts grow to `tokens`, each by the action before it and an observation of the same length."""
    generator = np.random.default_rng(7)
    history = generator.integers(0, 150_000, tokens + tokens // turns).astype(np.uint32)
    step = tokens // turns
    calls = []
    for turn in range(turns):
        end = step * turn + step // 2
        action = history[end : end + step // 2]
        calls.append(Call(history[:end].copy(), action.copy(), np.full(len(action), -0.5, np.float32), "main", version=turn))
    return calls


def with_numpy(calls: list[Call]) -> tuple[NDArray[np.uint32], NDArray[np.float32], NDArray[np.uint8], NDArray[np.uint32]]:
    """The token columns of one row into buffers of the final size: the least that numpy can do."""
    size = len(calls[-1].prompt) + len(calls[-1].action)
    tokens, logprobs = np.empty(size, np.uint32), np.zeros(size, np.float32)
    flags, call_of = np.zeros(size, np.uint8), np.full(size, 0xFFFFFFFF, np.uint32)
    end = 0
    for index, call in enumerate(calls):
        assert np.array_equal(tokens[:end], call.prompt[:end])
        start, stop = len(call.prompt), len(call.prompt) + len(call.action)
        tokens[end:start] = call.prompt[end:]
        tokens[start:stop] = call.action
        logprobs[start:stop] = call.logprobs
        flags[start:stop] = 1
        call_of[start:stop] = index
        end = stop
    return tokens, logprobs, flags, call_of


def agree(block: RowBlock, columns: tuple[NDArray[Any], ...]) -> bool:
    ours: tuple[NDArray[Any], ...] = (block.tokens, block.logprobs, block.flags, block.call)
    return all(np.array_equal(mine, theirs) for mine, theirs in zip(ours, columns, strict=True))


def cases(scale: float) -> list[Case]:
    tokens = int(TOKENS * scale)
    calls = make_calls(TURNS, tokens)
    trajectory = TrajectoryCalls(0, 0, "root", 0, 1.0, calls)
    return [
        Case(
            "merge, checks included",
            f"{TURNS} turns to {tokens} tokens",
            lambda: build_block([trajectory], ("main",), ("root",)),
            (Peer("numpy into buffers of the final size, no checks", lambda: with_numpy(calls), same=agree),),
        )
    ]
