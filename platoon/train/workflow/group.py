"""Runs the members of one draw side by side and turns them into rows, credit and a verdict.

It assumes that `run_member` turns whatever happens inside a rollout into an outcome. It guarantees that every member ends within
its limit, that none is left running, and that a group's rows and values do not depend on which member settled first.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from dataclasses import dataclass

from platoon.errors import ConfigError, PlatoonError
from platoon.rows.merge import TrajectoryCalls, build_block
from platoon.train.credit.protocol import CreditEstimator, CreditEstimatorError, CreditGroup
from platoon.train.task_records.fates import Verdict
from platoon.train.workflow import verdicts
from platoon.train.workflow.members import lost_member, member_outcome, numbered, trained_calls
from platoon.train.workflow.output import GroupOutput, MemberOutcome
from platoon.train.workflow.protocol import GroupRequest, GroupSettings, MemberRequest, Rollout, RolloutLease, RunMember
from platoon.train.workflow.stragglers import MemberClock, deadlines

log = logging.getLogger(__name__)

# A cancelled rollout gets this long to clean up; then it is left behind, with an error in the log.
CLEANUP_LIMIT_S = 60.0
# How often members that wait for a permit are looked at: their own deadline begins when they get it.
LOOK_S = 1.0


@dataclass(frozen=True)
class Member:
    """outcome, and the trajectories of a member that may train; () otherwise."""

    outcome: MemberOutcome
    trajectories: tuple[TrajectoryCalls, ...] = ()


class GroupRolloutWorkflow:
    """One entry's workflow. Stateless between groups; `credit` None is for evaluations, which never run one."""

    def __init__(
        self,
        settings: GroupSettings,
        run_member: RunMember,
        credit: CreditEstimator | None,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self.settings, self._run_member, self._credit, self._now = settings, run_member, credit, now

    async def run(self, request: GroupRequest, lease: RolloutLease) -> GroupOutput:
        """Raises ConfigError and CreditEstimatorError, which end the run; a member's fault is its outcome."""
        began = self._now()
        members = await _Members(self.settings, self._run_member, request, lease, self._now).run()
        return await asyncio.to_thread(self._judge, request, members, self._now() - began)

    def _judge(self, request: GroupRequest, members: list[Member], seconds: float) -> GroupOutput:
        outcomes = tuple(member.outcome for member in members)
        if (verdict := verdicts.refusal(outcomes, self.settings.min_successful)) is not None:
            return GroupOutput(None, None, outcomes, verdict, seconds)
        agents = [agent for member in members for agent in member.trajectories]
        rows = [trained_calls(agent, self.settings.trained) for agent in agents]
        block = build_block(rows, self.settings.policies, self._roles(rows))
        if not block.row_count:
            return GroupOutput(None, None, outcomes, Verdict.NO_DATUMS, seconds)
        if self._credit is None:
            return GroupOutput(None, None, outcomes, Verdict.UNKNOWN, seconds)
        group = CreditGroup(request.entry, request.task_id, outcomes, tuple(agents), block)
        try:
            credit = self._credit.assign(group)
        except Exception as error:
            raise CreditEstimatorError(f"credit of entry {request.entry!r}: {type(self._credit).__name__}: {error}") from error
        values_R = credit.values_R
        return GroupOutput(block, values_R, outcomes, verdicts.of_values(values_R, block.action_count_R), seconds, credit.metrics)

    def _roles(self, agents: list[TrajectoryCalls]) -> tuple[str, ...]:
        """Configured roles first; an agent may be opened with any other."""
        known = self.settings.roles
        return (*known, *sorted({agent.role for agent in agents} - set(known)))


class _Members:
    """The tasks of one group."""

    def __init__(
        self,
        settings: GroupSettings,
        run_member: RunMember,
        request: GroupRequest,
        lease: RolloutLease,
        now: Callable[[], float],
    ) -> None:
        self._settings, self._run_member, self._request, self._lease, self._now = settings, run_member, request, lease, now
        self._began = now()
        size = settings.group_size
        self._started: list[float | None] = [None] * size
        self._settled: list[float | None] = [None] * size
        self._given_up: dict[int, MemberOutcome] = {}
        self._tasks: list[asyncio.Task[Rollout]] = []

    async def run(self) -> list[Member]:
        self._tasks = [asyncio.create_task(self._one(member)) for member in range(self._settings.group_size)]
        try:
            while pending := self._pending():
                await asyncio.wait(pending, timeout=self._pause_s(), return_when=asyncio.FIRST_COMPLETED)
                self._raise_config_errors()
                await self._give_up_the_late()
            self._raise_config_errors()
        finally:
            await self._cancel(self._pending())
        return [self._member(index, task) for index, task in enumerate(self._tasks)]

    async def _one(self, member: int) -> Rollout:
        try:
            async with self._lease.rollout(member):
                self._started[member] = self._now() - self._began
                return await self._run_member(MemberRequest(self._request, member))
        finally:
            self._settled[member] = self._now() - self._began

    def _pending(self) -> list[asyncio.Task[Rollout]]:
        return [task for index, task in enumerate(self._tasks) if not task.done() and index not in self._given_up]

    def _deadlines(self) -> list[tuple[float, bool] | None]:
        """Per running member: seconds on the group's clock, and whether it is the straggler policy's."""
        clocks = [MemberClock(*pair) for pair in zip(self._started, self._settled, strict=True)]
        policy = deadlines(clocks, self._settings.quorum, self._settings.straggler_timeout_s)
        found: list[tuple[float, bool] | None] = []
        for clock, deadline in zip(clocks, policy, strict=True):
            if clock.started is None or clock.settled is not None:
                found.append(None)
                continue
            limit = clock.started + self._settings.member_limit_s
            found.append((deadline, True) if deadline is not None and deadline < limit else (limit, False))
        return found

    def _pause_s(self) -> float:
        ends = [item[0] for item in self._deadlines() if item is not None]
        pause_s = min(ends) - (self._now() - self._began) if ends else LOOK_S
        waits = any(started is None for started in self._started)
        return max(0.0, min(pause_s, LOOK_S) if waits else pause_s)

    async def _give_up_the_late(self) -> None:
        now = self._now() - self._began
        late = []
        for index, item in enumerate(self._deadlines()):
            if item is None or item[0] > now or self._tasks[index].done():
                continue
            timeout_s, limit_s = self._settings.straggler_timeout_s, self._settings.member_limit_s
            reason = f"cancelled {timeout_s:g} s after the quorum had settled" if item[1] else f"no answer within {limit_s:g} s"
            kind = "straggler" if item[1] else "no_answer"
            status = "cancelled" if item[1] else "timeout"
            self._given_up[index] = lost_member(index, status, kind, reason, straggler=item[1])  # type: ignore[arg-type]
            log.warning("member %d of task %s: %s", index, self._request.task_id, reason)
            late.append(self._tasks[index])
        await self._cancel(late)

    async def _cancel(self, tasks: list[asyncio.Task[Rollout]]) -> None:
        if not tasks:
            return
        for task in tasks:
            task.cancel()
        _, stuck = await asyncio.wait(tasks, timeout=CLEANUP_LIMIT_S)
        for task in stuck:
            log.error("a cancelled rollout of task %s did not end within %g s", self._request.task_id, CLEANUP_LIMIT_S)
            self._settled[self._tasks.index(task)] = self._now() - self._began

    def _raise_config_errors(self) -> None:
        for task in self._tasks:
            if task.done() and not task.cancelled() and isinstance(error := task.exception(), ConfigError):
                raise error

    def _member(self, index: int, task: asyncio.Task[Rollout]) -> Member:
        if index in self._given_up:
            return Member(self._given_up[index])
        if task.cancelled() or not task.done():
            return Member(lost_member(index, "cancelled", "cancelled", "cancelled from outside"))
        if (error := task.exception()) is not None:
            told = None if isinstance(error, PlatoonError) else error
            log.error("member %d of task %s failed: %s", index, self._request.task_id, error, exc_info=told)
            return Member(lost_member(index, "error", f"unexpected:{type(error).__name__}", str(error)))
        rollout = task.result()
        outcome = member_outcome(index, rollout)
        return Member(outcome, tuple(numbered(index, rollout.trajectories)) if outcome.trainable else ())
