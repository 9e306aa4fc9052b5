from __future__ import annotations

import asyncio
import json

import pytest

from platoon.core.outcome import Outcome
from platoon.core.task import Task
from platoon.episodes.rollout import run_rollout
from platoon.episodes.route import HarnessExit, RolloutSettings, Route
from platoon.episodes.storage import TokenTable
from platoon.errors import EnvSetupError, ServiceError
from platoon.gateway.errors import AgentClosedError
from platoon.gateway.seeds import SeedKey
from platoon.harness.api import AgentResult
from platoon.harness.registry import harness
from platoon.testing import Completion, MemoryService, ScriptedPolicy, make_gateway, run_episode, tool_call

pytestmark = pytest.mark.unit
HERE = __name__


@harness("two-turns")
async def two_turns(ctx):
    """Asks, answers one call with the environment's tool, asks again."""
    tools = [tool.as_function() for tool in await ctx.list_tools()]
    messages = [{"role": "user", "content": ctx.instruction}]
    while True:
        if ctx.budget.remaining() == 0:
            return AgentResult("limit")
        reply = await ctx.chat(messages, tools=tools)
        ctx.annotate_step(note=reply.finish_reason)
        messages.append(reply.message)
        if not reply.tool_calls:
            return AgentResult(final_message=reply.text)
        for call in reply.tool_calls:
            result = await ctx.call_tool(call["function"]["name"], json.loads(call["function"]["arguments"]))
            messages.append({"role": "tool", "tool_call_id": call["id"], "content": result.as_text()})


@harness("crashes")
async def crashes(ctx):
    await ctx.chat([{"role": "user", "content": "x"}])
    raise IndexError("boom")


@harness("stalls")
async def stalls(ctx):
    await asyncio.Event().wait()


@harness("returns-nothing")
async def returns_nothing(ctx):
    return None


TWO = f"{HERE}:two_turns"
LOOK = tool_call("look", at="it")


def play(harness_reference=TWO, script=(LOOK, "done"), *, service=None, **kwargs):
    service = service or MemoryService(tools={"look": lambda arguments: f"saw {arguments['at']}"})
    run = asyncio.run(run_episode("t/1", harness=harness_reference, policy=ScriptedPolicy(script), service=service, **kwargs))
    assert all(session.closed == 1 for session in service.sessions)
    assert not run.gateway.agents(run.result.rollout_id)
    return run


def test_an_episode_from_task_to_rows():
    run = play()
    assert (run.outcome.status, run.reward, run.result.calls) == ("scored", 1.0, 2)
    root = run.root
    assert root.task.goal == "do t/1" and root.finish_message == "done" and root.reward == 1.0
    assert [step.misc["note"] for step in root.steps] == ["tool_calls", "stop"]
    assert root.steps[-1].misc["reward_misc"] == {"reward/success": 1.0}
    assert "reward_misc" not in root.steps[0].misc
    assert root.misc["tool_calls"][0]["text"] == "saw it"
    assert root.misc["tool_calls"][0]["after_call_id"] == root.steps[0].misc["action_misc"]["completion_id"]
    assert root.misc["harness"]["kind"] == "function"
    first, second = run.result.trajectories[0].calls
    told = first.prompt.tolist() + first.action.tolist()
    assert second.prompt[: len(told)].tolist() == told
    assert run.result.tokens == {
        "prompt": len(first.prompt) + len(second.prompt),
        "completion": len(first.action) + len(second.action),
    }
    assert set(run.result.seconds) == {"setup", "agent", "model", "grade", "total"}
    assert run.result.rollout_id.startswith("t-1-")
    assert run.result.parsing() == {"generations": 2, "clean": 2, "emitted_calls": 1, "recovered_calls": 0, "unparsed_calls": 0}


@pytest.mark.parametrize(
    ("reference", "script", "route", "settings", "expected"),
    [
        (f"{HERE}:crashes", ["x"], {}, {}, ("error", "harness_crash")),
        (f"{HERE}:crashes", ["x"], {"on_harness_exit": HarnessExit(crash="grade")}, {}, ("scored", None)),
        (f"{HERE}:stalls", [], {}, {"timeout_s": 0.02}, ("timeout", None)),
        (f"{HERE}:stalls", [], {"on_harness_exit": HarnessExit(timeout="grade")}, {"timeout_s": 0.02}, ("scored", None)),
        (f"{HERE}:returns_nothing", [], {}, {}, ("error", "harness_crash")),
        (TWO, [ServiceError("down")], {}, {}, ("error", "harness_crash")),
        (TWO, [LOOK, LOOK], {}, {"max_steps": 2}, ("scored", None)),
        ("platoon-noop", [], {}, {}, ("scored", None)),
        ("platoon-oracle", [], {}, {}, ("error", "harness_config")),
        ("platoon-bash", [], {}, {}, ("error", "harness_setup")),
        ("platoon-bash", [], {"placement": "local"}, {}, ("error", "harness_config")),
        ("platoon-noop", [], {"program": "other"}, {}, ("error", "harness_config")),
        ("no-such-harness", [], {}, {}, ("error", "unexpected:ConfigError")),
    ],
)
def test_every_end_is_an_outcome(reference, script, route, settings, expected):
    run = play(reference, script, route=Route(harness=reference, **route), settings=RolloutSettings(**settings))
    assert (run.outcome.status, run.outcome.failure_kind) == expected
    interrupted = expected[0] != "scored"
    assert (run.result.trajectories == ()) is interrupted
    marked = run.root.misc.keys() & {"trajectory_invalid", "trajectory_timed_out", "trajectory_cancelled"}
    assert bool(marked) is interrupted
    assert run.root.reward == (0.0 if interrupted else 1.0)


