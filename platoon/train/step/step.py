"""One step: groups are taken microbatch by microbatch and sent as soon as they are in, so that rollouts and training overlap.

Until the first optimizer step is submitted a stop request drops the step whole: nothing was committed, its groups are kept. After
that the step always finishes. Every policy's optimizer step is submitted before any is awaited; one without rows does not step.
Work that grows with the tokens runs in threads, so that the loop keeps serving rollouts.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from platoon.train.dispatch.draw import DrawKey, Fate
from platoon.train.dispatch.source import RolloutSource
from platoon.train.policy.learner import PolicyUpdate, UpdateResult
from platoon.train.policy.policy import Policy
from platoon.train.policy.waits import Waits, together
from platoon.train.policy.wire import wire_rows
from platoon.train.step.assemble import Microbatch, assemble_microbatch
from platoon.train.step.digest import step_digest
from platoon.train.step.settings import StepSettings
from platoon.train.step.staleness import JudgedGroup, judge

SentUpdate = tuple[tuple[Microbatch, ...], UpdateResult]


@dataclass(frozen=True, eq=False)
class PolicyStep:
    """What a step did with one policy. updates: one a minibatch with rows, with the microbatches that were sent."""

    microbatches: tuple[Microbatch, ...]
    updates: tuple[SentUpdate, ...]


@dataclass(frozen=True, eq=False)
class TrainStepResult:
    """groups: in the order they were taken. seconds: `waiting` for groups, `train` awaiting updates."""

    groups: tuple[JudgedGroup, ...]
    policies: Mapping[str, PolicyStep]
    rows_digest: str
    seconds: Mapping[str, float]

    @property
    def moved(self) -> frozenset[str]:
        return frozenset(policy for policy, step in self.policies.items() if step.updates)

    @property
    def fates(self) -> dict[DrawKey, Fate]:
        return {judged.group.draw.key: judged.fate for judged in self.groups}


@dataclass
class TrainStep:
    """policies: the trained ones. tell: called with progress for a person."""

    source: RolloutSource
    policies: Mapping[str, Policy]
    settings: StepSettings
    waits: Waits
    tell: Callable[[str], None] = lambda text: None
    clock: Callable[[], float] = time.monotonic
    _groups: list[JudgedGroup] = field(default_factory=list)
    _microbatches: dict[str, list[Microbatch]] = field(default_factory=dict)
    _updates: dict[str, list[SentUpdate]] = field(default_factory=dict)
    _seconds: dict[str, float] = field(default_factory=lambda: {"waiting": 0.0, "train": 0.0})
    _updated: bool = False

    async def run(self) -> TrainStepResult:
        """Takes a batch and updates. Raises TrainInterrupted where nothing was updated yet, ServiceError, PlatoonError."""
        for policy in self.policies:
            self._microbatches[policy], self._updates[policy] = [], []
        for _ in range(self.settings.num_minibatches):
            await self._minibatch()
        steps = {policy: PolicyStep(tuple(self._microbatches[policy]), tuple(self._updates[policy])) for policy in self.policies}
        digest = await asyncio.to_thread(step_digest, self._groups)
        return TrainStepResult(tuple(self._groups), steps, digest, dict(self._seconds))

    async def _minibatch(self) -> None:
        updates = {policy: self.policies[policy].learner.update() for policy in self.policies}
        sent: dict[str, list[Microbatch]] = {policy: [] for policy in self.policies}
        for _ in range(self.settings.num_microbatches):
            groups = [await self._take() for _ in range(self.settings.groups_per_microbatch)]
            for policy, update in updates.items():
                microbatch = await asyncio.to_thread(assemble_microbatch, groups, policy, self.settings)
                self._microbatches[policy].append(microbatch)
                if microbatch.rows is not None:
                    await update.send(wire_rows(microbatch.rows, self.settings.losses[policy]))
                    sent[policy].append(microbatch)
        await self._apply(updates, sent)

    async def _take(self) -> JudgedGroup:
        began = self.clock()
        self._tell_groups()
        group = await self.waits.alive(self.source.take(interruptible=not self._updated), what="a group of rollouts")
        self._seconds["waiting"] += self.clock() - began
        versions = {policy: item.version for policy, item in self.policies.items()}
        judged = judge(group, versions, self.settings)
        self._groups.append(judged)
        self._tell_groups()
        return judged

    def _tell_groups(self) -> None:
        self.tell(f"{len(self._groups)} of {self.settings.batch_size} groups")

    async def _apply(self, updates: Mapping[str, PolicyUpdate], sent: Mapping[str, list[Microbatch]]) -> None:
        began = self.clock()
        self._updated = self._updated or any(update.has_rows for update in updates.values())
        for update in updates.values():
            await update.submit()
        results = await together(*(update.results() for update in updates.values()))
        for policy, result in zip(updates, results, strict=True):
            if result is not None:
                self._updates[policy].append((tuple(sent[policy]), result))
        self._seconds["train"] += self.clock() - began
