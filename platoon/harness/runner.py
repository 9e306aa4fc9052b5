"""Runs a spec's agent in the task's sandbox: set up, launch, time, kill, read.

Three commands a run: one makes the state directory and says where things are, one is the agent, one ends what carries the agent's
marker and reads the final message. All run as the sandbox's agents do, never behind its view. What the policy's code can reach
holds the agent's key, so the agent is opened `policy_only`.
"""

from __future__ import annotations

import asyncio
import json
import logging
import re
import secrets
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from platoon.artifacts.reading import parse_json, read_regular
from platoon.harness.api import AgentResult
from platoon.harness.errors import HarnessConfigError, HarnessSetupError
from platoon.harness.rendering import LaunchPlan, RunValues, render_launch
from platoon.harness.spec import HarnessSpec
from platoon.host.staging import staging_dir
from platoon.host.tasks import see_through

log = logging.getLogger(__name__)

MARKER = "PLATOON_HARNESS_AGENT"
KILL_GRACE_S = 5
HELPER_TIMEOUT_S = 60.0
BACKSTOP_S = 60.0
INSTALL_TAIL_CHARACTERS = 4000

SET_UP = 'pwd && d="${TMPDIR:-/tmp}/platoon-harness/$1" && mkdir -p -m 700 "$d" && cd "$d" && pwd'
FINISH = """
found() { grep -lsF -- "$1" /proc/[0-9]*/environ 2>/dev/null | while read -r f; do f=${f#/proc/}; echo "${f%/environ}"; done; }
if grep -qsF -- "$1" /proc/[0-9]*/environ; then
    pids=$(found "$1")
    [ -z "$pids" ] || kill -TERM $pids 2>/dev/null
    waited=0
    while [ "$waited" -lt "$2" ] && [ -n "$(found "$1")" ]; do sleep 1; waited=$((waited + 1)); done
    pids=$(found "$1")
    [ -z "$pids" ] || kill -KILL $pids 2>/dev/null
fi
[ -z "$3" ] || [ ! -f "$3" ] || cat "$3"
"""


@dataclass(frozen=True)
class HarnessRun:
    """One agent's launch. slug: names its state directory and log. timeout_s: None for no bound. log_path: None for no log."""

    spec: HarnessSpec
    sandbox: Any
    slug: str
    instruction: str
    base_url: str
    api_key: str
    model: str
    options: dict[str, Any]
    max_steps: int | None
    timeout_s: float | None
    log_path: Path | None = None
    disable_builtins: bool = False
    task_mcp_servers: str = "[]"


@dataclass(frozen=True)
class HarnessResult:
    """exit_code: None when the agent was ended by its time limit."""

    exit_code: int | None
    final_message: str | None
    timed_out: bool
    logs_path: str | None

    def agent_result(self, spec: HarnessSpec) -> AgentResult:
        """Unmapped exit codes: 0 is completed, everything else an error."""
        if self.timed_out:
            return AgentResult("timeout", self.final_message)
        assert self.exit_code is not None
        meaning = spec.exit_codes.get(self.exit_code, "completed" if self.exit_code == 0 else "error")
        if meaning == "completed":
            return AgentResult("completed", self.final_message)
        return AgentResult("error", self.final_message, f"the harness ended with exit code {self.exit_code}")


async def run_in_sandbox(run: HarnessRun) -> HarnessResult:
    """The agent's run to its end. Raises HarnessSetupError or HarnessConfigError; a cancellation kills the agent first.

    Anything else the sandbox raises passes through.
    """
    mark = f"{run.slug}.{secrets.token_hex(6)}"
    workdir, state_dir = await _set_up(run)
    plan = render_launch(run.spec, _values(run, workdir, state_dir), run.options, disable_builtins=run.disable_builtins)
    await _place_files(run, plan, state_dir)
    await _install(run)
    backstop_s = None if run.timeout_s is None else run.timeout_s + 2 * KILL_GRACE_S + BACKSTOP_S
    result = await _launch(run, plan, mark, backstop_s)
    final = await asyncio.shield(asyncio.ensure_future(_finish(run, mark, plan.final_file)))
    _write_log(run, result)
    final_spec = run.spec.final_message
    if plan.final_regex is not None:
        final = _last_match(plan.final_regex, result.stdout if result is not None else "")
    elif final is not None and final_spec is not None and final_spec.json_key is not None:
        final = _json_value(final, final_spec.json_key)
    logs_path = None if run.log_path is None else str(run.log_path)
    timed_out = result is None or bool(result.timed_out)
    return HarnessResult(None if timed_out else result.exit_code, final, timed_out, logs_path)


async def _launch(run: HarnessRun, plan: LaunchPlan, mark: str, backstop_s: float | None) -> Any:
    """The agent's ExecResult, None when its time ran out. However it ends by an exception, what it started is killed first."""
    try:
        async with asyncio.timeout(run.timeout_s) as limit:
            return await run.sandbox.exec(list(plan.argv), env={**plan.env, MARKER: mark}, timeout_s=backstop_s)
    except TimeoutError:
        if limit.expired():
            return None
        await see_through(_finish(run, mark, None), HELPER_TIMEOUT_S)
        raise
    except BaseException:
        await see_through(_finish(run, mark, None), HELPER_TIMEOUT_S)
        raise


