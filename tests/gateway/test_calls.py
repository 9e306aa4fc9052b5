from __future__ import annotations

import asyncio
import hashlib
import json
from dataclasses import replace

import numpy as np
import pytest

from platoon.errors import ServiceError
from platoon.gateway.errors import (
    AgentClosedError,
    AgentLimitError,
    CallKindRefusedError,
    ContextWindowExceededError,
    GatewayShutDownError,
    InvalidRequestError,
    JudgesOffError,
    SampleTimeoutError,
    UnknownAgentError,
)
from platoon.gateway.requests import ChatRequest, SamplingOverrides
from platoon.gateway.seeds import SeedKey
from platoon.sampling.model_spec import SamplingSettings
from platoon.testing import Completion, ScriptedPolicy, make_gateway, tool_call

pytestmark = pytest.mark.unit
HELLO = ChatRequest([{"role": "user", "content": "hi"}])


def call(policy, request=HELLO, *, gateway=None, **limits):
    gateway = gateway or make_gateway(policy)
    agent = gateway.open_agent(rollout_id="r", **limits)
    reply = asyncio.run(gateway.call(agent, request))
    return agent, reply


def test_a_call_is_recorded_token_for_token():
    policy = ScriptedPolicy([Completion("so\n" + tool_call("bash", command="ls"), routing_id=7)], version=3)
    agent, reply = call(policy)
    assert (reply.finish_reason, reply.content, reply.version, reply.policy) == ("tool_calls", "so", 3, "main")
    assert [json.loads(item.arguments) for item in reply.tool_calls] == [{"command": "ls"}]
    interaction = agent.log.interactions[reply.call_id]
    assert tuple(interaction.tokens_T.tolist()) == policy.calls[0].tokens
    assert (interaction.policy, interaction.version, interaction.routing_id) == ("main", 3, 7)
    assert np.all(interaction.logprobs_T == np.float32(-0.25))
    assert agent.log.steps == 1 and agent.tally.recorded == 1 and agent.tally.in_flight == 0
    assert reply.call_id.startswith("tinker-sampling-")


def test_a_truncated_reply_runs_no_tools_and_hides_nothing():
    """Truncation never runs tools, and what was sampled stays readable."""
    _, reply = call(ScriptedPolicy([Completion("so\n" + tool_call("bash", command="ls"), stop_reason="length")]))
    assert (reply.tool_calls, reply.finish_reason) == ((), "length")
    assert "<tool_call>" in reply.content and reply.content.startswith("so")


def test_an_unreadable_call_is_part_of_the_content():
    agent, reply = call(ScriptedPolicy(["well\n<tool_call>{oops}</tool_call>"]))
    assert reply.content == "well\n\n<tool_call>{oops}</tool_call>"
    assert agent.log.calls[0].generation["unparsed_calls"] == 1


@pytest.mark.parametrize(
    ("own", "rollout", "precedence", "expected"),
    [
        (SamplingOverrides(temperature=0.3), None, "request", (0.3, 4096)),
        (SamplingOverrides(), SamplingSettings(temperature=0.7, max_tokens=9), "request", (0.7, 9)),
        (SamplingOverrides(temperature=0.3, max_tokens=5), SamplingSettings(temperature=0.7), "request", (0.3, 5)),
        (SamplingOverrides(temperature=0.3, max_tokens=5), SamplingSettings(temperature=0.7, max_tokens=9), "config", (0.7, 9)),
        (SamplingOverrides(temperature=0.3, max_tokens=5), None, "config", (1.0, 5)),
    ],
)
def test_whose_sampling_wins(own, rollout, precedence, expected):
    policy = ScriptedPolicy(["x"])
    call(policy, replace(HELLO, sampling=own), sampling=rollout, sampling_precedence=precedence)
    settings = policy.calls[0].settings
    assert (settings.temperature, settings.max_tokens) == expected
    assert settings.stop == (258,)


