"""The Harbor service: tasks of a dataset, and a session with a live sandbox for each rollout."""

from __future__ import annotations

import asyncio
import json
import logging
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from platoon.artifacts.canonical import canonical_digest, read_json
from platoon.config.text import counted
from platoon.core.gate import EnvBusy, GateClosed, ToolGate
from platoon.core.protocols import SessionNeeds
from platoon.core.task import Task
from platoon.envs.harbor import grading
from platoon.envs.harbor.format import HarborTask, TaskRefused
from platoon.envs.harbor.lock import LockRow
from platoon.envs.harbor.options import HarborOptions
from platoon.envs.harbor.served import ServedTasks, serve_directories, serve_lock, serve_request
from platoon.envs.harbor.session import HarborSession, SandboxLease, SessionSettings
from platoon.envs.harbor.specs import apply_needs, build_spec, ignored_users, refusals
from platoon.envs.harbor.task_toml import Healthcheck
from platoon.errors import ConfigError, EnvSetupError, PlatoonError, Problem
from platoon.host.waiting import finish
from platoon.images.plan import image_key
from platoon.sandbox import get_provider
from platoon.sandbox.base import Sandbox, SandboxProvider, SandboxSpec
from platoon.sandbox.labels import StartedSandbox, start_guarded

logger = logging.getLogger(__name__)

DEFAULT_PROVIDER = "docker"
SETUP_TIMEOUT_S = 120.0
SHOWN_PROBLEMS = 20

_MAKE_DIRECTORIES = 'mkdir -p -- /logs/agent /logs/verifier /logs/artifacts "$1"'


