"""Runs the root agent of an episode with whichever kind of harness its route names."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from platoon.core.outcome import Outcome
from platoon.core.protocols import EnvSession
from platoon.core.task import Task
from platoon.episodes.route import RolloutSettings, Route
from platoon.episodes.taxonomy import Counters, RunEnd, judge_run
from platoon.gateway.agents import AgentRecord
from platoon.gateway.server import GatewayServer
from platoon.gateway.service import ModelGateway
from platoon.harness.api import AgentResult, ModelEndpoint
from platoon.harness.errors import HarnessConfigError
from platoon.harness.inline import InlineContext, run_function
from platoon.harness.registry import FunctionHarness
from platoon.harness.runner import HarnessRun, check_placement, gateway_url, run_in_sandbox
from platoon.harness.spec import HarnessSpec
from platoon.harness.subagents import AgentTree, ChildRun


@dataclass(frozen=True)
class AgentRun:
    """What the root agent is run with. server: the gateway over HTTP, None for function harnesses, which need none."""

    harness: FunctionHarness | HarnessSpec
    gateway: ModelGateway
    root: AgentRecord
    session: EnvSession
    task: Task
    route: Route
    settings: RolloutSettings
    server: GatewayServer | None
    output_dir: Path | None
    roles: Mapping[str, str] = field(default_factory=dict)

    async def play(self) -> RunEnd:
        """How the run ended; only a cancellation is raised."""
        try:
            if isinstance(self.harness, HarnessSpec):
                return RunEnd("result", await self._play_spec(self.harness))
            return RunEnd("result", await self._play_function(self.harness))
        except Exception as error:
            return RunEnd.of_error(error)

    async def _play_function(self, harness: FunctionHarness) -> AgentResult:
        self.root.log.misc["harness"] = {
            "spec": harness.reference,
            "kind": "function",
            "runtime": harness.runtime,
            "executes_model_code": harness.executes_model_code,
            "program": self.route.program,
        }
        tree = AgentTree(self.gateway, self.root.identity.policy, self.roles, self._settle_child)
        run = ChildRun(self.root, self.session, self.task, harness, self.route.harness_options)
        ctx = InlineContext(tree, run, self._endpoint())
        return await run_function(harness, ctx, self._time_limit(None))

    async def _play_spec(self, spec: HarnessSpec) -> AgentResult:
        if self.route.program != "single":
            raise HarnessConfigError(f"{spec.reference}: a spec runs under the program `single` only")
        check_placement(self.route.placement, self.session)
        assert self.server is not None
        identity = self.root.identity
        host_url = self.server.base_url(identity.rollout_id)
        path = self.server.rollout_path(identity.rollout_id)
        sandbox = self.session.sandbox
        ensure_routes = getattr(sandbox, "ensure_routes", None)
        if ensure_routes is not None:
            await ensure_routes()
        # The agent's place in the tree names its directory: no random name may reach a prompt.
        slug = f"{identity.role}-{identity.path}"
        run = HarnessRun(
            spec=spec,
            sandbox=sandbox,
            slug=slug,
            instruction=self.session.instruction,
            base_url=gateway_url(self.session, host_url, path, sandbox),
            api_key=identity.secret,
            model="policy",
            options=dict(self.route.harness_options),
            max_steps=self.root.limits.max_steps,
            timeout_s=self._time_limit(spec.timeout_s),
            log_path=self._log_path(f"{identity.rollout_id}.{slug}.log"),
        )
        result = await run_in_sandbox(run)
        self.root.log.misc["harness"] = {
            "spec": spec.reference,
            "placement": "task_sandbox",
            "exit_code": result.exit_code,
            "timed_out": result.timed_out,
            "logs_path": result.logs_path,
        }
        return result.agent_result(spec)

    def _settle_child(self, child: AgentRecord, result: AgentResult) -> None:
        """A child whose own run failed does not share the episode's outcome."""
        counters = Counters.of(child.log)
        decision = judge_run(RunEnd("result", result), counters, self.route.exit_rules, self.route.on_context_overflow)
        child.outcome = decision if isinstance(decision, Outcome) else None

    def _time_limit(self, spec_s: float | None) -> float | None:
        limits = (spec_s, self.settings.timeout_s, getattr(self.session, "agent_timeout_s", None))
        return min((limit for limit in limits if limit is not None), default=None)

    def _log_path(self, name: str) -> Path | None:
        return None if self.output_dir is None else self.output_dir / "harness" / name

    def _endpoint(self) -> ModelEndpoint | None:
        if self.server is None:
            return None
        identity = self.root.identity
        url = f"{self.server.base_url(identity.rollout_id)}/s/{identity.secret}/v1"
        return ModelEndpoint(url, identity.secret)


def root_call_cap(harness: FunctionHarness | HarnessSpec, max_steps: int | None) -> int | None:
    """Policy calls the gateway answers: a spec with `[budget] enforce = "gateway"` has the run's steps, else its own."""
    if not isinstance(harness, HarnessSpec) or harness.budget.enforce != "gateway":
        return None
    return max_steps if max_steps is not None else harness.max_steps
