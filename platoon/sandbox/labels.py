"""Labels of a process's sandboxes, the register of what lives, and the one way a sandbox is started.

A `LiveSandboxes` belongs to a run; the functions below are the face of the current one. A sandbox is registered before anything
starts and unregistered once it is stopped, so what a failed start may have left stays registered and is reaped by label.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import secrets
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from platoon.errors import PlatoonError
from platoon.host.waiting import finish
from platoon.sandbox.base import Sandbox, SandboxesShutDown, SandboxProvider, SandboxSpec, SupportsReap

logger = logging.getLogger(__name__)

RUN_LABEL = "platoon.run"
WORKER_LABEL = "platoon.worker"
GIVEN_UP_START_S = 60.0

_SCOPED: ContextVar[Mapping[str, str] | None] = ContextVar("sandbox_labels", default=None)


@dataclass
class _Entry:
    provider: str
    options: Mapping[str, Any]
    labels: Mapping[str, str]
    sandbox: Sandbox | None = None

    def record(self) -> dict[str, Any]:
        return {"provider": self.provider, "options": dict(self.options), "labels": dict(self.labels)}


class LiveSandboxes:
    """What one process has started and not yet stopped."""

    def __init__(self) -> None:
        self.labels: dict[str, str] = {}
        self._entries: dict[str, _Entry] = {}
        self._mirror: Path | None = None
        self._mirrored: bytes = b""
        self._earlier: Sequence[Mapping[str, Any]] = ()
        self._shut = False

    def current_labels(self) -> dict[str, str]:
        """The process's labels with those of the enclosing `labelled` blocks."""
        return {**self.labels, **(_SCOPED.get() or {})}

    @contextmanager
    def labelled(self, labels: Mapping[str, str]) -> Iterator[None]:
        """Sandboxes started within bear these labels too."""
        token = _SCOPED.set({**(_SCOPED.get() or {}), **labels})
        try:
            yield
        finally:
            _SCOPED.reset(token)

    def register(self, provider: str, options: Mapping[str, Any], labels: Mapping[str, str]) -> str:
        """Notes that something may start; returns a token. Raises SandboxesShutDown after `shut_down`.

        What is reaped later is chosen by the process's labels where it has some, else by the sandbox's own.
        """
        if self._shut:
            raise SandboxesShutDown("sandboxes of this process are shut down")
        token = secrets.token_hex(8)
        self._entries[token] = _Entry(provider, options, self.current_labels() or labels)
        self._write_mirror()
        return token

    def attach(self, token: str, sandbox: Sandbox) -> None:
        """The start that `token` names gave `sandbox`."""
        self._entries[token].sandbox = sandbox

    def unregister(self, token: str) -> None:
        """Nothing of `token` is left."""
        if self._entries.pop(token, None) is not None:
            self._write_mirror()

    def live(self) -> list[Sandbox]:
        return [entry.sandbox for entry in self._entries.values() if entry.sandbox is not None]

    def records(self) -> list[dict[str, Any]]:
        """Distinct records of what is registered and can be found by labels."""
        return distinct(entry.record() for entry in self._entries.values() if entry.labels)

    def mirror_to(self, path: Path | None, earlier: Sequence[Mapping[str, Any]] = ()) -> None:
        """Keeps `path` (mode 0600) equal to `earlier` and `records()` from now on; None stops that.

        earlier: records of processes that died, whose sandboxes may still be there.
        """
        self._mirror, self._mirrored, self._earlier = path, b"", tuple(earlier)
        self._write_mirror()

    def shut_down(self) -> None:
        """Later starts raise; stops still work."""
        self._shut = True

    def forget(self) -> None:
        """For a forked child: what its parent started is the parent's to stop and to record."""
        self._entries.clear()
        self._mirror, self._mirrored = None, b""

    async def stop_live(self, timeout_s: float) -> int:
        """Stops everything attached, at once; returns how many stops ended well in time. Never raises for a sandbox."""
        sandboxes = {token: entry.sandbox for token, entry in self._entries.items() if entry.sandbox is not None}
        tasks = {token: asyncio.ensure_future(sandbox.stop()) for token, sandbox in sandboxes.items()}
        if not tasks:
            return 0
        await asyncio.wait(tasks.values(), timeout=timeout_s)
        stopped = 0
        for token, task in tasks.items():
            if not task.done():
                task.cancel()
                logger.warning("sandbox %s did not stop within %g s", sandboxes[token].id, timeout_s)
            elif task.exception() is not None:
                logger.warning("sandbox %s did not stop: %s", sandboxes[token].id, task.exception())
            else:
                self.unregister(token)
                stopped += 1
        return stopped

    def _write_mirror(self) -> None:
        if self._mirror is None:
            return
        data = json.dumps(distinct([*self._earlier, *self.records()])).encode()
        if data == self._mirrored:
            return
        beside = self._mirror.with_name(f".{self._mirror.name}.{secrets.token_hex(4)}")
        descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
        beside.replace(self._mirror)
        self._mirrored = data


