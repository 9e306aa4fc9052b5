"""Twins of evidence, posteriors and Thompson draws (`docs/reference/task-draws.md`), on plain lists."""

from __future__ import annotations

import math
from collections.abc import Sequence

MASK = 2**64 - 1


def faded(age: int) -> float:
    return float(2 ** (-max(age, 0) / 32))


def add_attempts(
    evidence: Sequence[tuple[float, float, int]], attempts: Sequence[tuple[int, int, int, int]]
) -> list[tuple[float, float, int]]:
    """Evidence is (passes, failures, version) a task; attempts are (task, version, passes, failures)."""
    out = list(evidence)
    for task, version, passes, failures in attempts:
        known_passes, known_failures, known = out[task]
        newest = max(known, version)
        old, new = faded(newest - max(known, 0)), faded(newest - version)
        out[task] = (known_passes * old + passes * new, known_failures * old + failures * new, newest)
    return out


def posteriors(evidence: Sequence[tuple[float, float, int]], entries: Sequence[int], now: int) -> list[tuple[float, float]]:
    seen = [(passes * faded(now - max(at, 0)), failures * faded(now - max(at, 0))) for passes, failures, at in evidence]
    out = []
    for (passes, failures), entry in zip(seen, entries, strict=True):
        peers = [item for item, at in zip(seen, entries, strict=True) if at == entry]
        rate = (1 + sum(item[0] for item in peers)) / (2 + sum(sum(item) for item in peers))
        out.append((2 * rate + passes, 2 * (1 - rate) + failures))
    return out


def outlook(alpha: float, beta: float, size: int) -> tuple[float, float, str]:
    fail = math.prod((beta + i) / (alpha + beta + i) for i in range(size))
    succeed = math.prod((alpha + i) / (alpha + beta + i) for i in range(size))
    rate = alpha / (alpha + beta)
    band = "zero" if rate <= 0.05 else "low" if rate <= 0.2 else "mid" if rate < 0.8 else "high" if rate < 0.95 else "solved"
    return 1 - fail, 1 - fail - succeed, band


def label_summary(
    labels: Sequence[int], count: int, at_1: Sequence[float], at_group: Sequence[float], bands: Sequence[int]
) -> list[tuple[int, float, float, list[int]]]:
    """By label: tasks, means, and tasks by band."""
    out = []
    for label in range(count):
        tasks = [task for task, at in enumerate(labels) if at == label]
        means = [math.fsum(values[task] for task in tasks) / len(tasks) if tasks else math.nan for values in (at_1, at_group)]
        by_band = [sum(bands[task] == band for task in tasks) for band in range(5)]
        out.append((len(tasks), means[0], means[1], by_band))
    return out


class Stream:
    """The words of one stream of a key: Philox4x64-10 at counters (0, stream, 0, 0), (1, stream, 0, 0), ..."""

    def __init__(self, key: bytes, stream: int) -> None:
        self.key = (int.from_bytes(key[:8], "little"), int.from_bytes(key[8:], "little"))
        self.stream, self.block, self.words = stream, 0, list[int]()

    def word(self) -> int:
        if not self.words:
            self.words = list(philox(self.key, (self.block, self.stream, 0, 0)))
            self.block += 1
        return self.words.pop(0)

    def fraction(self) -> float:
        return ((self.word() >> 11) + 0.5) / 2**53

    def below(self, bound: int) -> int:
        while True:
            product = self.word() * bound
            if product & MASK >= 2**64 % bound:
                return product >> 64


def philox(key: tuple[int, int], counter: tuple[int, int, int, int]) -> tuple[int, int, int, int]:
    (low, high), (a, b, c, d) = key, counter
    for _ in range(10):
        first, second = a * 0xD2E7470EE14C6C93, c * 0xCA5A826395121157
        a, b, c, d = second >> 64 ^ b ^ low, second & MASK, first >> 64 ^ d ^ high, first & MASK
        low, high = low + 0x9E3779B97F4A7C15 & MASK, high + 0xBB67AE8584CAA73B & MASK
    return a, b, c, d


def thompson_draw(
    parameters: Sequence[tuple[float, float]], eligible: Sequence[bool], size: int, candidates: int, key: bytes
) -> tuple[int, float, float] | None:
    tasks = [task for task, is_eligible in enumerate(eligible) if is_eligible]
    if len(tasks) > candidates:
        stream = Stream(key, 0)
        for place in range(candidates):
            other = place + stream.below(len(tasks) - place)
            tasks[place], tasks[other] = tasks[other], tasks[place]
        tasks = sorted(tasks[:candidates])
    best = None
    for task in tasks:
        stream = Stream(key, task + 1)
        passes, failures = (gamma_ln(shape, stream) for shape in parameters[task])
        # Beyond it the exponential is infinite and the rate 0.
        rate = 1 / (1 + math.exp(failures - passes)) if failures - passes < 709 else 0.0
        score = 1 - rate**size - (1 - rate) ** size
        if best is None or score > best[2]:
            best = (task, rate, score)
    return best


def gamma_ln(shape: float, stream: Stream) -> float:
    if shape < 1:
        sample = gamma_ln(shape + 1, stream)
        return sample + math.log(stream.fraction()) / shape
    d = shape - 1 / 3
    while True:
        radius = math.sqrt(-2 * math.log(stream.fraction()))
        z = radius * math.cos(2 * math.pi * stream.fraction())
        root = 1 + z / math.sqrt(9 * d)
        if root > 0 and math.log(stream.fraction()) < z * z / 2 + d - d * root**3 + d * math.log(root**3):
            return math.log(d * root**3)
