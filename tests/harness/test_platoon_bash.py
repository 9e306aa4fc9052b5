"""platoon-bash over HTTP in process sandboxes: real commands, real sockets, a scripted policy."""

from __future__ import annotations

import ast
import asyncio
import json
import os
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import pytest

from platoon.episodes.rollout import run_rollout
from platoon.episodes.route import HarnessExit, RolloutSettings, Route
from platoon.sandbox import get_provider
from platoon.sandbox.base import SandboxSpec
from platoon.testing import MemoryService, ScriptedPolicy, make_gateway, run_episode, tool_call

pytestmark = pytest.mark.process
# A length of its own, so that runs of these tests beside each other do not count each other's commands.
# The same in all workers of a session, which collect the same tests, and another in each session.
NAP = f"987.{os.getppid()}"


def bash(command: str) -> str:
    return tool_call("bash", command=command)


def play(tmp_path, script, *, workdir="/app", **kwargs):
    """One episode in a sandbox of its own; returns the run and what the sandbox's working directory holds."""

    async def run():
        sandbox = await get_provider("process", root=tmp_path / "sandboxes").start(SandboxSpec(image="local", workdir=workdir))
        try:
            service = MemoryService(make_sandbox=lambda: sandbox)
            policy = ScriptedPolicy(script)
            episode = await run_episode("t", harness="platoon-bash", policy=policy, service=service, **kwargs)
            left = await sandbox.exec(f"ps -o args= -e | grep -c '[s]leep {NAP}' || true", cwd="/")
            listed = await sandbox.exec("cat *.txt 2>/dev/null; true")
            return episode, listed.stdout, left.stdout.strip()
        finally:
            await sandbox.stop()

    return asyncio.run(run())


def tool_messages(policy):
    return [part.split("<|im_end|>")[0] for part in policy.prompts[-1].split("<|im_start|>tool\n")[1:]]


def test_several_turns_of_real_commands(tmp_path):
    script = [bash("echo one > a.txt; cat a.txt"), bash("cat /app/a.txt; pwd; false"), "all done"]
    run, files, _ = play(tmp_path, script, output_dir=tmp_path / "out", max_steps=5)
    assert (run.outcome.status, run.result.calls, files) == ("scored", 3, "one\n")
    assert tool_messages(run.policy) == ["one\n", "one\n/app\n[exit code 1]"]
    assert run.root.finish_message == "all done"
    assert run.root.misc["harness"]["exit_code"] == 0
    calls = run.result.trajectories[0].calls
    for earlier, later in pairwise(calls):
        told = earlier.prompt.tolist() + earlier.action.tolist()
        assert later.prompt[: len(told)].tolist() == told
    assert [file.read_text() for file in (tmp_path / "out" / "harness").iterdir()] == [""]


@pytest.mark.parametrize(
    ("reply", "expected"),
    [
        (bash("printf 'a\\xff\\n'; echo err >&2"), "a�\nerr\n"),
        (bash("python3 -c 'print(\"x\" * 300)'"), "x" * 50 + "\n[201 characters left out]\n" + "x" * 49 + "\n"),
        (bash(f"sleep {NAP}"), "[timed out after 1 s]"),
        (bash(f"echo early; sleep {NAP} & exit 3"), "early\n[exit code 3]"),
        (bash("kill -9 $$"), "[exit code 137]"),
        (bash('echo "$PLATOON_API_KEY."'), ".\n"),
        (tool_call("other"), "there is no tool 'other'"),
        (tool_call("bash", wrong=1), "Invalid arguments: the bash tool takes a command"),
        (bash("echo 'é\"\\\\'"), 'é"\\\\\n'),
        (bash("cat"), ""),
    ],
)
def test_what_the_model_is_shown(tmp_path, reply, expected):
    options = {"command_timeout_s": 1, "output_characters": 100}
    run, _, left = play(tmp_path, [reply, "done"], harness_options=options)
    assert run.outcome.status == "scored", run.root.error_message
    assert tool_messages(run.policy) == [expected]
    assert left == "0"


def test_parallel_calls_are_answered_in_order(tmp_path):
    run, _, _ = play(tmp_path, [bash("echo 1") + "\n" + bash("echo 2"), "done"])
    assert tool_messages(run.policy) == ["1\n", "2\n"]


def test_the_step_limit_counts_as_completed(tmp_path):
    run, files, _ = play(tmp_path, [bash("echo x >> a.txt")] * 2, max_steps=2)
    assert (run.outcome.status, run.root.misc["harness"]["exit_code"], files) == ("scored", 3, "x\nx\n")
    assert run.root.misc["agent_result"]["status"] == "completed"


def test_a_model_that_fails_is_a_crash_that_says_why(tmp_path):
    run, _, _ = play(tmp_path, [ValueError("no sample")])
    assert (run.outcome.status, run.outcome.failure_kind) == ("error", "harness_crash")
    assert run.root.misc["harness"]["exit_code"] == 2 and "no sample" in run.outcome.metadata["detail"]
    assert run.result.trajectories == ()


def test_an_overflow_is_graded(tmp_path):
    run, _, _ = play(tmp_path, [bash("head -c 400 /dev/zero | tr '\\0' x")], context_window_length=600)
    assert (run.outcome.status, run.outcome.reason) == ("scored", "context_overflow")


