"""Statistics of tasks and a Thompson draw among them beside numpy."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from bench.case import Case, Peer
from platoon.rows import task_statistics as statistics

TASKS, ENTRIES, GROUP_SIZE, DRAW_LIMIT_MS = 100_000, 4, 8, 5.0


def cases(scale: float) -> list[Case]:
    generator = np.random.default_rng(7)
    tasks = int(TASKS * scale)
    evidence = statistics.Evidence(generator.random(tasks) * 8, generator.random(tasks) * 8, generator.integers(-1, 100, tasks))
    entry = generator.integers(0, ENTRIES, tasks).astype(np.uint32)
    is_eligible = generator.random(tasks) < 0.9
    seen = statistics.posteriors(evidence, entry, entry_count=ENTRIES, version=100)

    def decide() -> statistics.ThompsonDraw | None:
        posteriors = statistics.posteriors(evidence, entry, entry_count=ENTRIES, version=100)
        return statistics.thompson_draw(posteriors, is_eligible, group_size=GROUP_SIZE, key=bytes(16))

    def look() -> tuple[NDArray[Any], ...]:
        ahead = statistics.outlook(seen, group_size=GROUP_SIZE)
        return ahead.pass_at_N, ahead.informative_at_N

    return [
        Case(
            "posteriors and a Thompson draw",
            f"{tasks} tasks, {statistics.CANDIDATES} looked at",
            decide,
            (
                Peer("the time it may take", limit=1.0, fixed_ms=DRAW_LIMIT_MS),
                Peer(
                    "numpy",
                    lambda: decided_with_numpy(generator, evidence, entry, is_eligible),
                    1.0,
                    small_limit=3.3,
                ),
            ),
        ),
        Case(
            "pass@group and informative@group",
            f"{tasks} tasks, groups of {GROUP_SIZE}",
            look,
            (
                Peer(
                    "numpy",
                    lambda: looked_with_numpy(seen),
                    1.0,
                    lambda left, right: all(np.allclose(*pair) for pair in zip(left, right, strict=True)),
                    small_limit=1.1,
                ),
            ),
        ),
    ]


def decided_with_numpy(
    generator: np.random.Generator, evidence: statistics.Evidence, entry: NDArray[np.uint32], is_eligible: NDArray[np.bool_]
) -> int:
    weight = np.exp2((np.maximum(evidence.version_N, 0) - 100) / 32)
    passes, failures = evidence.passes_N * weight, evidence.failures_N * weight
    rate = (1 + np.bincount(entry, passes)) / (2 + np.bincount(entry, passes + failures))
    alpha, beta = passes + 2 * rate[entry], failures + 2 * (1 - rate[entry])
    eligible = np.flatnonzero(is_eligible)
    looked_at = generator.choice(eligible, min(statistics.CANDIDATES, len(eligible)), replace=False)
    sampled = generator.beta(alpha[looked_at], beta[looked_at])
    return int(looked_at[np.argmax(1 - sampled**GROUP_SIZE - (1 - sampled) ** GROUP_SIZE)])


def looked_with_numpy(seen: statistics.Posteriors) -> tuple[NDArray[Any], ...]:
    fail, succeed = np.ones(len(seen.alpha_N)), np.ones(len(seen.alpha_N))
    for member in range(GROUP_SIZE):
        tried = seen.alpha_N + seen.beta_N + member
        fail *= (seen.beta_N + member) / tried
        succeed *= (seen.alpha_N + member) / tried
    return 1 - fail, 1 - fail - succeed
