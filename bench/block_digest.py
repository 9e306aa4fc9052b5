"""The digest of a row block, and its stored form beside pickle."""

from __future__ import annotations

import hashlib
import pickle

import numpy as np
import pyarrow as pa

from bench.case import Case, Peer
from platoon.rows import codec
from platoon.rows.block import RowBlock
from platoon.rows.merge import Call, TrajectoryCalls, build_block

ROWS, TOKENS_A_ROW = 200, 5_000


def make_block(rows: int, tokens_a_row: int) -> RowBlock:
    """Rows of one call each, half of their tokens sampled."""
    generator = np.random.default_rng(7)
    half = tokens_a_row // 2
    items = []
    for row in range(rows):
        tokens = generator.integers(0, 150_000, 2 * half).astype(np.uint32)
        logprobs = -generator.exponential(0.5, half).astype(np.float32)
        call = Call(tokens[:half], tokens[half:], logprobs, "main", version=row)
        items.append(TrajectoryCalls(row, 0, "root", 0, 1.0, [call]))
    return build_block(items, ("main",), ("root",))


def cases(scale: float) -> list[Case]:
    block = make_block(int(ROWS * scale), TOKENS_A_ROW)
    columns = block.columns()
    zstd = pa.Codec("zstd", compression_level=1)
    size = f"{block.token_count} tokens"

    def with_hashlib() -> str:
        digest = hashlib.sha256()
        for values in columns.values():
            digest.update(values.data)
        return digest.hexdigest()

    def with_pickle() -> bytes:
        return zstd.compress(pickle.dumps(columns, protocol=5), asbytes=True)  # type: ignore[no-any-return]

    return [
        Case("block digest", size, block.digest, (Peer("hashlib over the columns", with_hashlib, 1.2),)),
        Case(
            "block to bytes, digest included",
            size,
            lambda: codec.encode(block),
            (Peer("pickle and zstd 1", with_pickle, same=lambda ours, _: codec.decode(ours).digest() == block.digest()),),
        ),
    ]
