"""Buffers for the service, and training metrics, beside numpy."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from bench.case import Case, Peer
from platoon import _native
from platoon.rows.advantages import AppliedAdvantages
from platoon.rows.assembly import assemble
from platoon.rows.block import ACTION, NO_CALL, RowBlock

TOKENS, TOKENS_A_ROW, CALLS_A_ROW = 20_000_000, 5_000, 10
CLIP = (0.5, 2.0)
DENOMINATOR = 1e6


def cases(scale: float) -> list[Case]:
    generator = np.random.default_rng(7)
    columns = block_columns(generator, int(TOKENS * scale))
    flags, call, offsets, routing = (columns[name] for name in ("flags", "call", "offsets", "call_routing"))
    tokens, is_trained = len(flags), flags != 0
    sampled = columns["logprobs"]
    advantages = np.where(is_trained, np.float32(0.25), np.float32(0))
    applied = AppliedAdvantages(advantages, is_trained, np.zeros(0, np.int64), np.zeros(0, np.bool_))
    training = sampled + generator.normal(0, 0.05, tokens).astype(np.float32)
    kept = np.flatnonzero(generator.random(len(offsets) - 1) < 0.9)
    numbers = (columns["tokens"], sampled, advantages, is_trained)
    return [
        Case(
            "assembly",
            f"{tokens} tokens, {len(kept)} of {len(offsets) - 1} rows",
            # A block keeps what it once found of its rows: each run has one that has found nothing.
            lambda: assemble(RowBlock.of_core(dict(columns)), applied, kept, denominator=DENOMINATOR, epsilon=0.0),
            (
                Peer(
                    "numpy (one index a target)",
                    lambda: (
                        assembled_with_numpy(numbers, offsets, kept, 1 / DENOMINATOR)
                        | {"routing_K": samples_with_numpy(flags, call, offsets, routing)[1][kept]}
                    ),
                    1.0,
                    lambda left, right: all(np.array_equal(getattr(left, name), right[name]) for name in right),
                    small_limit=0.5,
                ),
            ),
        ),
        Case(
            "action tokens and routing by row",
            f"{tokens} tokens, {len(offsets) - 1} rows",
            lambda: _native.row_samples(flags, call, offsets, routing),
            (
                Peer(
                    "numpy (reduceat)",
                    lambda: samples_with_numpy(flags, call, offsets, routing),
                    1.0,
                    lambda left, right: all(np.array_equal(*pair) for pair in zip(left, right, strict=True)),
                    small_limit=0.11,
                ),
            ),
        ),
        Case(
            "training metrics",
            f"{tokens} targets",
            lambda: _native.training_metrics(sampled, training, is_trained, CLIP),
            (
                Peer(
                    "numpy",
                    lambda: metrics_with_numpy(sampled, training, is_trained),
                    1.0,
                    lambda left, right: all(np.isclose(left[name], right[name], rtol=1e-6) for name in right),
                    small_limit=1.4,
                ),
            ),
        ),
    ]


def block_columns(generator: np.random.Generator, tokens: int) -> dict[str, Any]:
    """Columns and names of rows of ten calls each, of equal lengths, the last two fifths of their tokens sampled."""
    tokens -= tokens % TOKENS_A_ROW
    rows, tokens_a_call = tokens // TOKENS_A_ROW, TOKENS_A_ROW // CALLS_A_ROW
    calls = rows * CALLS_A_ROW
    is_sampled = np.tile(np.arange(tokens_a_call) >= tokens_a_call * 3 // 5, calls)
    block = RowBlock(
        tokens=generator.integers(0, 150_000, tokens).astype(np.uint32),
        logprobs=np.where(is_sampled, -generator.exponential(0.5, tokens), 0.0).astype(np.float32),
        flags=is_sampled.astype(np.uint8),
        call=np.where(is_sampled, np.repeat(np.arange(calls, dtype=np.uint32), tokens_a_call), np.uint32(NO_CALL)),
        offsets=np.arange(0, tokens + 1, TOKENS_A_ROW),
        call_policy=np.zeros(calls, np.uint16),
        call_version=np.full(calls, -1),
        call_routing=np.arange(calls) - 1,
        row_member=np.arange(rows, dtype=np.uint32),
        row_trajectory=np.zeros(rows, np.uint32),
        row_policy=np.zeros(rows, np.uint16),
        row_role=np.zeros(rows, np.uint16),
        row_depth=np.zeros(rows, np.uint16),
        row_start=np.ones(rows, np.uint8),
        row_reward=np.ones(rows),
        row_version=np.full(rows, -1),
        policies=("main",),
        roles=("root",),
    )
    return block.columns() | {"policies": block.policies, "roles": block.roles, "side_names": block.side_names}


def samples_with_numpy(
    flags: NDArray[np.uint8], call: NDArray[np.uint32], offsets: NDArray[np.int64], routing: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Knows that the calls of a row rise and that none of its rows is without one."""
    counts = np.add.reduceat(flags & ACTION, offsets[:-1], dtype=np.int64)
    # No call is the largest number: with one added it is 0.
    last = np.maximum.reduceat(call + np.uint32(1), offsets[:-1]) - 1
    return counts, routing[last]


def assembled_with_numpy(
    columns: tuple[NDArray[Any], ...], offsets: NDArray[np.int64], kept: NDArray[np.int64], scale: float
) -> dict[str, NDArray[Any]]:
    ids, sampled, advantages, is_trained = columns
    start, length = offsets[kept], np.diff(offsets)[kept] - 1
    bounds = np.concatenate(([0], np.cumsum(length)))
    source = np.arange(bounds[-1]) + np.repeat(start - bounds[:-1], length)
    target = source + 1
    return {
        "input_tokens_S": ids[source].astype(np.int32),
        "target_tokens_S": ids[target].astype(np.int64),
        "logprobs_S": sampled[target],
        "advantages_S": (advantages[target].astype(np.float64) * scale).astype(np.float32),
        "is_trained_S": is_trained[target],
        "offsets": bounds,
    }


def metrics_with_numpy(
    sampled: NDArray[np.float32], training: NDArray[np.float32], is_trained: NDArray[np.bool_]
) -> dict[str, float]:
    q, p = sampled[is_trained].astype(np.float64), training[is_trained].astype(np.float64)
    difference = q - p
    weight = np.exp(-difference)
    low, high = float((weight < CLIP[0]).mean()), float((weight > CLIP[1]).mean())
    return {
        "kl_sample_train_v1": float(difference.mean()),
        "kl_sample_train_v2": float((difference * difference).mean() / 2),
        "entropy": float(-q.mean()),
        "importance_weight_mean": float(weight.mean()),
        "importance_weight_std": float(weight.std(ddof=1)),
        "importance_weight_min": float(weight.min()),
        "importance_weight_max": float(weight.max()),
        "clip_frac_low": low,
        "clip_frac_high": high,
        "clip_frac_total": low + high,
    }