class HarborService:
    """Serves `options.task_dirs` or `options.dataset_dir` as they are, or a lock with the site's cache.

    options: the entry's `service_kwargs`. lock_file: of a fetched dataset, looked up in the cache when unset. cache_dir: the Harbor
    part of the cache it went to.
    image_map_file: of what `prepare` built.
    base_dir: what relative paths in the options are relative to. provider: built already, for tests and other programs.
    site_provider, site_provider_options: what the site file names, used below the entry's own.
    """

    capabilities = frozenset({"splits", "names", "checks", "overhead", "needs"})

    def __init__(
        self,
        options: HarborOptions | Mapping[str, Any],
        *,
        lock_file: str | Path | None = None,
        cache_dir: str | Path | None = None,
        image_map_file: str | Path | None = None,
        base_dir: str | Path = ".",
        provider: SandboxProvider | None = None,
        site_provider: str | None = None,
        site_provider_options: Mapping[str, Any] | None = None,
    ) -> None:
        self.options = options if isinstance(options, HarborOptions) else HarborOptions.parse(options)
        self.name = self.options.name
        base = Path(base_dir)
        if lock_file is not None:
            if cache_dir is None:
                raise ConfigError(
                    Problem("a lock is served from the cache it was fetched to: cache_dir is missing", file=str(lock_file))
                )
            self._tasks: ServedTasks = serve_lock(Path(lock_file), Path(cache_dir), self.options, base)
        elif self.options.is_locked:
            if cache_dir is None:
                advice = "run platoon prepare, or use dataset_dir"
                raise ConfigError(Problem("a dataset is served from its lock", key="dataset", advice=advice))
            self._tasks = serve_request(self.options, base, Path(cache_dir))
        else:
            self._tasks = serve_directories(self.options, base)
        self._provider = provider
        self._provider_name = provider.name if provider is not None else self.options.provider or site_provider or DEFAULT_PROVIDER
        # Read now: the folder of a run's inputs may go while the run goes on.
        self._images = {} if image_map_file is None else _read_images(Path(image_map_file), self._provider_name)
        self._provider_options = {**(site_provider_options or {}), **self.options.provider_options}

    @property
    def provider(self) -> SandboxProvider:
        """The sandbox provider, built when it is first asked for. Raises ConfigError."""
        if self._provider is None:
            self._provider = get_provider(self._provider_name, **self._provider_options)
        return self._provider

    async def list_tasks(self, split: str) -> Sequence[str]:
        return self._tasks.splits.ids(split)

    def task_digest(self, task_id: str) -> str:
        """`sha256:<hex>` of all that decides what a task is: its files, its stack, where its images are."""
        row = self._tasks.row(task_id)
        keys = [image_key(image) for image in (row.image, row.verifier_image) if image is not None]
        images = {key: self._images.get(key) for key in keys}
        return canonical_digest({"files": row.digest, "compose": row.compose, "images": images})

    async def list_splits(self) -> Sequence[str]:
        named = self._tasks.splits.named
        return sorted(named) if named is not None else ["train"]

    async def list_task_names(self, split: str) -> Mapping[str, str]:
        """Task id to the name in its own `task.toml`, where it has one."""
        tasks = {task_id: self._harbor_task(task_id) for task_id in self._tasks.splits.ids(split)}
        return {task_id: task.name or task_id for task_id, task in tasks.items()}

    async def check_tasks(self, split: str, task_ids: Iterable[str]) -> None:
        """Raises ConfigError naming the tasks that would be refused when they are opened."""
        problems = [Problem(f"task {task_id}: {why}", file=self._tasks.lock.dataset) for task_id, why in self._refused(task_ids)]
        if problems:
            more = len(problems) - SHOWN_PROBLEMS
            raise ConfigError(problems[:SHOWN_PROBLEMS] + ([Problem(f"and {more} more")] if more > 0 else []))

    def _refused(self, task_ids: Iterable[str]) -> Iterator[tuple[str, str]]:
        for task_id in task_ids:
            try:
                task = self._tasks.glance(task_id)
            except TaskRefused as refusal:
                yield task_id, str(refusal)
                continue
            for why in refusals(task, self._tasks.row(task_id), self.options, self.provider):
                yield task_id, why

    async def get_task(self, task_id: str) -> Task:
        """Raises EnvSetupError or ConfigError for a task that is not served or cannot be read."""
        row = self._tasks.row(task_id)
        return Task(
            task_id, self._harbor_task(task_id).instruction, misc={"harbor": {"digest": row.digest, "index": dict(row.index)}}
        )

    def agent_timeout_s(self, task_id: str) -> float | None:
        """The task's own limit of an agent's time, None without one."""
        limit = self._harbor_task(task_id).agent.timeout_sec
        return None if limit is None else limit * self.options.agent_timeout_multiplier

    def rollout_overhead_s(self, task_id: str) -> float:
        """Seconds that a whole rollout may take beyond its agents' limit: start, health, tests, close, and a margin."""
        task = self._harbor_task(task_id)
        check = task.environment.healthcheck
        health = 0.0 if check is None else check.start_period_sec + (check.retries + 1) * (check.timeout_sec + check.interval_sec)
        tests = task.verifier.timeout_sec * self.options.verifier_timeout_multiplier
        return self.options.sandbox_start_budget_s + health + tests + grading.OVERHEAD_S + self.options.close_timeout_s

    async def open(self, task: Task, *, rollout_id: str, needs: SessionNeeds | None = None) -> HarborSession:
        """Starts the task's sandbox and prepares it. Raises EnvSetupError, with nothing left running."""
        harbor_task = self._harbor_task(task.id)
        # The files are read again by this rollout: what changed in the cache since the task was read must not reach it.
        await asyncio.to_thread(self._checked, task.id)
        row = self._tasks.row(task.id)
        for why in refusals(harbor_task, row, self.options, self.provider):
            raise EnvSetupError("env_config", f"task {task.id}: {why}")
        spec = build_spec(
            task.id,
            harbor_task,
            row,
            self.options,
            images=self._images,
            provider=self.provider,
            host=os.environ,
            rollout_id=rollout_id,
        )
        spec = apply_needs(spec, needs)
        started = await self._start(spec, None)
        try:
            await self._prepare(started.sandbox, harbor_task, row, spec)
            return self._session(task, harbor_task, rollout_id=rollout_id, needs=needs, spec=spec, started=started)
        except BaseException:
            await finish(_stop(started))
            raise

    async def restore(self, session: HarborSession, task: Task) -> HarborSession:
        """A session on a copy of another's files: the copy is made alone, as grading is. Raises EnvSetupError."""
        if "snapshot" not in self.provider.capabilities:
            raise EnvSetupError("env_config", f"sandboxes of {self.provider.name} cannot be copied")
        spec = replace(session.spec, labels={**session.spec.labels, "platoon.role": "copy"})
        try:
            async with session.lease.gate.hold(caller=session.view, kind="exclusive"):
                snapshot = await session.sandbox.snapshot()
                started = await self._start(spec, lambda wanted: self.provider.restore(snapshot, wanted))
        except (EnvBusy, GateClosed, OSError, RuntimeError) as error:
            raise EnvSetupError("env_setup", f"the sandbox could not be copied: {error}") from error
        return self._session(
            task, session.harbor_task, rollout_id=session.rollout_id, needs=session.needs, spec=spec, started=started
        )

    async def _start(self, spec: SandboxSpec, start: Any) -> StartedSandbox:
        try:
            return await start_guarded(self.provider, spec, budget_s=self.options.sandbox_start_budget_s, start=start)
        except TimeoutError as error:
            raise EnvSetupError("sandbox_start", f"{error} (sandbox_start_budget_s)") from error
        except ConfigError as error:
            raise EnvSetupError("env_config", str(error)) from error
        except (PlatoonError, OSError, RuntimeError) as error:
            raise EnvSetupError("sandbox_start", f"{type(error).__name__}: {error}") from error

    async def _prepare(self, sandbox: Sandbox, task: HarborTask, row: LockRow, spec: SandboxSpec) -> None:
        try:
            if not getattr(type(self.provider), "makes_directories", False):
                command = ["sh", "-c", _MAKE_DIRECTORIES, "sh", spec.workdir]
                result = await sandbox.exec(command, cwd="/", timeout_s=SETUP_TIMEOUT_S)
                if result.exit_code or result.timed_out:
                    raise EnvSetupError("env_setup", f"the working directory could not be made: {result.stderr[-300:]}")
            if row.uploads_environment:
                await sandbox.upload(task.directory / "environment", spec.workdir)
            if task.environment.healthcheck is not None:
                await _wait_healthy(sandbox, task.environment.healthcheck)
        except (OSError, RuntimeError) as error:
            raise EnvSetupError("env_setup", f"{type(error).__name__}: {error}") from error

    def _session(
        self,
        task: Task,
        harbor_task: HarborTask,
        *,
        rollout_id: str,
        needs: SessionNeeds | None,
        spec: SandboxSpec,
        started: StartedSandbox,
    ) -> HarborSession:
        options = self.options
        settings = SessionSettings(
            tool_timeout_s=options.tool_timeout_s,
            close_timeout_s=options.close_timeout_s,
            agent_timeout_s=self.agent_timeout_s(task.id) if task.id in self._tasks.lock.by_name else None,
            concurrent_tools=frozenset(options.concurrent_tools),
            grading=grading.GradingSettings(
                workdir=spec.workdir,
                timeout_s=harbor_task.verifier.timeout_sec * options.verifier_timeout_multiplier,
                contract=options.reward_contract,
                ignored_users=ignored_users(harbor_task, options),
            ),
        )
        lease = SandboxLease(started, ToolGate(options.queue_timeout_s), options.close_timeout_s)
        return HarborSession(task, harbor_task, rollout_id, needs, spec, self.provider, lease, settings, self)

    def _checked(self, task_id: str) -> None:
        try:
            self._tasks.checked(task_id)
        except PlatoonError as error:
            raise EnvSetupError("env_config", f"task {task_id}: {error}") from error

    def _harbor_task(self, task_id: str) -> HarborTask:
        try:
            return self._tasks.task(task_id)
        except TaskRefused as refusal:
            raise EnvSetupError("env_config", f"task {task_id}: {refusal}") from refusal


