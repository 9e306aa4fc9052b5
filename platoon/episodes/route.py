"""How a task runs, as plain values that travel to wherever it runs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Literal, get_args

from platoon.errors import ConfigError, Problem
from platoon.gateway.agents import SamplingPrecedence
from platoon.sampling.model_spec import SamplingSettings

TimeoutRule = Literal["grade", "exclude"]
CrashRule = Literal["grade", "grade_if_gateway_clean", "exclude"]
RULES: Mapping[str, object] = {"timeout": TimeoutRule, "crash": CrashRule}
OverflowRule = Literal["grade", "exclude"]
Placement = Literal["auto", "task_sandbox", "local"]


@dataclass(frozen=True)
class HarnessExit:
    """What an agent's timeout and crash mean: graded, or excluded from training and baselines."""

    timeout: TimeoutRule = "exclude"
    crash: CrashRule = "exclude"

    @classmethod
    def parse(cls, value: HarnessExit | Mapping[str, str] | str) -> HarnessExit:
        if isinstance(value, HarnessExit):
            return value
        given = {"timeout": value, "crash": value} if isinstance(value, str) else dict(value)
        for key, rule in given.items():
            allowed = get_args(RULES.get(key, Literal[()]))
            if rule not in allowed:
                raise ConfigError(Problem(f"{rule!r} is none of {', '.join(allowed)}", key=f"on_harness_exit.{key}"))
        return cls(**given)  # type: ignore[arg-type]  # because each value was just checked


@dataclass(frozen=True)
class Route:
    """entry: the environment entry's label. service_name: the service its tasks come from. harness: a harness reference.

    on_harness_exit: as a configuration spells it, `{timeout, crash}` or one word for both.
    """

    entry: str = "default"
    service_name: str = ""
    harness: str = "platoon-bash"
    harness_options: Mapping[str, Any] = field(default_factory=dict)
    placement: Placement = "auto"
    program: str = "single"
    on_context_overflow: OverflowRule = "grade"
    on_harness_exit: HarnessExit | Mapping[str, str] | str = field(default_factory=HarnessExit)

    @property
    def exit_rules(self) -> HarnessExit:
        """Raises ConfigError for a rule that is none."""
        return HarnessExit.parse(self.on_harness_exit)

    def to_dict(self) -> dict[str, Any]:
        return {**asdict(self), "harness_options": dict(self.harness_options)}


@dataclass(frozen=True)
class RolloutSettings:
    """max_steps: replaces the task's own. timeout_s: of the agent. sampling: the rollout's defaults, None for the gateway's.

    cleanup_timeout_s: how long a session may take to close before the rollout goes on without it; it still closes.
    """

    max_steps: int | None = None
    timeout_s: float | None = None
    sampling: SamplingSettings | None = None
    sampling_precedence: SamplingPrecedence = "request"
    judges: bool = True
    cleanup_timeout_s: float = 60.0
