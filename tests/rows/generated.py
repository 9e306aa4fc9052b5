"""Generated trajectories and blocks for the tests of rows."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import strategies as st

from platoon.rows.block import RowBlock
from platoon.rows.merge import Call, TrajectoryCalls, build_block
from platoon.rows.side import Chunk

POLICIES = ("main", "helper")
ROLES = ("root", "worker", "judge")

LOGPROBS = st.floats(-20, 0, width=32)


ChunkTuple = tuple[int, int, str, bytes]


@st.composite
def chunks_of(draw: st.DrawFn, prompt: list[int], known: list[ChunkTuple]) -> list[ChunkTuple]:
    """Chunks over zeros of the prompt: mostly those known, sometimes others, and now and then one more."""
    chunks = list(known) if draw(st.sampled_from([True, True, True, False])) else []
    end = chunks[-1][0] + chunks[-1][1] if chunks else 0
    places = [at for at in range(end, len(prompt)) if prompt[at] == 0]
    if places and draw(st.booleans()):
        chunks.append(
            (draw(st.sampled_from(places)), 1, draw(st.sampled_from(["image", "sound"])), draw(st.sampled_from([b"", b"ab"])))
        )
    return chunks


@st.composite
def calls(draw: st.DrawFn) -> list[dict[str, Any]]:
    """Calls whose prompts mostly extend what came before, and sometimes branch or start afresh."""
    out: list[dict[str, Any]] = []
    history: list[int] = []
    chunks: list[ChunkTuple] = []
    for _ in range(draw(st.integers(0, 5))):
        start = draw(st.sampled_from(["extend", "extend", "same", "branch", "new"]))
        suffix = draw(st.lists(st.integers(0, 5), max_size=3))
        known = {"extend": history, "same": history, "branch": history[:-1], "new": []}[start]
        prompt = known + ([] if start == "same" else suffix) or [7]
        chunks = draw(chunks_of(prompt, chunks if prompt[: len(history)] == history else []))
        action = draw(st.lists(st.integers(0, 2**31 - 1) | st.integers(0, 5), max_size=4))
        out.append(
            {
                "prompt": prompt,
                "chunks": chunks,
                "action": action,
                "logprobs": draw(st.lists(LOGPROBS, min_size=len(action), max_size=len(action))),
                "policy": draw(st.sampled_from([0, 0, 0, 1])),
                "version": draw(st.integers(-1, 6)),
                "routing": draw(st.integers(-1, 3)),
                "is_error": draw(st.booleans()),
                "is_message": draw(st.sampled_from([False, False, True])),
            }
        )
        history = prompt + action
    return out


@st.composite
def trajectories(draw: st.DrawFn) -> list[dict[str, Any]]:
    """Trajectories by member, then by index, as the twin takes them."""
    return [
        {
            "member": member,
            "trajectory": index,
            "role": draw(st.integers(0, 2)),
            "depth": draw(st.integers(0, 3)),
            "reward": draw(st.floats(-2, 2)),
            "calls": draw(calls()),
        }
        for member in range(draw(st.integers(0, 3)))
        for index in range(draw(st.integers(1, 2)))
    ]


def typed_call(call: dict[str, Any]) -> Call:
    return Call(
        np.array(call["prompt"], np.uint32),
        np.array(call["action"], np.uint32),
        np.array(call["logprobs"], np.float32),
        policy=POLICIES[call["policy"]],
        version=call["version"],
        routing=call["routing"],
        is_error=call["is_error"],
        is_message=call["is_message"],
        chunks=tuple(Chunk(*chunk) for chunk in call["chunks"]),
    )


def block_of(plain: list[dict[str, Any]]) -> RowBlock:
    typed = [
        TrajectoryCalls(
            item["member"],
            item["trajectory"],
            ROLES[item["role"]],
            item["depth"],
            item["reward"],
            [typed_call(call) for call in item["calls"]],
        )
        for item in plain
    ]
    return build_block(typed, POLICIES, ROLES)


blocks = trajectories().map(block_of)