def test_an_overflow_is_graded_with_its_reason():
    run = play(script=[LOOK], context_window_length=220, route=None)
    assert (run.outcome.status, run.outcome.reason) == ("scored", "context_overflow")


def test_the_services_failure_is_told():
    run = play(script=[ServiceError("the service is down")])
    assert "the service is down" in run.outcome.metadata["detail"]
    assert run.root.misc["gateway_errors"]["count"] == 1


@pytest.mark.parametrize("failure", [EnvSetupError("env_busy", "full"), RuntimeError("x"), ServiceError("x")])
@pytest.mark.parametrize("where", ["get_task", "open", "grade"])
def test_failures_of_the_environment(failure, where):
    service = MemoryService(grade=lambda session: raise_(failure) if where == "grade" else Outcome("scored", {"reward": 1.0}))

    async def fails(*args, **kwargs):
        raise failure

    if where != "grade":
        setattr(service, where, fails)
    run = play("platoon-noop", [], service=service)
    expected = "env_busy" if isinstance(failure, EnvSetupError) and where != "grade" else f"unexpected:{type(failure).__name__}"
    assert (run.outcome.status, run.outcome.failure_kind) == ("error", expected)
    assert run.root.misc["trajectory_invalid"] and run.root.error_message


@pytest.mark.parametrize(
    ("failure", "traced"), [(ServiceError("400: too\nlong"), False), (RuntimeError("x"), True)], ids=["told", "bug"]
)
@pytest.mark.parametrize("where", ["get_task", "grade", "close"])
def test_an_error_for_people_is_one_line_without_a_traceback(where, failure, traced, caplog):
    service = MemoryService(grade=lambda session: raise_(failure) if where == "grade" else Outcome("scored", {"reward": 1.0}))

    async def fails(*args, **kwargs):
        raise failure

    if where == "get_task":
        service.get_task = fails
    original = service.open

    async def opened(*args, **kwargs):
        session = await original(*args, **kwargs)
        session.close = fails
        return session

    if where == "close":
        service.open = opened
    gateway = make_gateway(ScriptedPolicy([]))
    route, settings = Route(harness="platoon-noop"), RolloutSettings()
    result = asyncio.run(run_rollout("t", route=route, service=service, gateway=gateway, settings=settings))
    assert result.outcome.status == ("scored" if where == "close" else "error")
    (record,) = caplog.records
    assert (record.exc_info is not None) is traced
    assert "\n" not in record.getMessage() and " ".join(str(failure).split()) in record.getMessage()


def raise_(error):
    raise error


def test_a_grade_that_is_no_outcome_is_an_error():
    run = play("platoon-noop", [], service=MemoryService(grade=lambda session: 1.0))
    assert run.outcome.failure_kind == "unexpected:TypeError"


def test_a_close_that_fails_loses_nothing(caplog):
    service = MemoryService()

    async def run():
        gateway = make_gateway(ScriptedPolicy([]))
        original = service.open

        async def opened(*args, **kwargs):
            session = await original(*args, **kwargs)

            async def close():
                raise OSError("stuck")

            session.close = close
            return session

        service.open = opened
        return await run_rollout(
            "t", route=Route(harness="platoon-noop"), service=service, gateway=gateway, settings=RolloutSettings()
        )

    assert asyncio.run(run()).outcome.status == "scored"
    assert "did not close" in caplog.text


def test_the_runs_budget_replaces_the_tasks():
    service = MemoryService({"t": Task("t", "g", max_steps=9)})
    run = asyncio.run(
        run_episode("t", harness=TWO, policy=ScriptedPolicy(["x"]), service=service, settings=RolloutSettings(max_steps=3))
    )
    assert run.root.task.max_steps == 3


