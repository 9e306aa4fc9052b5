"""Sample requests on the torch thread: prefill, a slot in a pool, token steps, an answer.

Pools are by model weights and context bucket; requests enter them in the order they came. A failure while a sequence is
admitted fails its request alone; one inside a step fails the requests of that pool alone. Every request is answered.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch

from platoon.local.decoder import DecodePool, Kernel, PromptCache
from platoon.local.model import Weights
from platoon.local.sequences import DrawSettings, Sequence, StopRule

Tensor = Any

SAMPLERS_WITH_PROMPTS = 6


@dataclass(frozen=True)
class PromptScores:
    """What a request wants to know of its prompt. last_n: score only so many tokens at its end; None scores all."""

    logprobs: bool = False
    top_k: int = 0
    last_n: int | None = None


@dataclass(frozen=True)
class ScoredPrompt:
    """Logprobs of prompt tokens, nan where not scored (always at 0), and the likeliest alternatives (ids, logprobs) or None a
    position.
    """

    logprobs: list[float]
    alternatives: list[tuple[list[int], list[float]] | None]


@dataclass(eq=False)
class SampleJob:
    """One sample request. `done` is called once, on the torch thread, with the job or an error."""

    prompt: tuple[int, ...]
    samples: int
    limit: int
    settings: DrawSettings
    stop: StopRule
    seed: int | None
    scores: PromptScores
    top_logprobs: int
    done: Callable[[SampleJob, Exception | None], None]
    sequences: list[Sequence] = field(default_factory=list)
    scored: ScoredPrompt | None = None
    left: int = 0


class LiveSampler:
    """Weights that are sampled from, with their prompt cache, pools, and sequences waiting for a slot, by context bucket."""

    def __init__(self, kernel: Kernel, weights: Weights) -> None:
        self.kernel = kernel
        self.weights = weights
        self.prompts = PromptCache(kernel, weights)
        self.pools: dict[int, DecodePool] = {}
        self.waiting: dict[int, deque[Sequence]] = {}

    def step(self) -> list[Sequence]:
        """Admits what fits and advances every pool by one token; returns the sequences that ended, by an error too."""
        ended: list[Sequence] = []
        for bucket, waiting in list(self.waiting.items()):
            ended += self._admit(bucket, waiting)
            if not waiting:
                del self.waiting[bucket]
        for bucket, pool in list(self.pools.items()):
            ended += self._advance(bucket, pool)
            if not pool.active and bucket not in self.waiting:
                self.pools.pop(bucket, None)
        return ended

    def _admit(self, bucket: int, waiting: deque[Sequence]) -> list[Sequence]:
        """Fills the free slots of a bucket; returns the sequences that could not be admitted."""
        failed: list[Sequence] = []
        while waiting:
            sequence = waiting[0]
            try:
                if bucket not in self.pools:
                    self.pools[bucket] = DecodePool(self.kernel, self.weights, bucket)
                pool = self.pools[bucket]
                if not pool.free:
                    break
                pool.admit(sequence, self.prompts.get(sequence.prompt))
            except Exception as error:
                sequence.error = error
                failed.append(sequence)
            waiting.popleft()
        return failed

    def _advance(self, bucket: int, pool: DecodePool) -> list[Sequence]:
        """One token step of a pool; when it fails, so does all that was in it."""
        if not pool.active:
            return []
        try:
            return pool.step()
        except Exception as error:
            del self.pools[bucket]
            for sequence in pool.active:
                sequence.error = error
            return list(pool.active)

    @property
    def busy(self) -> bool:
        return bool(self.pools or self.waiting)

    def cancel(self, job: SampleJob) -> None:
        """Frees what a request holds."""
        for pool in self.pools.values():
            pool.drop(job)
        self.waiting = {
            bucket: left for bucket, waiting in self.waiting.items() if (left := deque(s for s in waiting if s.request is not job))
        }
        self.pools = {bucket: pool for bucket, pool in self.pools.items() if pool.active}


class SamplingEngine:
    """All samplers with work to do. Runs on the torch thread only."""

    def __init__(self) -> None:
        self._active: list[LiveSampler] = []
        self._recent: list[LiveSampler] = []

    @property
    def busy(self) -> bool:
        return bool(self._active)

    def submit(self, sampler: LiveSampler, job: SampleJob) -> None:
        """Takes a request in; its prompt is scored at once, its sequences follow with the token steps."""
        try:
            if job.scores.logprobs or job.scores.top_k:
                job.scored = score_prompt(sampler, job.prompt, job.scores)
            bucket = sampler.kernel.context_bucket(len(job.prompt) + job.limit)
            for index in range(job.samples):
                numbers = random.Random() if job.seed is None else random.Random(f"{job.seed}:{index}")  # noqa: S311  because draws are no secrets
                job.sequences.append(Sequence(job.prompt, job.limit, job.settings, job.stop, numbers, job, job.top_logprobs))
        except Exception as error:
            job.done(job, error)
            return
        job.left = job.samples
        sampler.waiting.setdefault(bucket, deque()).extend(job.sequences)
        if sampler not in self._active:
            self._active.append(sampler)
            self._note_use(sampler)

    def _note_use(self, sampler: LiveSampler) -> None:
        """Lets only the samplers used last keep their prompts: a cache may be ten times its weights."""
        self._recent = [*(live for live in self._recent if live is not sampler), sampler]
        while len(self._recent) > SAMPLERS_WITH_PROMPTS:
            self._recent.pop(0).prompts.clear()

    def cancel(self, sampler: LiveSampler, job: SampleJob) -> None:
        """Stops a request without an answer."""
        sampler.cancel(job)
        self._active = [live for live in self._active if live.busy]

    def step(self) -> None:
        """One token for every sequence that has a slot."""
        for sampler in self._active:
            for sequence in sampler.step():
                job = sequence.request
                if job.left == 0:
                    continue  # Another of its sequences has failed already, and it was answered.
                job.left = 0 if sequence.error is not None else job.left - 1
                if sequence.error is not None:
                    sampler.cancel(job)
                if job.left == 0:
                    job.done(job, sequence.error)
        self._active = [live for live in self._active if live.busy]


def score_prompt(sampler: LiveSampler, prompt: tuple[int, ...], scores: PromptScores) -> ScoredPrompt:
    """Logprobs of the prompt's own tokens, each given those before it."""
    length = len(prompt)
    first = 1 if scores.last_n is None else max(1, length - scores.last_n)
    logprobs = [float("nan")] * length
    alternatives: list[tuple[list[int], list[float]] | None] = [None] * length
    if length > first:
        states = sampler.prompts.get(prompt).states[first - 1 : length - 1]
        logprobs_TV = sampler.kernel.logits(sampler.weights, states).log_softmax(-1)
        tokens_T = torch.tensor(prompt[first:])
        logprobs[first:] = logprobs_TV.gather(1, tokens_T[:, None])[:, 0].tolist()
        if scores.top_k:
            values, ids = logprobs_TV.topk(min(scores.top_k, sampler.kernel.shape.vocab))
            alternatives[first:] = list(zip(ids.tolist(), values.tolist(), strict=True))
    return ScoredPrompt(logprobs, alternatives)
