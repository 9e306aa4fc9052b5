"""Stale masks, keyed credit and advantages on tokens beside numpy."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from bench.case import Case, Peer
from platoon import _native
from platoon.rows.credit import keyed_baselines

ROWS, GROUPS, TOKENS_A_ROW = 50_000, 600, 60


def cases(scale: float) -> list[Case]:
    generator = np.random.default_rng(7)
    rows = int(ROWS * scale)
    version = generator.integers(0, 40, rows)
    policy = generator.integers(0, 3, rows).astype(np.uint16)
    group = np.sort(generator.integers(0, GROUPS, rows)).astype(np.uint32)
    current, bounds = [40, 39, 41], [20, None, 4]
    key = generator.integers(0, 4 * GROUPS, rows)
    reward = generator.random(rows)
    is_peer = generator.random(rows) < 0.95
    offsets = np.arange(rows + 1) * TOKENS_A_ROW
    flags = (generator.random(rows * TOKENS_A_ROW) < 0.4).astype(np.uint8)
    flags[offsets[:-1]] = 0
    return [
        Case(
            "stale mask",
            f"{rows} rows, {GROUPS} groups, 3 policies",
            lambda: _native.stale_rows(version, policy, group, GROUPS, current, bounds),
            (
                Peer(
                    "numpy (take, bincount)",
                    lambda: stale_with_numpy(version, policy, group, current, bounds),
                    1.0,
                    lambda left, right: all(np.array_equal(*pair) for pair in zip(left, right, strict=True)),
                ),
            ),
        ),
        Case(
            "leave-one-out on a key",
            f"{rows} agents, {4 * GROUPS} keys",
            lambda: keyed_baselines(key, reward, is_peer, leave_one_out=True),
            (
                Peer(
                    "numpy (bincount)",
                    lambda: credit_with_numpy(key, reward, is_peer),
                    same=lambda left, right: bool(np.allclose(left, right)),
                ),
            ),
        ),
        Case(
            "advantages to tokens",
            f"{rows * TOKENS_A_ROW} tokens",
            lambda: _native.apply_advantages(flags, offsets, reward, False, True),
            (
                Peer(
                    "numpy (repeat, where, reduceat)",
                    lambda: advantages_with_numpy(flags, offsets, reward),
                    1.0,
                    lambda left, right: (
                        np.array_equal(left["advantages_T"], right[0]) and np.array_equal(left["trained_tokens_R"], right[2])
                    ),
                ),
            ),
        ),
    ]


def stale_with_numpy(
    version: NDArray[np.int64], policy: NDArray[np.uint16], group: NDArray[np.uint32], current: list[int], bounds: list[int | None]
) -> tuple[NDArray[Any], ...]:
    oldest = np.array([-1 if bound is None else now - bound for now, bound in zip(current, bounds, strict=True)])
    is_stale = (version < oldest[policy]) & (version >= 0)
    stale = np.bincount(group, weights=is_stale, minlength=GROUPS)
    rows = np.bincount(group, minlength=GROUPS)
    counts = np.bincount(policy, weights=is_stale, minlength=len(current)).astype(np.uint64)
    return is_stale, stale > 0, (rows > 0) & (stale == rows), counts


def credit_with_numpy(key: NDArray[np.int64], reward: NDArray[np.float64], is_peer: NDArray[np.bool_]) -> NDArray[np.float64]:
    sums = np.bincount(key, weights=np.where(is_peer, reward, 0.0))[key]
    counts = np.bincount(key, weights=is_peer)[key]
    others = counts - is_peer
    with np.errstate(invalid="ignore", divide="ignore"):
        baseline = np.where(is_peer, sums - reward, sums) / others
    return np.where(others > 0, baseline, reward)


def advantages_with_numpy(
    flags: NDArray[np.uint8], offsets: NDArray[np.int64], value: NDArray[np.float64]
) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any], NDArray[Any]]:
    value_T = np.repeat(value.astype(np.float32), np.diff(offsets))
    is_trained = ((flags & 1) != 0) & ~(((flags & 2) != 0) & (value_T > 0))
    advantages = np.where(is_trained, value_T, np.float32(0))
    trained = np.add.reduceat(is_trained, offsets[:-1], dtype=np.int64)
    is_zero = np.add.reduceat((advantages != 0) & is_trained, offsets[:-1], dtype=np.int64) == 0
    return advantages, is_trained, trained, is_zero
