from __future__ import annotations

import asyncio
import json

import pytest

from platoon.core.task import Task
from platoon.episodes.rollout import run_rollout
from platoon.episodes.route import RolloutSettings, Route
from platoon.harness.api import AgentResult, SubagentLaunchFailure
from platoon.harness.registry import harness
from platoon.testing import Completion, MemoryService, ScriptedPolicy, make_gateway

pytestmark = pytest.mark.unit
HERE = __name__


async def ask(ctx, text):
    return (await ctx.chat([{"role": "user", "content": text}])).text


@harness("leads")
async def leads(ctx):
    """Asks once; the root then delegates as its options say and reports what came back."""
    said = await ask(ctx, ctx.instruction)
    if ctx.depth > 0 and said != "delegate":
        return AgentResult(final_message=said)
    results = await asyncio.gather(*(ctx.agents.spawn(goal, **settings) for goal, settings in ctx.options["spawn"]))
    ctx.annotate(heard=[[result.launched, str(result.message)] for result in results], left=ctx.budget.remaining())
    return AgentResult(final_message="led")


@harness("breaks")
async def breaks(ctx):
    await ask(ctx, "x")
    raise ValueError("boom")


@harness("stalls-below")
async def stalls_below(ctx):
    await asyncio.Event().wait()


@harness("leaves-early")
async def leaves_early(ctx):
    await ask(ctx, ctx.instruction)
    if ctx.depth == 0:
        ctx.kept = asyncio.ensure_future(ctx.agents.spawn("later"))
    return AgentResult()


def play(spawn, *, policies=None, roles=None, max_steps=None, timeout_s=None, reference="leads"):
    policies = policies or {"main": ScriptedPolicy(lambda prompt: "yes")}
    service = MemoryService({"t": Task("t", "lead")})

    async def run():
        gateway = make_gateway(policies)
        return await run_rollout(
            "t",
            route=Route(harness=f"{HERE}:{reference}", harness_options={"spawn": spawn}),
            service=service,
            gateway=gateway,
            settings=RolloutSettings(max_steps=max_steps, timeout_s=timeout_s),
            roles=roles,
        )

    result = asyncio.run(run())
    assert all(session.closed == 1 for session in service.sessions)
    return result


def test_children_sample_the_policy_of_their_role():
    policies = {name: ScriptedPolicy(lambda prompt: "yes", version=index) for index, name in enumerate(["main", "critic", "judge"])}
    result = play([("a", {"role": "reviewer"}), ("b", {})], policies=policies, roles={"reviewer": "critic"})
    root, *children = result.collection.trajectories.values()
    assert root.misc["heard"] == [[True, "yes"], [True, "yes"]]
    assert [(item.role, item.depth, {call.policy for call in item.calls}) for item in result.trajectories] == [
        ("policy", 0, {"main"}),
        ("reviewer", 1, {"critic"}),
        ("subagent", 1, {"main"}),
    ]
    assert [(child.parent_info.id, child.parent_info.fork_step) for child in children] == [(root.id, 1)] * 2
    assert [child.task.goal for child in children] == ["a", "b"]
    assert root.steps[0].misc["reward_misc"] == {"reward/subagent_launched": 2, "reward/success": 1.0}
    assert {child.reward for child in children} == {1.0}
    assert not policies["judge"].calls


def test_a_child_that_fails_does_not_train_and_the_rest_does():
    result = play([("a", {"harness": f"{HERE}:breaks"}), ("b", {})])
    root, broken, fine = result.collection.trajectories.values()
    assert broken.misc["trajectory_invalid"] and broken.misc["outcome"]["failure_kind"] == "harness_crash"
    assert "trajectory_invalid" not in fine.misc and "trajectory_invalid" not in root.misc
    assert [item.trajectory for item in result.trajectories] == [0, 2] and len(result.recorded) == 3
    assert "boom" in root.misc["heard"][0][1]


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({"max_steps": 0}, "positive"),
        ({"max_steps": True}, "positive"),
        ({"max_steps": 9}, "9 steps left"),
    ],
)
def test_refused_spawns_are_results(settings, told):
    result = play([("a", settings)], max_steps=10)
    root = result.collection.root
    (launched, message) = root.misc["heard"][0]
    assert not launched and told in message and len(result.collection.trajectories) == 1
    assert isinstance(SubagentLaunchFailure("x"), str)


def test_steps_are_held_back_while_children_run():
    """Ten steps, one used: two children of three hold eight; a third one does not fit, and what is not used comes back."""
    result = play([("a", {"max_steps": 3}), ("b", {"max_steps": 3}), ("c", {"max_steps": 3})], max_steps=10)
    root = result.collection.root
    assert [launched for launched, _ in root.misc["heard"]] == [True, True, False]
    assert root.misc["left"] == 10 - 3


def test_a_spec_is_no_subagent():
    result = play([("a", {"harness": "platoon-bash"})])
    assert result.outcome.failure_kind == "harness_crash" and "TypeError" in result.outcome.metadata["detail"]


def test_a_deadline_ends_the_tree():
    result = play([("a", {"harness": f"{HERE}:stalls_below"})], timeout_s=0.05)
    root, child = result.collection.trajectories.values()
    assert result.outcome.status == "timeout"
    assert child.misc["agent_result"]["status"] == "cancelled" and child.misc["trajectory_cancelled"]
    assert root.misc["trajectory_timed_out"]


def test_the_episode_waits_for_children_that_outlive_their_parent():
    policies = {"main": ScriptedPolicy(lambda prompt: Completion("yes", delay_s=0.01))}
    result = play([], reference="leaves_early", policies=policies)
    assert [len(item.calls) for item in result.trajectories] == [1, 1]


def test_nested_children_have_paths_of_their_own():
    policies = {"main": ScriptedPolicy(lambda prompt: "delegate" if "first" in prompt else "yes")}
    result = play([("first", {"options": {"spawn": [("second", {"max_steps": 3})]}})], policies=policies)
    depths = [trajectory.misc["agent"]["depth"] for trajectory in result.collection.trajectories.values()]
    assert depths == [0, 1, 2] and json.dumps(result.summary()["max_depth"]) == "2"
