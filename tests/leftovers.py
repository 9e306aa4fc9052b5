"""Finds what a test left behind: processes, listening sockets, mounts, scratch, registered sandboxes.

A plugin (`pytest_plugins = ["tests.leftovers"]`). All tests of a session get a scratch of their own. After every test that is no
unit test, and once at the end, it fails when something lives that did not before: children of this process, processes that carry
the session's scratch or a sandbox of it in their environment, listening sockets of this process, mounts, entries of the scratch,
sandboxes that this process has started and not stopped, sessions of the SDK with a training service.
"""

from __future__ import annotations

import asyncio
import os
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from platoon.envs.harbor import verified
from platoon.sandbox.labels import LIVE

SCRATCH_VARIABLE = "PLATOON_NODE_SCRATCH"
GRACE_S = 3.0
LISTENING = "0A"


@dataclass(frozen=True)
class Present:
    """What is there at one moment, each thing as a text that tells a person which."""

    processes: frozenset[str] = field(default_factory=frozenset)
    sockets: frozenset[str] = field(default_factory=frozenset)
    mounts: frozenset[str] = field(default_factory=frozenset)
    scratch: frozenset[str] = field(default_factory=frozenset)
    sandboxes: frozenset[str] = field(default_factory=frozenset)
    sessions: frozenset[str] = field(default_factory=frozenset)

    def beyond(self, before: Present) -> list[str]:
        kinds = ("processes", "sockets", "mounts", "scratch", "sandboxes", "sessions")
        return [f"{kind}: {item}" for kind in kinds for item in sorted(getattr(self, kind) - getattr(before, kind))]


def look(scratch: Path, base: Path) -> Present:
    """scratch: the session's node scratch. base: where the session's temporary directories are."""
    return Present(
        processes=frozenset(_processes(scratch, base)),
        sockets=frozenset(_sockets()),
        mounts=frozenset(_mounts(scratch, base)),
        scratch=frozenset(_entries(scratch)),
        sandboxes=frozenset(f"{type(sandbox).__name__} {sandbox.id}" for sandbox in LIVE.live()),
        sessions=frozenset(_sessions()),
    )


def expect_nothing_new(before: Present, scratch: Path, base: Path) -> None:
    """Fails when something new is still there after a grace for what is just ending."""
    deadline = time.monotonic() + GRACE_S
    while (left := look(scratch, base).beyond(before)) and time.monotonic() < deadline:
        time.sleep(0.05)
    if left:
        pytest.fail("left behind:\n  " + "\n  ".join(left[:20]), pytrace=False)


@pytest.fixture(scope="session")
def node_scratch_of_tests(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The scratch of this session, in the environment of every process it starts."""
    scratch = tmp_path_factory.mktemp("scratch")
    scratch.chmod(0o700)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(SCRATCH_VARIABLE, str(scratch))
        yield scratch


@pytest.fixture(scope="session", autouse=True)
def _nothing_left_by_the_session(node_scratch_of_tests: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    base = tmp_path_factory.getbasetemp()
    before = look(node_scratch_of_tests, base)
    yield
    expect_nothing_new(before, node_scratch_of_tests, base)


@pytest.fixture(autouse=True)
def _nothing_left_by_a_test(
    request: pytest.FixtureRequest, node_scratch_of_tests: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[None]:
    if request.node.get_closest_marker("unit"):
        yield
        return
    base = tmp_path_factory.getbasetemp()
    before = look(node_scratch_of_tests, base)
    yield
    expect_nothing_new(before, node_scratch_of_tests, base)


def _processes(scratch: Path, base: Path) -> Iterator[str]:
    """Live children of this process, and processes whose environment names the scratch or a sandbox below `base`."""
    me = str(os.getpid())
    wanted = (f"{SCRATCH_VARIABLE}={scratch}".encode(), f"PLATOON_SANDBOX_ROOT={base}/".encode())
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit() or entry.name == me:
            continue
        with suppress(OSError, ValueError, IndexError):
            fields = (entry / "stat").read_text().rpartition(")")[2].split()
            if fields[0] in ("Z", "X") or entry.stat().st_uid != os.getuid():
                continue
            environ = (entry / "environ").read_bytes()
            # This session's own parents got their environment before the scratch was made.
            if fields[1] == me or any(mark in environ for mark in wanted):
                command = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode("utf-8", "replace")
                yield f"{entry.name} {command[:120]}"


def _sockets() -> Iterator[str]:
    """Listening sockets that this process holds."""
    own = set()
    with suppress(OSError):
        for entry in Path("/proc/self/fd").iterdir():
            with suppress(OSError):
                own.add(str(entry.readlink()).removeprefix("socket:[").removesuffix("]"))
    for table in ("tcp", "tcp6"):
        with suppress(OSError):
            for line in Path(f"/proc/self/net/{table}").read_text().splitlines()[1:]:
                fields = line.split()
                if fields[3] == LISTENING and fields[9] in own:
                    yield f"{table} {fields[1]} inode {fields[9]}"
    with suppress(OSError):
        for line in Path("/proc/self/net/unix").read_text().splitlines()[1:]:
            fields = line.split()
            # Flag 0x10000: the socket listens.
            if int(fields[3], 16) & 0x10000 and fields[6] in own:
                yield f"unix {fields[7] if len(fields) > 7 else ''} inode {fields[6]}"


def _mounts(scratch: Path, base: Path) -> Iterator[str]:
    """Mount points below what is this session's: others on the machine have mounts of their own."""
    for line in Path("/proc/self/mountinfo").read_text().splitlines():
        point = Path(line.split()[4])
        if any(point.is_relative_to(own) for own in (scratch, base)):
            yield str(point)


def _sessions() -> Iterator[str]:
    """Sessions with a training service that the SDK keeps alive in this process, on a loop of its own."""
    module = sys.modules.get("tinker.lib.internal_client_holder")
    loop = module._internal_client_holder_thread_singleton.loop_if_started() if module is not None else None
    for task in asyncio.all_tasks(loop) if loop is not None else ():
        coroutine = task.get_coro()
        if getattr(coroutine, "__name__", "") == "_session_heartbeat":
            yield f"heartbeat {task.get_name()}"


def _entries(scratch: Path) -> Iterator[str]:
    """Entries of the scratch; a private root that is empty counts as nothing, and so does what a node is to remember."""
    for top in scratch.iterdir():
        if top.name == f"{verified.SCRATCH_NAME}-{os.getuid()}":
            continue
        if top.is_dir() and not top.is_symlink() and top.name.endswith(f"-{os.getuid()}"):
            yield from (f"{top.name}/{entry.name}" for entry in top.iterdir())
        else:
            yield top.name
