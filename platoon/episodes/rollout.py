"""One task from its id to a finished rollout: set up, play, grade, trace, clean up, store.

Every failure inside is an outcome, never an exception; a cancellation is raised again after the clean-up. Agents' keys are revoked
and the session is closed on every path.

    result = await run_rollout("task-1", route=Route(harness="platoon-bash"), service=service, gateway=gateway,
                               settings=RolloutSettings(max_steps=10))
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from platoon.core.outcome import Outcome
from platoon.core.protocols import EnvironmentService, EnvSession, SessionNeeds
from platoon.core.task import Task
from platoon.core.trajectory import TrajectoryCollection
from platoon.episodes.agent_run import AgentRun, root_call_cap
from platoon.episodes.program import EpisodeContext, get_program, run_finalizers
from platoon.episodes.result import STAGES, RolloutResult, new_rollout_id
from platoon.episodes.route import RolloutSettings, Route
from platoon.episodes.storage import TokenTable, store_collection
from platoon.episodes.taxonomy import Counters, Grade, RunEnd, judge_run, with_reason
from platoon.episodes.trace import build_collection, is_interrupted, trajectory_calls
from platoon.errors import EnvSetupError, PlatoonError
from platoon.gateway.agents import AgentIdentity, AgentLimits, AgentRecord
from platoon.gateway.seeds import SeedKey
from platoon.gateway.server import GatewayServer, acquire
from platoon.gateway.service import ModelGateway
from platoon.gateway.tools import AgentTools
from platoon.harness.registry import FunctionHarness, get_harness
from platoon.harness.spec import HarnessSpec
from platoon.host.tasks import see_through

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["RolloutResult", "run_rollout"]

log = logging.getLogger(__name__)


async def run_rollout(
    task_id: str,
    *,
    route: Route,
    service: EnvironmentService,
    gateway: ModelGateway,
    settings: RolloutSettings,
    policy: str = "main",
    roles: Mapping[str, str] | None = None,
    seed_key: SeedKey | None = None,
    output_dir: Path | None = None,
    token_table: TokenTable | None = None,
    labels: Mapping[str, str] | None = None,
) -> RolloutResult:
    """Plays one task.

    policy: samples the root agent; roles: role -> policy of its descendants. seed_key: makes every sample's seed a function of the
    draw. output_dir: where collection and event file go; token_table: where rows go, shared by many rollouts. labels: recorded in
    the root's misc. A rollout whose files cannot be written is still returned, with a warning.
    """
    episode = _Episode(task_id, route, service, gateway, settings)
    episode.policy, episode.roles, episode.seed_key = policy, dict(roles or {}), seed_key
    episode.output_dir, episode.labels = output_dir, dict(labels or {})
    try:
        result = await episode.run()
    finally:
        await episode.clean_up()
    if output_dir is not None:
        await asyncio.to_thread(_store, output_dir, result)
    if token_table is not None:
        token_table.append(result.rollout_id, result.task.id, result.outcome, result.recorded)
    return result


class _Episode:
    """The state of one rollout while it runs."""

    def __init__(
        self, task_id: str, route: Route, service: EnvironmentService, gateway: ModelGateway, settings: RolloutSettings
    ) -> None:
        self.route, self.service, self.gateway, self.settings = route, service, gateway, settings
        self.exit_rules = route.exit_rules
        self.rollout_id = new_rollout_id(task_id)
        self.task = Task(task_id)
        self.policy = "main"
        self.roles: dict[str, str] = {}
        self.seed_key: SeedKey | None = None
        self.output_dir: Path | None = None
        self.labels: dict[str, str] = {}
        self.session: EnvSession | None = None
        self.instruction: str | None = None
        self.root: AgentRecord | None = None
        self.server: GatewayServer | None = None
        self.seconds: dict[str, float] = dict.fromkeys(STAGES, 0.0)

    async def run(self) -> RolloutResult:
        started = time.perf_counter()
        context: EpisodeContext | None = None
        try:
            with self._timed("setup"):
                context, harness = await self._set_up()
            outcome = await self._run_program(context, harness)
        except EnvSetupError as error:
            outcome = Outcome.infra(error.failure_kind, metadata={"detail": str(error)[:2000]})
        except Exception as error:
            if context is not None or not isinstance(error, OSError):
                _log_failure(f"rollout {self.rollout_id} failed", error)
            decision = judge_run(RunEnd.of_error(error), Counters(), self.exit_rules, self.route.on_context_overflow)
            assert isinstance(decision, Outcome)
            outcome = decision
        agents = self._closed_agents()
        collection = self._trace(agents, outcome)
        if context is not None and context.finalizers:
            replaced = await run_finalizers(context, collection)
            if replaced is not None:
                outcome = replaced
                collection = self._trace(agents, outcome)
        self.seconds["model"] = sum(agent.log.model_seconds for agent in agents)
        self.seconds["total"] = time.perf_counter() - started
        return self._result(agents, collection, outcome)

    async def _set_up(self) -> tuple[EpisodeContext, FunctionHarness | HarnessSpec]:
        harness = get_harness(self.route.harness)
        get_program(self.route.program)
        task = await self.service.get_task(self.task.id)
        self.task = task if self.settings.max_steps is None else replace(task, max_steps=self.settings.max_steps)
        needs = await self._needs(harness) if isinstance(harness, HarnessSpec) else None
        if needs is None:
            self.session = await self.service.open(self.task, rollout_id=self.rollout_id)
        else:
            self.session = await self.service.open(self.task, rollout_id=self.rollout_id, needs=needs)
        self.instruction = self.session.instruction
        is_spec = isinstance(harness, HarnessSpec)
        self.root = self.gateway.open_agent(
            rollout_id=self.rollout_id,
            role="policy",
            policy=self.policy,
            max_steps=self.task.max_steps,
            call_cap=root_call_cap(harness, self.task.max_steps),
            sampling=self.settings.sampling,
            sampling_precedence=self.settings.sampling_precedence,
            seed_key=self.seed_key,
            policy_only=is_spec,
            judges=self.settings.judges,
            goal=self.task.goal,
        )
        self.root.task = self.task
        self.root.tools = AgentTools(self.session)
        run = AgentRun(
            harness=harness,
            gateway=self.gateway,
            root=self.root,
            session=self.session,
            task=self.task,
            route=self.route,
            settings=self.settings,
            server=self.server,
            output_dir=self.output_dir,
            roles=self.roles,
        )
        context = EpisodeContext(self.task, self.session, self.route, self.settings, self.root, lambda: self._play(run))
        return context, harness

    async def _needs(self, harness: HarnessSpec) -> SessionNeeds | None:
        """Starts the HTTP server; a route for sandboxes that do not all share this host's loopback."""
        routed = needs_route(self.service)
        self.server = await acquire(self.gateway, unix_socket=routed)
        if not routed:
            return SessionNeeds(extra_memory_mb=harness.resources.memory_mb) if harness.resources.memory_mb else None
        upstreams = {"gateway": f"unix://{self.server.socket_path}"}
        return SessionNeeds(upstreams=upstreams, extra_memory_mb=harness.resources.memory_mb or 0)

    async def _run_program(self, context: EpisodeContext, harness: FunctionHarness | HarnessSpec) -> Outcome:
        if isinstance(harness, HarnessSpec):
            return await context.play()
        outcome: Any = await get_program(self.route.program)(context)
        if not isinstance(outcome, Outcome):
            raise TypeError(f"program {self.route.program} returned {type(outcome).__name__}, not an Outcome")
        return outcome

    async def _play(self, run: AgentRun) -> Outcome:
        """The root agent's run by the failure taxonomy, graded where that says so."""
        assert self.root is not None and self.session is not None
        with self._timed("agent"):
            end = await run.play()
        if end.result is not None:
            self.root.result_status, self.root.result_error = end.result.status, end.result.error
            self.root.final_message = end.result.final_message
        else:
            self.root.result_status, self.root.result_error = "error", end.detail
        decision = judge_run(end, Counters.of(self.root.log), self.exit_rules, self.route.on_context_overflow)
        if isinstance(decision, Outcome):
            return decision
        with self._timed("grade"):
            return await self._grade(decision)

    async def _grade(self, decision: Grade) -> Outcome:
        assert self.session is not None
        try:
            outcome: Any = await self.session.grade()
        except Exception as error:
            _log_failure(f"grading rollout {self.rollout_id} failed", error)
            return Outcome.infra(f"unexpected:{type(error).__name__}", metadata={"detail": str(error)[:2000]})
        if not isinstance(outcome, Outcome):
            return Outcome.infra("unexpected:TypeError", metadata={"detail": f"grade() gave {type(outcome).__name__}"})
        return with_reason(outcome, decision)

    def _closed_agents(self) -> list[AgentRecord]:
        agents = self.gateway.close_rollout(self.rollout_id)
        if not agents:
            # Set-up failed before the root opened: the trajectory still says what became of the task.
            identity = AgentIdentity.create(self.rollout_id, "policy", self.policy, goal=self.task.goal)
            agents = [AgentRecord(identity, AgentLimits(), state="closed")]
        if self.labels:
            agents[0].log.misc["labels"] = self.labels
        return agents

    def _trace(self, agents: list[AgentRecord], outcome: Outcome) -> TrajectoryCollection:
        return build_collection(self.rollout_id, agents, self.task, self.instruction, outcome)

    def _result(self, agents: list[AgentRecord], collection: TrajectoryCollection, outcome: Outcome) -> RolloutResult:
        calls = [call for agent in agents for call in agent.log.calls]
        recorded = trajectory_calls(agents, collection)
        trained = [
            item
            for item, trajectory in zip(recorded, collection.trajectories.values(), strict=True)
            if outcome.trainable and not is_interrupted(trajectory)
        ]
        return RolloutResult(
            rollout_id=self.rollout_id,
            task=self.task,
            collection=collection,
            outcome=outcome,
            trajectories=tuple(trained),
            recorded=recorded,
            seconds=dict(self.seconds),
            tokens={
                "prompt": sum(call.usage["prompt_tokens"] for call in calls),
                "completion": sum(call.usage["completion_tokens"] for call in calls),
            },
            calls=len(calls),
        )

    async def clean_up(self) -> None:
        """Revokes keys and closes the session; never raises but for a cancellation, and loses no finished rollout."""
        self.gateway.close_rollout(self.rollout_id)
        session, self.session = self.session, None
        server, self.server = self.server, None
        try:
            if session is not None and not await see_through(self._close(session), self.settings.cleanup_timeout_s):
                log.warning("rollout %s: its session still closes after %g s", self.rollout_id, self.settings.cleanup_timeout_s)
        finally:
            if server is not None:
                await server.release()

    async def _close(self, session: EnvSession) -> None:
        try:
            await session.close()
        except Exception as error:
            _log_failure(f"rollout {self.rollout_id}: its session did not close", error)

    @contextmanager
    def _timed(self, stage: str) -> Iterator[None]:
        started = time.perf_counter()
        try:
            yield
        finally:
            self.seconds[stage] += time.perf_counter() - started


def _log_failure(what: str, error: Exception) -> None:
    """One line for an error that is told to people; any other is a bug and comes with its traceback."""
    known = isinstance(error, PlatoonError)
    log.error("%s: %s: %s", what, type(error).__name__, " ".join(str(error).split()), exc_info=None if known else error)


def needs_route(service: EnvironmentService) -> bool:
    """False where every sandbox of the service shares this host's loopback, so that a relay would only cost."""
    capabilities: frozenset[str] = getattr(getattr(service, "provider", None), "capabilities", frozenset())
    return "host_loopback" not in capabilities or "network_none" in capabilities


def _store(output_dir: Path, result: RolloutResult) -> None:
    try:
        store_collection(output_dir, result.collection)
    except OSError as error:
        log.warning("rollout %s could not be stored: %s", result.rollout_id, error)
