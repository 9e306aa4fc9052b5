"""The digest of a row block, and its stored form beside pickle."""

from __future__ import annotations

import hashlib
import pickle
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from bench.case import Case, Peer
from platoon.rows import codec
from platoon.rows.block import RowBlock
from platoon.rows.merge import Call, TrajectoryCalls, build_block

TOKENS, TOKENS_A_ROW, TURNS = 20_000_000, 20_000, 10
VOCABULARY = 150_000


def cases(scale: float) -> list[Case]:
    block = make_block(int(TOKENS * scale) // TOKENS_A_ROW)
    columns = block.columns()
    zstd = pa.Codec("zstd", compression_level=1)
    size = f"{block.token_count} tokens, {block.row_count} rows"
    sampled = block.logprobs[block.flags != 0]
    packed_size = len(pickle.dumps(columns, protocol=5))

    def with_hashlib(values: list[NDArray[Any]]) -> str:
        digest = hashlib.sha256()
        for column in values:
            digest.update(column.data)
        return digest.hexdigest()

    def with_pickle() -> bytes:
        return zstd.compress(pickle.dumps(columns, protocol=5), asbytes=True)  # type: ignore[no-any-return]

    def from_pickle() -> Any:
        return pickle.loads(zstd.decompress(packed, decompressed_size=packed_size))

    encoded, packed = codec.encode(block), with_pickle()
    hashed = Peer("hashlib over all columns", lambda: with_hashlib([*columns.values()]), 1.0, small_limit=0.65)
    floor = Peer("floor: SHA-256 of tokens and sampled logprobs alone", lambda: with_hashlib([block.tokens, sampled]))
    return [
        Case(
            "block digest",
            size,
            block.digest,
            (hashed, floor),
        ),
        Case(
            "block to bytes: digest and Arrow IPC",
            size,
            lambda: codec.encode(block),
            (
                Peer(
                    "pickle of the same columns, zstd 1",
                    with_pickle,
                    0.5,
                    lambda ours, _: codec.decode(ours).digest() == block.digest(),
                    small_limit=0.7,
                ),
                floor,
            ),
        ),
        Case(
            "block from bytes, every rule and the digest checked",
            size,
            lambda: codec.decode(encoded),
            (Peer("floor: zstd and pickle, nothing checked", from_pickle, 1.0, small_limit=2.5),),
        ),
    ]


def make_block(rows: int) -> RowBlock:
    """Rows of ten turns, a third of their tokens sampled. Tokens follow Zipf's law, logprobs are mostly near 0 and some far below.

    No text repeats, which a compressor would find in real rows.
    """
    generator = np.random.default_rng(7)
    shares = np.cumsum(1.0 / (np.arange(VOCABULARY) + 3.0))
    turn = TOKENS_A_ROW // TURNS
    action = turn // 3
    items = []
    for row in range(rows):
        tokens = np.searchsorted(shares, generator.random(TOKENS_A_ROW) * shares[-1]).astype(np.uint32)
        logprobs = -np.minimum(np.exp(generator.normal(-3, 3, (TURNS, action))), 30).astype(np.float32)
        ends = [turn * (index + 1) for index in range(TURNS)]
        calls = [
            Call(tokens[: end - action], tokens[end - action : end], logprobs[index], "main", version=row)
            for index, end in enumerate(ends)
        ]
        items.append(TrajectoryCalls(row, 0, "root", 0, 1.0, calls))
    return build_block(items, ("main",), ("root",))