@pytest.mark.parametrize("on_timeout", ["exclude", "grade"])
def test_a_timeout_kills_what_runs(tmp_path, on_timeout):
    route = Route(harness="platoon-bash", on_harness_exit=HarnessExit(timeout=on_timeout))
    run, _, left = play(tmp_path, [bash(f"sleep {NAP}")], route=route, settings=RolloutSettings(timeout_s=1.0))
    expected = ("timeout", "agent_timeout") if on_timeout == "exclude" else ("scored", "agent_timeout")
    assert (run.outcome.status, run.outcome.reason) == expected
    assert run.root.misc["harness"]["timed_out"] and left == "0"


def test_a_cancelled_rollout_kills_its_agent(tmp_path):
    async def run():
        sandbox = await get_provider("process", root=tmp_path / "s").start(SandboxSpec(image="local"))
        service = MemoryService(make_sandbox=lambda: sandbox)
        policy = ScriptedPolicy([bash(f"touch here; sleep {NAP}")])
        task = asyncio.ensure_future(run_episode("t", harness="platoon-bash", policy=policy, service=service))
        try:
            async with asyncio.timeout(30):
                while (await sandbox.exec(["test", "-e", "here"])).exit_code:  # noqa: ASYNC110  because it is a process's
                    await asyncio.sleep(0.05)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            left = await sandbox.exec(f"ps -o args= -e | grep -c '[s]leep {NAP}' || true", cwd="/")
            assert left.stdout.strip() == "0"
        finally:
            await sandbox.stop()

    asyncio.run(run())


@pytest.mark.parametrize("after_s", [0.0, 0.005, 0.02, 0.05, 0.1, 0.2])
def test_cancelled_at_any_time_nothing_is_left(tmp_path, after_s):
    """Neither an agent's process, nor the gateway's server, nor an open agent; wherever in the launch the cancellation falls."""

    async def run():
        sandbox = await get_provider("process", root=tmp_path / "s").start(SandboxSpec(image="local"))
        service = MemoryService(make_sandbox=lambda: sandbox)
        gateway = make_gateway(ScriptedPolicy(lambda prompt: bash(f"sleep {NAP}")))
        route, settings = Route(harness="platoon-bash"), RolloutSettings()
        task = asyncio.ensure_future(run_rollout("t", route=route, service=service, gateway=gateway, settings=settings))
        try:
            await asyncio.sleep(after_s)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert not gateway._agents and not gateway._rollouts
            assert gateway.http is None or gateway.http.users == 0
            assert all(session.closed == 1 for session in service.sessions)
            running = (await sandbox.exec("ps -o args= -e", cwd="/")).stdout
            assert f"sleep {NAP}" not in running
            # Output says a sandbox's own paths, so what of the agent still ran would be named as it is from inside.
            assert " /tmp/platoon-harness/" not in running
        finally:
            await sandbox.stop()

    asyncio.run(run())


def test_a_sandbox_without_its_directory_is_a_setup_failure(tmp_path):
    async def run():
        sandbox = await get_provider("process", root=tmp_path / "s").start(SandboxSpec(image="local"))
        try:
            (await sandbox.exec("rmdir /app", cwd="/")).exit_code  # noqa: B018  because only the effect matters
            service = MemoryService(make_sandbox=lambda: sandbox)
            return await run_episode("t", harness="platoon-bash", policy=ScriptedPolicy([]), service=service)
        finally:
            await sandbox.stop()

    assert asyncio.run(run()).outcome.failure_kind == "harness_setup"


def test_the_script_is_old_python():
    """Task images bring their own interpreter: the syntax is that of 3.6, and no module outside the standard library is named."""
    script = Path(__file__).parents[2] / "platoon" / "harness" / "builtin" / "platoon_bash" / "platoon_bash.py"
    tree = ast.parse(script.read_text(), feature_version=(3, 6))
    imported = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    imported |= {node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    assert imported <= sys.stdlib_module_names


def test_the_script_reads_and_writes_json_as_the_library_does():
    """Its own writer and the core scanner agree with `json`, in an interpreter that imports neither `json` nor `socket`."""
    script = Path(__file__).parents[2] / "platoon" / "harness" / "builtin" / "platoon_bash" / "platoon_bash.py"
    value = {"a": [1, -2.5, True, False, None, 'é\n"\\\u2028'], "b": {"c": {}}, "d": []}
    program = (
        "import runpy, sys; sys.argv=['x']; m = runpy.run_path(sys.stdin.readline().strip(), run_name='m');"
        "text = sys.stdin.read(); assert m['dumps'](m['loads'](text)) == m['dumps'](m['loads'](m['dumps'](m['loads'](text))));"
        "print(m['dumps'](m['loads'](text)), sorted({'json', 'socket', 'subprocess', 're'} & set(sys.modules)))"
    )
    command = [sys.executable, "-I", "-S", "-c", program.replace("import runpy, sys;", "import sys, runpy;")]
    done = subprocess.run(command, input=f"{script}\n{json.dumps(value)}", capture_output=True, text=True, check=True)
    text, _, modules = done.stdout.strip().rpartition(" [")
    assert json.loads(text) == value
    assert "json" not in modules and "socket" not in modules