def test_max_tokens_is_clamped_to_the_window_and_no_room_is_an_overflow():
    policy = ScriptedPolicy(["x"])
    gateway = make_gateway(policy, context_window_length=50)
    call(policy, gateway=gateway)
    prompt_tokens = len(policy.calls[0].prompt.encode()) - len("<|im_start|><|im_end|><|im_start|>") + 3
    assert policy.calls[0].settings.max_tokens == 50 - prompt_tokens
    agent = gateway.open_agent(rollout_id="r")
    with pytest.raises(ContextWindowExceededError, match="maximum context length is 50 tokens"):
        asyncio.run(gateway.call(agent, ChatRequest([{"role": "user", "content": "x" * 60}])))
    assert agent.log.context_overflows == 1 and agent.tally.used == 0


def test_seeds_come_from_the_draw_and_the_place_of_the_call():
    def seeds(key):
        policy = ScriptedPolicy(["a", "b"])
        gateway = make_gateway(policy)
        agent = gateway.open_agent(rollout_id="r", seed_key=key)
        for _ in range(2):
            asyncio.run(gateway.call(agent, replace(HELLO, sampling=SamplingOverrides(seed=1))))
        return [item.settings.seed for item in policy.calls]

    assert seeds(SeedKey(1, 2, 3)) == seeds(SeedKey(1, 2, 3))
    everything = seeds(SeedKey(1, 2, 3)) + seeds(SeedKey(1, 2, 4)) + seeds(SeedKey(1, 3, 3)) + seeds(SeedKey(2, 2, 3))
    assert len(set(everything)) == 8 and all(0 <= seed < 2**31 for seed in everything)
    assert SeedKey(1, 2, 3).call_seed("0", 0) == int(hashlib.sha256(b"1/2/3/0/0").hexdigest()[:8], 16) >> 1
    assert seeds(None) == [1, 1]


def test_the_next_prompt_keeps_the_sampled_tokens():
    policy = ScriptedPolicy([tool_call("bash", command="ls"), "done"])
    gateway = make_gateway(policy)
    agent = gateway.open_agent(rollout_id="r")

    async def run():
        first = await gateway.call(agent, HELLO)
        messages = [*HELLO.messages, first.message(), {"role": "tool", "tool_call_id": "x", "content": "out"}]
        await gateway.call(agent, ChatRequest(messages))

    asyncio.run(run())
    first, second = agent.log.interactions.values()
    told = first.prompt_T.tolist() + first.tokens_T.tolist()
    assert second.prompt_T[: len(told)].tolist() == told


@pytest.mark.parametrize(
    ("failure", "raised"),
    [(ServiceError("down"), ServiceError), (TimeoutError(), SampleTimeoutError), (ValueError("x"), ValueError)],
)
def test_failures_count_and_give_the_step_back(failure, raised):
    gateway = make_gateway(ScriptedPolicy([failure]))
    agent = gateway.open_agent(rollout_id="r")
    with pytest.raises(raised):
        asyncio.run(gateway.call(agent, HELLO))
    assert agent.log.gateway_errors == 1 and agent.tally.used == 0 and not agent.log.calls
    assert agent.log.last_error is not None


def test_a_request_that_cannot_be_rendered_is_its_own_fault():
    gateway = make_gateway(ScriptedPolicy([]))
    agent = gateway.open_agent(rollout_id="r", call_cap=1)
    with pytest.raises(InvalidRequestError):
        asyncio.run(gateway.call(agent, ChatRequest([{"role": "alien", "content": ""}])))
    assert agent.log.gateway_errors == 0 and agent.tally.used == 0
    assert agent.log.last_error is not None and agent.log.last_error.startswith("InvalidRequestError: ")


def test_budget_stops_then_a_refusal():
    policy = ScriptedPolicy(["x"])
    gateway = make_gateway(policy)
    agent = gateway.open_agent(rollout_id="r", call_cap=1)

    async def run():
        replies = [await gateway.call(agent, HELLO) for _ in range(9)]
        with pytest.raises(AgentLimitError):
            await gateway.call(agent, HELLO)
        return replies

    replies = asyncio.run(run())
    assert [reply.call_id.startswith("platoon-budget-") for reply in replies] == [False] + [True] * 8
    assert len(policy.calls) == 1 and agent.log.steps == 1 and agent.log.budget_stops == 8


