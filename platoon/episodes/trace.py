"""From an episode's agents to its trajectories: pure, and the only reader of agent records that training and reports rely on.

One trajectory an agent, one step a `policy` or `aux` call in order; judge calls are kept for audit and never train. An agent
without an outcome of its own shares the episode's.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from platoon.core.outcome import Outcome, fault_text
from platoon.core.task import Task
from platoon.core.trajectory import ParentInfo, Trajectory, TrajectoryCollection, TrajectoryStep
from platoon.gateway.agents import AgentRecord, CallRecord, Interaction
from platoon.harness.api import LIMIT_MESSAGE
from platoon.rows.merge import NONE, Call, TrajectoryCalls

MARKERS: Mapping[str, str] = {
    "invalid": "trajectory_invalid",
    "error": "trajectory_invalid",
    "timeout": "trajectory_timed_out",
    "cancelled": "trajectory_cancelled",
}


def build_collection(
    rollout_id: str, agents: Sequence[AgentRecord], task: Task, instruction: str | None, outcome: Outcome
) -> TrajectoryCollection:
    """The collection, root first. Raises ValueError unless exactly one agent is the root and each parent is among the agents.

    A task without a goal is recorded with the session's instruction as its goal.
    """
    roots = [agent for agent in agents if agent.identity.parent_id is None]
    if len(roots) != 1:
        raise ValueError(f"an episode has one root agent, this one has {len(roots)}")
    by_agent = {agent.agent_id: agent for agent in agents}
    collection = TrajectoryCollection(rollout_id)
    for agent in sorted(agents, key=lambda item: item.identity.parent_id is not None):
        parent = None
        if agent.identity.parent_id is not None:
            if agent.identity.parent_id not in by_agent:
                raise ValueError(f"the parent of agent {agent.agent_id} is of another episode")
            parent = ParentInfo(by_agent[agent.identity.parent_id].identity.trajectory_id, agent.identity.fork_step)
        played = agent.task or task
        recorded = played if played.goal else replace(played, goal=instruction)
        trajectory = _trajectory(agent, recorded, parent, outcome)
        collection.trajectories[trajectory.id] = trajectory
    return collection


def _trajectory(agent: AgentRecord, task: Task, parent: ParentInfo | None, episode: Outcome) -> Trajectory:
    outcome = agent.outcome or episode
    log = agent.log
    steps = [_step(call, log.step_misc.get(call.call_id, {})) for call in log.calls if call.kind != "judge"]
    if steps and outcome.reward is not None:
        steps[-1].misc.setdefault("reward_misc", {})["reward/success"] = outcome.reward
    return Trajectory(
        id=agent.identity.trajectory_id,
        task=task,
        parent_info=parent,
        steps=steps,
        reward=outcome.reward if outcome.reward is not None else 0.0,
        finish_message=agent.final_message,
        error_message=_error_message(agent, outcome),
        misc=_misc(agent, outcome),
    )


def _step(call: CallRecord, annotations: Mapping[str, Any]) -> TrajectoryStep:
    action: dict[str, Any] = {"completion_id": call.call_id, "model": call.model, "usage": dict(call.usage)}
    if call.kind != "policy":
        action["kind"] = call.kind
    notes = {key: dict(item) if key == "reward_misc" else item for key, item in annotations.items() if key != "action_misc"}
    observed = [dict(message) for message in call.observed]
    return TrajectoryStep({**notes, "action_misc": action, "observed": observed, "message": dict(call.message)})


def _misc(agent: AgentRecord, outcome: Outcome) -> dict[str, Any]:
    log, identity = agent.log, agent.identity
    described = outcome.to_dict()
    misc: dict[str, Any] = {
        **log.misc,
        "agent": {"agent_id": agent.agent_id, "role": identity.role, "policy": identity.policy, "depth": identity.depth},
        "agent_result": {"status": agent.result_status, "error": agent.result_error},
        "outcome": {
            **{key: described[key] for key in ("status", "rewards", "reason", "failure_kind", "metadata")},
            "reward_key": None if outcome.metadata.get("platoon_zero") or outcome.status != "scored" else outcome.primary,
        },
        "model_generations": [dict(call.generation) for call in log.calls],
        "model_call_spans": [list(call.span) for call in log.calls],
        "tool_calls": list(log.tool_calls),
    }
    if judged := [{"call_id": call.call_id, "message": dict(call.message)} for call in log.calls if call.kind == "judge"]:
        misc["judge_calls"] = judged
    if agent.limits.call_cap is not None:
        misc["budget"] = {"enforce": "gateway", "max_steps": agent.limits.call_cap, "stops": log.budget_stops}
    if not agent.limits.judges:
        misc["judges"] = {"enabled": False}
    if log.gateway_errors:
        misc["gateway_errors"] = {"count": log.gateway_errors, "last": log.last_error}
    if marker := MARKERS.get(outcome.status):
        misc[marker] = True
    return misc


def _error_message(agent: AgentRecord, outcome: Outcome) -> str | None:
    if outcome.status != "scored":
        return fault_text(outcome.failure_kind, outcome.explanation, outcome.status)
    return LIMIT_MESSAGE if agent.result_status == "limit" else agent.result_error


def trajectory_calls(agents: Sequence[AgentRecord], collection: TrajectoryCollection) -> tuple[TrajectoryCalls, ...]:
    """What each trajectory sampled, in the collection's order, for rows. A call left out of training is not among them.

    The member is 0: who runs a group knows it.
    """
    by_trajectory = {agent.identity.trajectory_id: agent for agent in agents}
    found = []
    for index, (trajectory_id, trajectory) in enumerate(collection.trajectories.items()):
        agent = by_trajectory[trajectory_id]
        calls = [
            _call(agent.log.interactions[step.misc["action_misc"]["completion_id"]], step.misc)
            for step in trajectory.steps
            if not step.misc.get("exclude_from_training")
        ]
        found.append(TrajectoryCalls(0, index, agent.identity.role, agent.identity.depth, trajectory.reward, calls))
    return tuple(found)


def _call(interaction: Interaction, misc: Mapping[str, Any]) -> Call:
    return Call(
        prompt=interaction.prompt_T,
        action=interaction.tokens_T,
        logprobs=interaction.logprobs_T,
        policy=interaction.policy,
        version=interaction.version,
        routing=NONE if interaction.routing_id is None else interaction.routing_id,
        is_error=bool(misc.get("error")),
    )


def is_interrupted(trajectory: Trajectory) -> bool:
    """Whether a marker keeps the trajectory out of training and out of baselines."""
    return any(trajectory.misc.get(marker) for marker in set(MARKERS.values()))