async def _wait_healthy(sandbox: Sandbox, check: Healthcheck) -> None:
    """Failures in the start period are free; then `retries` in a row fail the start."""
    loop = asyncio.get_running_loop()
    free_until = loop.time() + check.start_period_sec
    failures = 0
    while True:
        result = await sandbox.exec(check.command, timeout_s=check.timeout_sec)
        if result.exit_code == 0 and not result.timed_out:
            return
        starting = loop.time() < free_until
        failures = 0 if starting else failures + 1
        if not starting and failures >= check.retries:
            what = "timed out" if result.timed_out else f"exit {result.exit_code}: {result.stderr[-200:].strip()}"
            raise EnvSetupError("env_healthcheck", f"the health check failed {counted(failures, 'time')}, last: {what}")
        await asyncio.sleep(check.start_interval_sec if starting else check.interval_sec)


async def _stop(started: StartedSandbox) -> None:
    """Stops after a failure that is raised anyway; a sandbox that does not stop stays registered for the reaper."""
    try:
        await started.stop()
    except (OSError, RuntimeError) as error:
        logger.warning("sandbox %s did not stop: %s", started.sandbox.id, error)


def _read_images(path: Path, provider: str) -> Mapping[str, Mapping[str, Any]]:
    """The images of one provider in an image map, {} for a provider it does not name. Raises ConfigError."""
    value = read_json(path, "image map")
    providers = value.get("providers") if isinstance(value, dict) else None
    images = providers.get(provider, {}).get("images", {}) if isinstance(providers, dict) else None
    if not isinstance(images, dict) or not all(isinstance(entry, dict) and "image" in entry for entry in images.values()):
        raise ConfigError(Problem(f"is no image map: {json.dumps(value)[:80]}", file=str(path)))
    return images
