"""Stale masks, keyed credit and advantages on tokens beside numpy."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from bench.case import Case, Peer
from platoon import _native
from platoon.rows.credit import keyed_baselines

ROWS, CALLS, TOKENS = 245_000, 734_000, 37_500_000
GROUPS, POLICIES, ROLES = 2_000, 3, 5
CURRENT, BOUNDS = [40, 39, 41], [20, None, 4]


def cases(scale: float) -> list[Case]:
    return [*row_cases(int(ROWS * scale), int(CALLS * scale)), *token_cases(int(TOKENS * scale), int(ROWS * scale))]


def row_cases(rows: int, calls: int) -> list[Case]:
    generator = np.random.default_rng(7)
    version = generator.integers(-1, 40, calls)
    call_offsets = cuts(generator, calls, rows)
    policy = generator.integers(0, POLICIES, rows).astype(np.uint16)
    group = np.sort(generator.integers(0, GROUPS, rows)).astype(np.uint32)
    task, role = group.astype(np.int64), generator.integers(0, ROLES, rows).astype(np.uint16)
    reward, is_peer = generator.random(rows), generator.random(rows) < 0.95
    sizes = f"{rows} rows, {calls} calls"
    return [
        Case(
            "stale mask",
            f"{sizes}, {GROUPS} groups, {POLICIES} policies",
            lambda: stale(version, call_offsets, policy, group),
            (
                Peer(
                    "numpy (reduceat, bincount)",
                    lambda: stale_with_numpy(version, call_offsets, policy, group),
                    0.7,
                    lambda left, right: all(np.array_equal(*pair) for pair in zip(left, right, strict=True)),
                    small_limit=0.3,
                ),
            ),
        ),
        Case(
            "leave-one-out on [task, role]",
            f"{rows} agents, {GROUPS} tasks, {ROLES} roles",
            lambda: keyed_baselines([task, role], reward, is_peer, leave_one_out=True),
            (
                Peer(
                    "numpy (bincount)",
                    lambda: credit_with_numpy(task, role, reward, is_peer),
                    0.7,
                    lambda left, right: bool(np.allclose(left, right, rtol=1e-6)),
                    small_limit=0.65,
                ),
            ),
        ),
    ]


def token_cases(tokens: int, rows: int) -> list[Case]:
    generator = np.random.default_rng(7)
    offsets = cuts(generator, tokens, rows)
    flags = (generator.random(tokens) < 0.4).astype(np.uint8)
    flags[generator.random(tokens) < 0.05] |= 2
    flags[flags == 2] = 0
    flags[offsets[:-1]] = 0
    value = generator.normal(size=rows)
    return [
        Case(
            "advantages to tokens",
            f"{tokens} tokens, {rows} rows",
            lambda: _native.apply_advantages(flags, offsets, value, False, True),
            (
                Peer(
                    "numpy (repeat, where, reduceat)",
                    lambda: advantages_with_numpy(flags, offsets, value),
                    0.6,
                    lambda left, right: all(np.array_equal(left[name], right[name]) for name in right),
                    small_limit=0.75,
                ),
            ),
        ),
    ]


def cuts(generator: np.random.Generator, entries: int, parts: int) -> NDArray[np.int64]:
    """Bounds of parts of at least one entry each."""
    inner = np.sort(generator.choice(entries - 1, parts - 1, replace=False)) + 1
    return np.concatenate(([0], inner, [entries])).astype(np.int64)


def stale(
    version: NDArray[np.int64], call_offsets: NDArray[np.int64], policy: NDArray[np.uint16], group: NDArray[np.uint32]
) -> tuple[NDArray[Any], ...]:
    row_version = _native.oldest_versions(version, call_offsets)
    return _native.stale_rows(row_version, policy, group, GROUPS, CURRENT, BOUNDS)


def stale_with_numpy(
    version: NDArray[np.int64], call_offsets: NDArray[np.int64], policy: NDArray[np.uint16], group: NDArray[np.uint32]
) -> tuple[NDArray[Any], ...]:
    # As unsigned, a call without a version is the newest; as signed again, a row of such calls has none.
    row_version = np.minimum.reduceat(version.view(np.uint64), call_offsets[:-1]).view(np.int64)
    oldest = np.array([-1 if bound is None else now - bound for now, bound in zip(CURRENT, BOUNDS, strict=True)])
    is_stale = (row_version < oldest[policy]) & (row_version >= 0)
    pair = group * np.uint32(POLICIES) + policy
    stale_of_pair = np.bincount(pair[is_stale], minlength=GROUPS * POLICIES)
    return is_stale, stale_of_pair[pair] > 0


def credit_with_numpy(
    task: NDArray[np.int64], role: NDArray[np.uint16], reward: NDArray[np.float64], is_peer: NDArray[np.bool_]
) -> NDArray[np.float64]:
    """Knows that tasks and roles are small numbers; finite rewards of peers are checked, as ours does."""
    key = task * ROLES + role
    weights = np.where(is_peer, reward, 0.0)
    sums = np.bincount(key, weights=weights)
    if not np.isfinite(sums).all():
        raise ValueError("the reward of a peer is finite")
    others = np.bincount(key, weights=is_peer)[key] - is_peer
    with np.errstate(invalid="ignore", divide="ignore"):
        baseline = (sums[key] - weights) / others
    return np.where(others > 0, baseline, reward)


def advantages_with_numpy(
    flags: NDArray[np.uint8], offsets: NDArray[np.int64], value: NDArray[np.float64]
) -> dict[str, NDArray[Any] | int]:
    lengths = np.diff(offsets)
    # An error that would be rewarded trains no more: one comparison with what a row looks for.
    wanted = np.where(value > 0, 3, 1).astype(np.uint8)
    is_trained = (flags & np.repeat(wanted, lengths)) == 1
    advantages = np.repeat(value.astype(np.float32), lengths)
    advantages *= is_trained
    trained = np.add.reduceat(is_trained, offsets[:-1], dtype=np.int64)
    detected = np.add.reduceat(flags & 3 == 3, offsets[:-1], dtype=np.int64)
    suppressed = np.where(value > 0, detected, 0)
    return {
        "advantages_T": advantages,
        "is_trained_T": is_trained,
        "trained_tokens_R": trained,
        "is_zero_R": (trained == 0) | (value.astype(np.float32) == 0),
        "detected_action_tokens": int(detected.sum()),
        "suppressed_positive_action_tokens": int(suppressed.sum()),
        "retained_nonpositive_action_tokens": int((detected - suppressed).sum()),
        "emptied_rows": int(((trained == 0) & (suppressed > 0)).sum()),
    }
