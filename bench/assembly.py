"""Buffers for the service, and training metrics, beside numpy."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from bench.case import Case, Peer
from platoon import _native

TOKENS, TOKENS_A_ROW = 20_000_000, 5_000
CLIP = (0.5, 2.0)


def cases(scale: float) -> list[Case]:
    generator = np.random.default_rng(7)
    tokens = int(TOKENS * scale)
    offsets = np.arange(0, tokens + 1, TOKENS_A_ROW)
    ids = generator.integers(0, 150_000, tokens).astype(np.uint32)
    is_trained = generator.random(tokens) < 0.4
    sampled = -generator.exponential(0.5, tokens).astype(np.float32)
    advantages = np.where(is_trained, np.float32(0.25), np.float32(0))
    training = sampled + generator.normal(0, 0.05, tokens).astype(np.float32)
    kept = np.flatnonzero(generator.random(len(offsets) - 1) < 0.9)
    return [
        Case(
            "assembly",
            f"{tokens} tokens, {len(kept)} of {len(offsets) - 1} rows",
            lambda: _native.assemble(ids, sampled, advantages, is_trained, offsets, kept, 1e-6),
            (
                Peer(
                    "numpy (one index a target)",
                    lambda: assembled_with_numpy((ids, sampled, advantages, is_trained), offsets, kept, 1e-6),
                    same=lambda left, right: all(np.array_equal(left[name], right[name]) for name in right),
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
                    same=lambda left, right: all(np.isclose(left[name], right[name], rtol=1e-6) for name in right),
                ),
            ),
        ),
    ]


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