def _values(run: HarnessRun, workdir: str, state_dir: str) -> RunValues:
    steps = run.max_steps if run.max_steps is not None else run.spec.max_steps
    return RunValues(
        instruction=run.instruction,
        base_url=run.base_url,
        model=run.model,
        workdir=workdir,
        state_dir=state_dir,
        api_key=run.api_key,
        max_steps=steps,
        task_mcp_servers=run.task_mcp_servers,
    )


async def _set_up(run: HarnessRun) -> tuple[str, str]:
    """(working directory, state directory) as paths of the sandbox."""
    try:
        result = await run.sandbox.exec(["sh", "-c", SET_UP, "platoon-harness", run.slug], timeout_s=HELPER_TIMEOUT_S)
    except OSError as error:
        raise HarnessSetupError(f"the sandbox's working directory cannot be entered: {error}") from error
    lines = result.stdout.splitlines()
    if result.exit_code != 0 or len(lines) < 2:
        raise HarnessSetupError(f"the state directory could not be made: {(result.stdout + result.stderr)[-500:]}")
    return lines[-2], lines[-1]


async def _place_files(run: HarnessRun, plan: LaunchPlan, state_dir: str) -> None:
    """One upload for what lies in the state directory, one more for each file elsewhere."""
    with staging_dir("platoon-harness") as scratch:
        inside, outside = scratch / "inside", scratch / "outside"
        inside.mkdir()
        outside.mkdir()
        elsewhere: list[tuple[Path, str]] = []
        contents = {**{path: text.encode() for path, text in plan.files.items()}}
        contents |= {path: read_regular(source, None) for path, source in plan.assets.items()}
        for index, (path, data) in enumerate(contents.items()):
            if path.startswith(f"{state_dir}/") and ".." not in path.split("/"):
                target = inside / path[len(state_dir) + 1 :]
                target.parent.mkdir(parents=True, exist_ok=True)
            else:
                target = outside / str(index)
                elsewhere.append((target, path))
            target.write_bytes(data)
        try:
            await run.sandbox.upload(inside, state_dir)
            for source, path in elsewhere:
                await run.sandbox.upload(source, path)
        except OSError as error:
            raise HarnessSetupError(f"the harness's files could not be placed: {error}") from error


async def _install(run: HarnessRun) -> None:
    for command in run.spec.install.commands:
        result = await run.sandbox.exec(command, timeout_s=run.spec.install.timeout_s)
        if result.timed_out or result.exit_code != 0:
            tail = (result.stdout + result.stderr)[-INSTALL_TAIL_CHARACTERS:]
            told = "took too long" if result.timed_out else f"ended with exit code {result.exit_code}"
            raise HarnessSetupError(f"installing {run.spec.reference} {told}: {tail}")


async def _finish(run: HarnessRun, mark: str, final_file: str | None) -> str | None:
    """Ends the agent's processes and returns the final message's file, None without one. Never raises: the run is over."""
    argv = ["sh", "-c", FINISH, "platoon-harness", f"{MARKER}={mark}", str(KILL_GRACE_S), final_file or ""]
    try:
        result = await run.sandbox.exec(argv, cwd="/", timeout_s=HELPER_TIMEOUT_S)
    except Exception as error:
        log.warning("processes of harness agent %s could not be ended: %s", run.slug, error)
        return None
    return None if final_file is None else str(result.stdout)


def _write_log(run: HarnessRun, result: Any) -> None:
    if run.log_path is None or result is None:
        return
    text = (result.stdout + result.stderr).replace(run.api_key, "[key]")
    try:
        run.log_path.parent.mkdir(parents=True, exist_ok=True)
        with run.log_path.open("a", encoding="utf-8") as file:
            file.write(text)
    except OSError as error:
        log.warning("%s: the harness's output could not be kept: %s", run.log_path, error)


def _last_match(pattern: str, text: str) -> str | None:
    matches = list(re.finditer(pattern, text, re.MULTILINE))
    if not matches:
        return None
    return matches[-1].group(1) if matches[-1].re.groups else matches[-1].group()


def _json_value(text: str, dotted: str) -> str | None:
    try:
        value = parse_json(text)
        for key in dotted.split("."):
            value = value[key]
    except (ValueError, KeyError, TypeError, IndexError):
        return None
    return value if isinstance(value, str) else json.dumps(value)


def gateway_url(session: Any, host_url: str, path: str, sandbox: Any) -> str:
    """The gateway's address as reached from the sandbox: its route where it has one, else this host's loopback.

    Raises HarnessSetupError when neither leads there: a harness that cannot reach its model is not started.
    """
    routes = getattr(sandbox, "routes", {})
    if "gateway" in routes:
        return f"{routes['gateway'].rstrip('/')}{path}"
    if getattr(session, "network_isolated", False) or getattr(session, "host_loopback", True) is False:
        raise HarnessSetupError("the sandbox has no route to the model gateway and does not share this host's network")
    return host_url


def check_placement(placement: str, session: Any) -> None:
    """Raises HarnessConfigError for a placement that is not served, HarnessSetupError for a task without a sandbox."""
    if placement == "local":
        raise HarnessConfigError("placement: local is not served in this version; use task_sandbox")
    if getattr(session, "sandbox", None) is None:
        raise HarnessSetupError("the task has no sandbox to run the harness in")