def distinct(records: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Records without repetitions, in their order."""
    return list({json.dumps(record, sort_keys=True): dict(record) for record in records}.values())


LIVE = LiveSandboxes()
"""The current process's register: what follows are its faces."""

os.register_at_fork(after_in_child=LIVE.forget)


def set_labels(labels: Mapping[str, str]) -> None:
    """Replaces the labels that every sandbox started from here on bears."""
    LIVE.labels = dict(labels)


@contextmanager
def labelled(labels: Mapping[str, str]) -> Iterator[None]:
    """Sandboxes started within bear these labels too."""
    with LIVE.labelled(labels):
        yield


def run_labels(run_dir: Path) -> dict[str, str]:
    """The label of a run's sandboxes: its absolute directory."""
    return {RUN_LABEL: str(run_dir.resolve())}


@dataclass
class StartedSandbox:
    """A sandbox with its place in the register. `stop` ends both, and keeps the place when the sandbox does not end."""

    sandbox: Sandbox
    token: str
    live: LiveSandboxes

    async def stop(self) -> None:
        await self.sandbox.stop()
        self.live.unregister(self.token)


async def start_guarded(
    provider: SandboxProvider,
    spec: SandboxSpec,
    *,
    budget_s: float | None = None,
    start: Callable[[SandboxSpec], Awaitable[Sandbox]] | None = None,
    live: LiveSandboxes | None = None,
) -> StartedSandbox:
    """Registers, starts and attaches a sandbox, or leaves nothing behind.

    start: another way to start than `provider.start`, such as a restore. A start that is cancelled or takes longer than `budget_s`
    seconds is cancelled, waited for, and what it still gave is stopped; TimeoutError says that the budget was used up. A failed
    start cleaned up after itself, unless its exception has a true `may_remain`: then the registration stays for the reaper.
    """
    live = live or LIVE
    spec = replace(spec, labels={**spec.labels, **live.current_labels()})
    token = live.register(provider_reference(provider), provider.options, spec.labels)
    starting: asyncio.Future[Sandbox] = asyncio.ensure_future((start or provider.start)(spec))
    try:
        await asyncio.wait((starting,), timeout=budget_s)
        if not starting.done():
            raise TimeoutError(f"the sandbox did not start within {budget_s:g} s")
    except BaseException:
        starting.cancel()
        await finish(_undo(starting, token, live))
        raise
    try:
        sandbox = starting.result()
    except BaseException as error:
        if not getattr(error, "may_remain", False):
            live.unregister(token)
        raise
    live.attach(token, sandbox)
    return StartedSandbox(sandbox, token, live)


async def _undo(starting: asyncio.Future[Sandbox], token: str, live: LiveSandboxes) -> None:
    await asyncio.wait((starting,), timeout=GIVEN_UP_START_S)
    if not starting.done():
        logger.warning("a sandbox start that was given up still runs; its labels stay registered")
        return
    if not starting.cancelled() and starting.exception() is None:
        await starting.result().stop()
    live.unregister(token)


def provider_reference(provider: SandboxProvider) -> str:
    """`module:Class`, from which `get_provider` builds the same provider again."""
    return f"{type(provider).__module__}:{type(provider).__qualname__}"


@dataclass(frozen=True)
class Reaped:
    """One look at the sandboxes of a record. count: how many were found and ended. failure: why some may be left, else empty."""

    count: int
    failure: str = ""


async def reap_records(records: Sequence[Mapping[str, Any]], timeout_s: float) -> Reaped:
    """Rebuilds the providers of a mirror file's records and reaps by their labels. Never raises for a sandbox."""
    reaped = [await reap_record(record, timeout_s) for record in records]
    failures = dict.fromkeys(one.failure for one in reaped if one.failure)
    return Reaped(sum(one.count for one in reaped), "; ".join(failures))


async def reap_record(record: Mapping[str, Any], timeout_s: float) -> Reaped:
    """Reaps by the labels of one record. Never raises for a sandbox."""
    from platoon.sandbox.registry import get_provider

    try:
        provider = get_provider(str(record["provider"]), **dict(record["options"]))
        if not isinstance(provider, SupportsReap):
            return Reaped(0)
        return Reaped(await asyncio.wait_for(provider.reap(dict(record["labels"])), timeout_s))
    except PlatoonError as error:
        return Reaped(0, str(error))
    except TimeoutError:
        return Reaped(0, f"the sandboxes of {record.get('provider')} did not end within {timeout_s:g} s")
    except Exception as error:
        return Reaped(0, f"the sandboxes of {record.get('provider')} were not looked at: {type(error).__name__}: {error}")
