"""Grading in the agents' own sandbox: the order that makes a reward the tests' and nobody else's.

Whatever agents left running is killed first; `/tests` and `/logs/verifier` are made afresh, so a planted reward file is gone before
the tests begin; the tests run with a limit; what they left running is killed; only then are the files read, and `/tests` goes.
The caller holds the session's gate exclusively. A cancellation ends the tests and is raised.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from platoon.core.outcome import Outcome
from platoon.envs.harbor import verifier_scripts as scripts
from platoon.envs.harbor.format import HarborTask
from platoon.envs.harbor.rewards import RewardContract, judge, zero
from platoon.envs.harbor.templates import resolve_env
from platoon.sandbox.base import ExecResult, Sandbox

logger = logging.getLogger(__name__)

SCRIPT_TIMEOUT_S = 120.0
OVERHEAD_S = 120.0

_RUN = f"exec bash {scripts.TESTS}/test.sh > {scripts.TEST_OUTPUT} 2>&1 < /dev/null"


@dataclass(frozen=True)
class GradingSettings:
    """timeout_s: limit of the tests. ignored_users: users the task names that were not honored, for the outcome."""

    workdir: str
    timeout_s: float
    contract: RewardContract
    ignored_users: Mapping[str, Any]


class _Ended(Exception):
    """Grading is over early, with this outcome."""

    def __init__(self, outcome: Outcome) -> None:
        self.outcome = outcome
        super().__init__(outcome.reason)


async def grade_shared(sandbox: Sandbox, task: HarborTask, settings: GradingSettings) -> Outcome:
    """Runs the task's tests in `sandbox` and gives the outcome. Raises only what is nobody's verdict (cancellation, defects)."""
    metadata: dict[str, Any] = {"verifier_mode": "shared"}
    if settings.ignored_users:
        metadata["ignored_users"] = dict(settings.ignored_users)
    try:
        outcome = await _grade(sandbox, task, settings, metadata)
    except _Ended as ended:
        outcome = ended.outcome
    return _with_metadata(outcome, metadata)


async def _grade(sandbox: Sandbox, task: HarborTask, settings: GradingSettings, metadata: dict[str, Any]) -> Outcome:
    try:
        env = resolve_env(task.verifier.env, os.environ)
    except KeyError as error:
        raise _Ended(_error("verifier_setup", f"[verifier].env needs {error.args[0]}, which is unset here")) from None
    await _kill(sandbox)
    await _collect(sandbox, task, settings, metadata)
    await _prepare(sandbox, task, settings, metadata)
    began = time.monotonic()
    try:
        result = await sandbox.exec(["sh", "-c", _RUN], timeout_s=settings.timeout_s, env=env, cwd=settings.workdir)
    except OSError as error:
        raise _Ended(_error("verifier_setup", f"the tests did not start: {error}")) from error
    metadata["verifier_seconds"] = round(time.monotonic() - began, 3)
    metadata["verifier_exit_code"] = result.exit_code
    await _kill(sandbox)
    if result.exit_code == 126:
        await _check_workdir(sandbox, settings, metadata)
    output = await _read(sandbox)
    metadata["test_output"] = output.test_output
    if result.timed_out:
        metadata["timeout_s"] = settings.timeout_s
        return Outcome.infra("verifier_timeout", "invalid", reason="verifier_timeout")
    return judge(output.files, settings.contract)


async def _kill(sandbox: Sandbox) -> None:
    try:
        await sandbox.kill_processes()
    except (RuntimeError, OSError) as error:
        raise _Ended(_error("verifier_isolation", str(error))) from error


async def _collect(sandbox: Sandbox, task: HarborTask, settings: GradingSettings, metadata: dict[str, Any]) -> None:
    """Runs the collect hooks of `main`; one that fails is told and nothing more."""
    failed = []
    for hook in task.verifier.collect:
        try:
            result = await sandbox.exec(hook.command, timeout_s=hook.timeout_sec, cwd=settings.workdir)
        except OSError as error:
            failed.append(f"{hook.command[:80]}: {error}")
            continue
        if result.exit_code or result.timed_out:
            failed.append(f"{hook.command[:80]}: {'timed out' if result.timed_out else f'exit {result.exit_code}'}")
    if task.verifier.collect:
        await _kill(sandbox)
    if failed:
        metadata["collect_failed"] = failed


async def _prepare(sandbox: Sandbox, task: HarborTask, settings: GradingSettings, metadata: dict[str, Any]) -> None:
    marker = scripts.new_marker()
    result = await _script(sandbox, scripts.prepare_command(marker, settings.workdir))
    _judge_workdir(scripts.read_state(marker, result.stdout), result, settings, metadata)
    if not scripts.made_afresh(marker, result.stdout):
        raise _Ended(_error("verifier_setup", f"the directories of the tests could not be made: {_tail(result)}"))
    try:
        await sandbox.upload(task.directory / "tests", scripts.TESTS)
    except OSError as error:
        raise _Ended(_error("verifier_setup", f"the tests could not be uploaded: {error}")) from error


async def _check_workdir(sandbox: Sandbox, settings: GradingSettings, metadata: dict[str, Any]) -> None:
    marker = scripts.new_marker()
    result = await _script(sandbox, scripts.state_command(marker, settings.workdir))
    _judge_workdir(scripts.read_state(marker, result.stdout), result, settings, metadata)


def _judge_workdir(state: str | None, result: ExecResult, settings: GradingSettings, metadata: dict[str, Any]) -> None:
    """A working directory that agents removed or closed is a failed task; a shell that cannot tell is a fault."""
    if state is None:
        raise _Ended(_error("verifier_setup", f"the working directory could not be looked at: {_tail(result)}"))
    if state != "ok":
        metadata.update(workdir=settings.workdir, workdir_state=state)
        raise _Ended(zero("workdir_missing", settings.contract, {}))


async def _read(sandbox: Sandbox) -> scripts.VerifierOutput:
    marker = scripts.new_marker()
    result = await _script(sandbox, scripts.read_command(marker))
    output = scripts.read_output(marker, result.stdout)
    if output is None:
        raise _Ended(_error("verifier_output", f"what the tests left could not be read: {_tail(result)}"))
    return output


async def _script(sandbox: Sandbox, command: list[str]) -> ExecResult:
    try:
        return await sandbox.exec(command, timeout_s=SCRIPT_TIMEOUT_S, cwd="/")
    except OSError as error:
        raise _Ended(_error("verifier_setup", f"a script did not start: {error}")) from error


def _error(kind: str, detail: str) -> Outcome:
    logger.warning("%s: %s", kind, detail)
    return Outcome.infra(kind, "error", reason=kind, metadata={"detail": detail[:500]})


def _tail(result: ExecResult) -> str:
    return "timed out" if result.timed_out else f"exit {result.exit_code}: {result.stderr[-300:].strip()}"


def _with_metadata(outcome: Outcome, metadata: Mapping[str, Any]) -> Outcome:
    return Outcome(
        outcome.status,
        outcome.rewards,
        outcome.primary,
        reason=outcome.reason,
        failure_kind=outcome.failure_kind,
        metadata={**metadata, **outcome.metadata},
    )
