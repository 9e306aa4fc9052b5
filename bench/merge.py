"""Merging the calls of long trajectories beside numpy.

The peer is the fastest numpy that gives the same columns and refuses the same calls. What leaves a part of that out is a floor:
token columns into buffers whose size is known before, of calls that nobody checks; and the comparison of prompts alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bench.case import Case, Peer
from platoon.rows.block import ACTION, COLUMNS, NO_CALL, RowBlock
from platoon.rows.merge import Call, TrajectoryCalls, build_block

TURNS, TOKENS = 40, 32_000
LONG_TURNS, LONG_TOKENS, LONG_LIMIT_MS = 150, 60_000, 20.0


def cases(scale: float) -> list[Case]:
    tokens, long_tokens = int(TOKENS * scale), int(LONG_TOKENS * scale)
    trajectory, longer = make_trajectory(TURNS, tokens), make_trajectory(TURNS, 2 * tokens)
    full = full_prompts(LONG_TURNS, long_tokens)
    return [
        Case(
            "merge",
            f"{TURNS} turns to {tokens} tokens",
            lambda: merged(trajectory),
            (
                Peer("numpy, all columns and checks", lambda: with_numpy(trajectory), 0.4, same_columns, small_limit=0.2),
                Peer(
                    "floor: numpy, token columns of a known size, unchecked", lambda: unchecked(trajectory.calls), same=same_tokens
                ),
                Peer("floor: comparing prompts with numpy alone", lambda: compared(trajectory.calls)),
            ),
        ),
        Case(
            "merge, twice the tokens",
            f"{TURNS} turns to {2 * tokens} tokens",
            lambda: merged(longer),
            (Peer("the same merge of half the tokens", lambda: merged(trajectory), 2.6, small_limit=1.6),),
        ),
        Case(
            "merge, long prompts",
            f"{LONG_TURNS} calls of {long_tokens} tokens",
            lambda: merged(full),
            (
                Peer("the time it may take", limit=1.0, fixed_ms=LONG_LIMIT_MS),
                Peer("floor: comparing prompts with numpy alone", lambda: compared(full.calls), small_limit=0.35),
            ),
        ),
    ]


def make_trajectory(turns: int, tokens: int) -> TrajectoryCalls:
    """Calls whose prompts grow to `tokens`, each by the action before it and an observation of the same length."""
    generator = np.random.default_rng(7)
    history = generator.integers(0, 150_000, tokens + tokens // turns).astype(np.uint32)
    step = tokens // turns
    calls = []
    for turn in range(turns):
        end = step * turn + step // 2
        calls.append(make_call(history[:end], history[end : end + step // 2], turn))
    return TrajectoryCalls(0, 0, "root", 0, 1.0, calls)


def full_prompts(turns: int, tokens: int) -> TrajectoryCalls:
    """Calls whose prompts have nearly `tokens` tokens each: one action of a single token after the other."""
    history = np.random.default_rng(7).integers(0, 150_000, tokens + 1).astype(np.uint32)
    first = tokens - turns
    calls = [make_call(history[: first + turn], history[first + turn : first + turn + 1], turn) for turn in range(turns)]
    return TrajectoryCalls(0, 0, "root", 0, 1.0, calls)


def make_call(prompt: NDArray[np.uint32], action: NDArray[np.uint32], version: int) -> Call:
    return Call(prompt.copy(), action.copy(), np.full(len(action), -0.5, np.float32), "main", version=version)


def merged(trajectory: TrajectoryCalls) -> RowBlock:
    return build_block([trajectory], ("main",), ("root",))


def with_numpy(trajectory: TrajectoryCalls) -> dict[str, NDArray[Any]]:
    """All columns of the block, from calls that may part into rows; what a call may not hold is refused.

    The fastest we found: a row is its last call's prompt and action, so nothing grows; a prompt is compared with the one before it,
    and the checks run once over all rows.
    """
    calls = [call for call in trajectory.calls if len(call.action)]
    firsts = [0, *(index for index in range(1, len(calls)) if not extends(calls[index - 1], calls[index])), len(calls)]
    lasts = [calls[end - 1] for end in firsts[1:]]
    tokens = np.concatenate([part for call in lasts for part in (call.prompt, call.action)])
    offsets = np.concatenate(([0], np.cumsum([len(call.prompt) + len(call.action) for call in lasts])))
    logprobs, flags = np.zeros(len(tokens), np.float32), np.zeros(len(tokens), np.uint8)
    call_of = np.full(len(tokens), NO_CALL, np.uint32)
    for row, (first, end) in enumerate(pairwise(firsts)):
        for index in range(first, end):
            call = calls[index]
            start = int(offsets[row]) + len(call.prompt)
            stop = start + len(call.action)
            logprobs[start:stop] = call.logprobs
            flags[start:stop] = ACTION
            call_of[start:stop] = index
    versions = np.array([call.version for call in calls], np.int64)
    rows = len(lasts)
    if not np.isfinite(logprobs).all() or tokens.max() > 2**31 - 1 or versions.min() < -1:
        raise ValueError("a call breaks a rule")
    values = {
        "tokens": tokens,
        "logprobs": logprobs,
        "flags": flags,
        "call": call_of,
        "offsets": offsets,
        "call_policy": np.zeros(len(calls), np.uint16),
        "call_version": versions,
        "call_routing": np.array([call.routing for call in calls], np.int64),
        "row_member": np.full(rows, trajectory.member, np.uint32),
        "row_trajectory": np.full(rows, trajectory.trajectory, np.uint32),
        "row_policy": np.zeros(rows, np.uint16),
        "row_role": np.zeros(rows, np.uint16),
        "row_depth": np.full(rows, trajectory.depth, np.uint16),
        "row_start": np.arange(rows) == 0,
        "row_reward": np.full(rows, trajectory.reward),
        "row_version": np.minimum.reduceat(versions, firsts[:-1]),
    }
    return {name: column.astype(COLUMNS[name], copy=False) for name, column in values.items()}


def extends(before: Call, call: Call) -> bool:
    known = len(before.prompt)
    end = known + len(before.action)
    return equal(call.prompt[:known], before.prompt) and equal(call.prompt[known:end], before.action)


def equal(left: NDArray[np.uint32], right: NDArray[np.uint32]) -> bool:
    return len(left) == len(right) and bool((left == right).all())


def unchecked(calls: Sequence[Call]) -> tuple[NDArray[Any], ...]:
    """The token columns of calls that are known to make one row, into buffers of the final size: a part of the work."""
    size = len(calls[-1].prompt) + len(calls[-1].action)
    tokens, logprobs = np.empty(size, np.uint32), np.zeros(size, np.float32)
    flags, call_of = np.zeros(size, np.uint8), np.full(size, NO_CALL, np.uint32)
    end = 0
    for index, call in enumerate(calls):
        assert equal(tokens[:end], call.prompt[:end])
        start, stop = len(call.prompt), len(call.prompt) + len(call.action)
        tokens[end:start] = call.prompt[end:]
        tokens[start:stop] = call.action
        logprobs[start:stop] = call.logprobs
        flags[start:stop] = ACTION
        call_of[start:stop] = index
        end = stop
    return tokens, logprobs, flags, call_of


def compared(calls: Sequence[Call]) -> bool:
    return all(equal(call.prompt[: len(before.prompt)], before.prompt) for before, call in pairwise(calls))


def same_columns(block: RowBlock, values: dict[str, NDArray[Any]]) -> bool:
    return all(np.array_equal(getattr(block, name), values[name]) for name in values)


def same_tokens(block: RowBlock, columns: tuple[NDArray[Any], ...]) -> bool:
    ours: tuple[NDArray[Any], ...] = (block.tokens, block.logprobs, block.flags, block.call)
    return all(np.array_equal(mine, theirs) for mine, theirs in zip(ours, columns, strict=True))