@pytest.mark.parametrize("cap", [1, 3])
@pytest.mark.parametrize("cancelled", [0, 2])
def test_a_cap_holds_under_any_interleaving(cap, cancelled):
    """The step is reserved at admission: ten calls at once never sample more than the cap, and cancelled ones give theirs back."""
    policy = ScriptedPolicy(lambda prompt: Completion("x", delay_s=0.01))
    gateway = make_gateway(policy)
    agent = gateway.open_agent(rollout_id="r", call_cap=cap)

    async def run():
        tasks = [asyncio.ensure_future(gateway.call(agent, HELLO)) for _ in range(8)]
        await asyncio.sleep(0)
        for task in tasks[:cancelled]:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    asyncio.run(run())
    assert len(policy.calls) == max(0, cap - cancelled) and agent.log.steps == len(policy.calls)
    assert agent.tally.in_flight == 0


@pytest.mark.parametrize(
    ("kind", "limits", "raised"),
    [
        ("judge", {"judges": False}, JudgesOffError),
        ("judge", {"policy_only": True}, CallKindRefusedError),
        ("aux", {"policy_only": True, "call_cap": 3}, CallKindRefusedError),
        ("nonsense", {}, InvalidRequestError),
    ],
)
def test_kinds_that_are_refused(kind, limits, raised):
    gateway = make_gateway(ScriptedPolicy([]))
    agent = gateway.open_agent(rollout_id="r", **limits)
    with pytest.raises(raised):
        asyncio.run(gateway.call(agent, replace(HELLO, kind=kind)))


def test_aux_calls_are_no_steps():
    agent, _ = call(ScriptedPolicy(["x"]), replace(HELLO, kind="aux"), call_cap=5)
    assert agent.log.steps == 0 and agent.tally.used == 0 and len(agent.log.calls) == 1


def test_a_call_whose_agent_closed_meanwhile_records_nothing():
    gateway = make_gateway(ScriptedPolicy([Completion("x", delay_s=0.01)]))
    agent = gateway.open_agent(rollout_id="r")

    async def run():
        task = asyncio.ensure_future(gateway.call(agent, HELLO))
        await asyncio.sleep(0)
        assert gateway.close_rollout("r") == [agent]
        with pytest.raises(AgentClosedError):
            await task

    asyncio.run(run())
    assert not agent.log.calls and agent.tally.used == 0


def test_keys_belong_to_a_rollout():
    gateway = make_gateway(ScriptedPolicy([]))
    agent = gateway.open_agent(rollout_id="r")
    key = agent.identity.secret
    assert gateway.authenticate(key, "r") is agent and len(key) >= 43 and key not in repr(agent)
    for wrong in (("x", "r"), (key, "other")):
        with pytest.raises(UnknownAgentError):
            gateway.authenticate(*wrong)
    gateway.close_agent(agent)
    with pytest.raises(AgentClosedError):
        gateway.authenticate(key, "r")


def test_shut_down_closes_everything():
    gateway = make_gateway(ScriptedPolicy(["x"]))
    agent = gateway.open_agent(rollout_id="r")
    gateway.shut_down()
    assert agent.closed
    with pytest.raises(GatewayShutDownError):
        gateway.open_agent(rollout_id="r2")
    with pytest.raises(GatewayShutDownError):
        asyncio.run(gateway.call(agent, HELLO))


def test_each_agent_samples_its_own_policy_and_a_publication_counts_per_call():
    main, judge = ScriptedPolicy(["m0", "m1"]), ScriptedPolicy(["j"], version=9)
    gateway = make_gateway({"main": main, "judge": judge})
    root = gateway.open_agent(rollout_id="r")
    child = gateway.open_agent(rollout_id="r", role="critic", policy="judge", parent=root)

    async def run():
        await gateway.call(root, HELLO)
        main.version = 1
        await gateway.call(root, HELLO)
        await gateway.call(child, HELLO)

    asyncio.run(run())
    assert [item.version for item in root.log.interactions.values()] == [0, 1]
    assert [(item.policy, item.version) for item in child.log.interactions.values()] == [("judge", 9)]
    assert (child.identity.path, child.identity.depth, child.identity.parent_id) == ("0.0", 1, root.agent_id)
