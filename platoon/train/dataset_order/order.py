"""The static orders of tasks: position of the endless order -> (epoch, entry, task).

An order is a pure function of pools, weights, seeds and the position; a resume needs the position alone. Positions are asked for in
rising order in a run, but any position may be asked for at any time.
"""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal, Protocol

from platoon.errors import ConfigError, Problem

SHUFFLE_SEED = 42
PASS_STRIDE = 101
ENTRY_STRIDE = 10007
TIE = 1e-12
NO_TASKS = Problem("the train split lists no task", key="environments")

Weight = float | Literal["tasks"]


@dataclass(frozen=True)
class Pool:
    """The tasks of one entry in listing order. weight: a positive number, or `tasks` for one share a task."""

    entry: str
    tasks: tuple[str, ...]
    weight: Weight = "tasks"
    seed: int = 0


@dataclass(frozen=True)
class Place:
    """What stands at a position. pool_index: the task's row in the pools laid end to end."""

    entry: str
    task_id: str
    pool_index: int


class Order(Protocol):
    """epoch_size: positions that make up one epoch, a multiple of the batch size."""

    epoch_size: int

    def at(self, position: int) -> Place: ...


def shuffled(count: int, seed: int) -> tuple[int, ...]:
    """A permutation of range(count) that depends on the seed alone."""
    indices = list(range(count))
    random.Random(seed).shuffle(indices)  # noqa: S311  because an order needs to be repeatable, not secret
    return tuple(indices)


class WholePool:
    """Every task once a pass, passes shuffled afresh; what does not fill a batch begins the next epoch."""

    def __init__(self, pools: Sequence[Pool], batch: int, seed: int = 0, *, whole_batches: bool = True) -> None:
        self._places = [
            Place(pool.entry, task, index)
            for index, (pool, task) in enumerate((pool, task) for pool in pools for task in pool.tasks)
        ]
        count = len(self._places)
        if not count:
            raise ConfigError(NO_TASKS)
        if whole_batches and batch > count:
            raise ConfigError(Problem(f"must not exceed the {count} listed train tasks, got {batch}", key="train.batch_size"))
        self.epoch_size = (count // batch if whole_batches else math.ceil(count / batch)) * batch
        self._seed = SHUFFLE_SEED + seed
        self._pass = lru_cache(maxsize=4)(shuffled)

    def at(self, position: int) -> Place:
        number, index = divmod(position, len(self._places))
        return self._places[self._pass(len(self._places), self._seed + PASS_STRIDE * number)[index]]


class WeightedMixture:
    """Slots go to entries by weight, evenly; an entry's own tasks are shuffled pass by pass."""

    def __init__(self, pools: Sequence[Pool], batch: int, seed: int = 0) -> None:
        self._pools = [pool for pool in pools if pool.tasks]
        if not self._pools:
            raise ConfigError(NO_TASKS)
        weights = [float(len(pool.tasks)) if pool.weight == "tasks" else float(pool.weight) for pool in self._pools]
        self._shares = [weight / sum(weights) for weight in weights]
        self._first = {id(pool): sum(len(other.tasks) for other in pools[: pools.index(pool)]) for pool in self._pools}
        self.epoch_size = math.ceil(sum(len(pool.tasks) for pool in self._pools) / batch) * batch
        self._seed = seed
        self._slots: list[tuple[int, int]] = []
        self._credits = [0.0] * len(self._pools)
        self._drawn = [0] * len(self._pools)
        self._pass = lru_cache(maxsize=4 * len(self._pools))(shuffled)

    def at(self, position: int) -> Place:
        while len(self._slots) <= position:
            self._slots.append(self._next_slot())
        index, draw = self._slots[position]
        pool = self._pools[index]
        number, offset = divmod(draw, len(pool.tasks))
        seed = self._seed + pool.seed + ENTRY_STRIDE * index + PASS_STRIDE * number
        task = self._pass(len(pool.tasks), seed)[offset]
        return Place(pool.entry, pool.tasks[task], self._first[id(pool)] + task)

    def _next_slot(self) -> tuple[int, int]:
        """Every entry earns its share; the richest pays 1. Ties rotate from the entry after the last pick."""
        count = len(self._pools)
        self._credits = [credit + share for credit, share in zip(self._credits, self._shares, strict=True)]
        begin = (self._slots[-1][0] + 1) % count if self._slots else 0
        best = begin
        for step in range(1, count):
            index = (begin + step) % count
            if self._credits[index] > self._credits[best] + TIE:
                best = index
        self._credits[best] -= 1
        self._drawn[best] += 1
        return best, self._drawn[best] - 1


def build_order(sampler: str, pools: Sequence[Pool], batch: int, seed: int = 0) -> Order:
    """The order of `train.task_sampler`: `auto`, `uniform` or `weighted`. Raises ConfigError for pools without tasks or too few."""
    single = len(pools) == 1
    if sampler == "weighted" or (sampler == "auto" and not single):
        return WeightedMixture(pools, batch, seed)
    return WholePool(pools, batch, seed, whole_batches=single and sampler == "auto")


def total_steps(order: Order, batch: int, num_epochs: int | None, max_steps: int | None) -> int:
    """Steps of the plan: the shorter of the two limits."""
    limits = [max_steps] if max_steps is not None else []
    if num_epochs is not None:
        limits.append(num_epochs * order.epoch_size // batch)
    if not limits:
        raise ValueError("a plan needs a number of epochs or of steps")
    return min(limits)