def test_seeds_of_the_draw_reach_the_policy():
    async def seeds(member):
        policy = ScriptedPolicy([LOOK, "done"])
        service = MemoryService(tools={"look": lambda arguments: "x"})
        settings = RolloutSettings()
        gateway = make_gateway(policy)
        key = SeedKey(1, 5, member)
        await run_rollout("t", route=Route(harness=TWO), service=service, gateway=gateway, settings=settings, seed_key=key)
        return [call.settings.seed for call in policy.calls], policy.prompts

    first, again, other = (asyncio.run(seeds(member)) for member in (0, 0, 1))
    assert first == again and first[1] == other[1] and first[0] != other[0]
    assert first[0] == [SeedKey(1, 5, 0).call_seed("0", 0), SeedKey(1, 5, 0).call_seed("0", 1)]


def test_files_of_a_rollout(tmp_path):
    pq = pytest.importorskip("pyarrow.parquet")

    async def run():
        gateway = make_gateway(ScriptedPolicy([LOOK, "done", LOOK, "done"]))
        service = MemoryService(tools={"look": lambda arguments: "x"})
        with TokenTable(tmp_path / "tokens.parquet") as table:
            return [
                await run_rollout(
                    f"t/{index}",
                    route=Route(harness=TWO),
                    service=service,
                    gateway=gateway,
                    settings=RolloutSettings(),
                    output_dir=tmp_path,
                    token_table=table,
                    labels={"step": "3"},
                )
                for index in range(2)
            ]

    results = asyncio.run(run())
    stored = json.loads((tmp_path / "trajectories" / f"{results[0].rollout_id}.json").read_text())
    assert stored == results[0].collection.to_dict()
    assert next(iter(stored["trajectories"].values()))["misc"]["labels"] == {"step": "3"}
    files = sorted((tmp_path / "events").iterdir())
    assert [file.name.startswith(f"events_t_{index}_") for index, file in enumerate(files)] == [True, True]
    lines = [json.loads(line) for line in files[0].read_text().splitlines()]
    kinds = ["trajectory_created", "trajectory_task_set", "trajectory_step_added", "trajectory_step_added", "trajectory_finished"]
    assert [line["type"] for line in lines] == kinds
    assert lines[0]["trajectory"]["misc"] == {} and "steps" not in lines[0]["trajectory"]
    assert [line["ts"] for line in lines] == sorted({line["ts"] for line in lines})
    rows = pq.read_table(tmp_path / "tokens.parquet").to_pylist()
    assert [row["rollout_id"] for row in rows] == [result.rollout_id for result in results]
    calls = results[0].trajectories[0].calls
    assert rows[0]["tokens"] == calls[1].prompt.tolist() + calls[1].action.tolist()
    assert sum(flag & 1 for flag in rows[0]["flags"]) == len(calls[0].action) + len(calls[1].action)
    secret_free = "".join(file.read_text() for file in tmp_path.rglob("*.json*"))
    assert "Bearer" not in secret_free


@pytest.mark.parametrize("reference", [TWO])
def test_a_cancellation_at_any_await_leaves_nothing(reference):
    """Fault injection: the rollout is cancelled at its n-th step of the event loop, for every n until it finishes."""

    async def attempt(steps):
        service = MemoryService(tools={"look": lambda arguments: "x"})
        gateway = make_gateway(ScriptedPolicy(lambda prompt: Completion("done" if "<|im_start|>tool" in prompt else LOOK)))
        task = asyncio.ensure_future(
            run_rollout("t", route=Route(harness=reference), service=slow(service), gateway=gateway, settings=RolloutSettings())
        )
        for _ in range(steps):
            await asyncio.sleep(0)
        finished = task.done()
        if not finished:
            task.cancel()
        result = (await asyncio.gather(task, return_exceptions=True))[0]
        assert all(session.closed == 1 for session in service.sessions), steps
        assert not gateway._agents and not gateway._rollouts, steps
        return finished, result

    outcomes = []
    for steps in range(200):
        finished, result = asyncio.run(attempt(steps))
        outcomes.append(result)
        if finished:
            break
    assert finished and result.outcome.status == "scored"
    assert sum(isinstance(item, asyncio.CancelledError) for item in outcomes) > 5


def slow(service):
    """Every operation of the environment takes a few steps of the loop."""

    def delayed(function):
        async def call(*args, **kwargs):
            for _ in range(2):
                await asyncio.sleep(0)
            return await function(*args, **kwargs)

        return call

    service.get_task = delayed(service.get_task)
    original = service.open

    async def opened(*args, **kwargs):
        await asyncio.sleep(0)
        session = await original(*args, **kwargs)
        for name in ("tools", "call_tool", "grade", "close"):
            setattr(session, name, delayed(getattr(session, name)))
        return session

    service.open = opened
    return service


def test_a_shut_down_gateway_ends_rollouts():
    gateway = make_gateway(ScriptedPolicy([]))
    gateway.shut_down()

    async def run():
        return await run_rollout(
            "t", route=Route(harness=TWO), service=MemoryService(), gateway=gateway, settings=RolloutSettings()
        )

    assert asyncio.run(run()).outcome.failure_kind == "unexpected:GatewayShutDownError"
    assert issubclass(AgentClosedError, Exception)
