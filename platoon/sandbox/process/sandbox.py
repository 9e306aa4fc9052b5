"""One process sandbox: commands are processes of this user that run below a directory of their own.

There is no isolation: a command can read and change whatever this user can. What holds is tidiness: time and output are bounded,
everything started is found and killed, paths of the sandbox are its own directory's, and stopping leaves nothing.
"""

from __future__ import annotations

import asyncio
import errno
import os
import secrets
import shutil
from collections.abc import Iterable, Mapping
from pathlib import Path

from platoon.host.processes import start_ticks, ticks_now
from platoon.host.run_command import OUTPUT_LIMIT_BYTES, CommandResult, run_command
from platoon.host.trees import copy_file, copy_tree
from platoon.host.waiting import finish
from platoon.sandbox.base import Command, ExecResult, SandboxSnapshot, SandboxSpec
from platoon.sandbox.process import killing, layout
from platoon.sandbox.process.path_map import HOME, PathMap
from platoon.sandbox.process.supervised import supervised
from platoon.sandbox.relay import LoopbackRelay

EXEC_MARKER = "PLATOON_EXEC"
HOST_VARIABLES = ("PATH", "USER", "LOGNAME", "LANG", "LANGUAGE", "LC_ALL", "LC_CTYPE", "TZ")
NOT_FOUND, NOT_EXECUTABLE, SIGNALLED = 127, 126, 128


class ProcessSandbox:
    """A started sandbox; built by `ProcessProvider`, which has laid out `directory`."""

    def __init__(self, directory: Path, spec: SandboxSpec, relays: Mapping[str, LoopbackRelay]) -> None:
        self.id = directory.name
        self.directory = directory
        self.spec = spec
        self.paths = PathMap(directory / "fs", (spec.workdir, *(mount.target for mount in spec.mounts)))
        self._relays = relays
        self._variable = f"{killing.MARKER}={self.paths.fs}"
        self._groups: dict[int, int] = {}
        self._kept: set[str] = set()
        self._commands = 0
        self._closed = False
        self._deleted = False
        self._stopping: asyncio.Task[None] | None = None
        self._environment = self._base_environment()

    @property
    def routes(self) -> dict[str, str]:
        """Upstream name -> URL usable by commands."""
        return {
            name: self._relays[name].url if name in self._relays else endpoint for name, endpoint in self.spec.upstreams.items()
        }

    async def ensure_routes(self) -> dict[str, str]:
        """The relays live in this process and cannot be killed from a sandbox: the same as `routes`."""
        return self.routes

    async def exec(
        self,
        cmd: Command,
        *,
        timeout_s: float | None = None,
        env: Mapping[str, str] | None = None,
        cwd: str | None = None,
        stdin: bytes | None = None,
    ) -> ExecResult:
        """As `base.Sandbox.exec`. Raises the host's OSError for a working directory that cannot be entered, which `/` never is."""
        self._check_running()
        argv = ["bash", "-c", cmd] if isinstance(cmd, str) else list(cmd)
        argv = [self.paths.command(argument) for argument in argv]
        directory = self.paths.host(cwd or ".", self.spec.workdir)
        if self.paths.is_root(cwd or ".", self.spec.workdir):
            # As `/` of a container, it is there whatever agents did: what grades them starts here.
            mounted = {mount.target for mount in self.spec.mounts}
            layout.make_own(self.directory, [path for path in ("/tmp", HOME) if path not in mounted], self.spec.labels)  # noqa: S108
        # A count, and no random text: a command may print its environment, and the same rollout prints the same again.
        self._commands += 1
        mark = f"{EXEC_MARKER}={self._commands}"
        environment = {**self._environment, **self._mapped(env or {}), EXEC_MARKER: str(self._commands)}
        environment[killing.MARKER] = str(self.paths.fs)
        started: list[int] = []
        before = ticks_now()

        def on_start(pid: int) -> None:
            started.append(pid)
            self._record(pid, before)

        result: CommandResult | None = None
        try:
            command = supervised(argv, environment, directory)
            result = await run_command(command, cwd=directory, env=environment, stdin=stdin, timeout_s=timeout_s, on_start=on_start)
        except OSError as error:
            return self._not_started(error, argv[0], directory)
        finally:
            if result is None or result.timed_out or result.exit_code < 0:
                await finish(self._kill_command(mark, started))
            for pid in started:
                if not killing.group_has_members(pid):
                    self._groups.pop(pid, None)
        code = result.exit_code if result.exit_code >= 0 else SIGNALLED - result.exit_code
        return ExecResult(code, *self._output(result), timed_out=result.timed_out)

    def as_seen(self, data: bytes) -> bytes:
        """Content of a file with the sandbox's paths as commands print them."""
        return self.paths.output(data)

    def edited(self, data: bytes, start: int, end: int, new: bytes) -> bytes:
        """Content of a file with `new` in place of what `as_seen` shows of it from `start` to `end`."""
        return self.paths.edited(data, start, end, new)

    async def upload(self, src: Path, dst: str) -> None:
        """As `base.Sandbox.upload`. Raises OSError when a link an agent left would lead the copy out of the sandbox."""
        self._check_running()
        await asyncio.to_thread(self._upload, Path(src), dst)

    async def download(self, src: str, dst: Path) -> None:
        """As `base.Sandbox.download`; symlinks are copied as links, and nothing is reported."""
        self._check_running()
        source = self.paths.host(src, self.spec.workdir)
        await asyncio.to_thread(self._download, source, src, dst)

    async def snapshot(self) -> SandboxSnapshot:
        self._check_running()
        name = secrets.token_hex(6)
        target = self.directory / "snapshots" / name
        await asyncio.to_thread(copy_tree, self.paths.fs, target, links=True)
        return SandboxSnapshot(name, "process", str(target), self.spec.image)

    async def keep_processes(self, entries: Iterable[str]) -> None:
        """Later kills spare the processes `pid:start` and what descends from them; one that is gone is no error."""
        self._kept.update(entries)

    async def kill_processes(self) -> None:
        self._check_running()
        await self._kill()

    async def stop(self) -> None:
        """Kills, closes routes and deletes the directory; idempotent, and runs to its end when the caller is cancelled."""
        if self._stopping is None or (self._stopping.done() and not self._deleted):
            self._stopping = asyncio.ensure_future(self._stop())
        await asyncio.shield(self._stopping)

    async def _stop(self) -> None:
        self._closed = True
        self._kept.clear()
        for relay in self._relays.values():
            await relay.close()
        await self._kill()
        await asyncio.to_thread(layout.remove_sandbox, self.directory, self.spec.labels)
        self._deleted = True

    async def _kill(self) -> None:
        left = await killing.Killer([self._variable], self._groups, self._kept).until_gone()
        if left:
            pids = ", ".join(str(row.pid) for row in left)
            raise RuntimeError(f"sandbox {self.id}: processes outlived SIGKILL: {pids}")
        table = killing.process_table() if self._groups else {}
        living = killing.living_groups(self._groups, table)
        self._groups = {group: start for group, start in self._groups.items() if group in living}

    async def _kill_command(self, mark: str, groups: list[int]) -> None:
        """Ends one command's whole tree, what left its group included."""
        own = {pid: self._groups[pid] for pid in groups if pid in self._groups}
        await killing.Killer([self._variable, mark], own, self._kept).until_gone()

    def _record(self, pid: int, before: int) -> None:
        """Notes a command's group. A leader that is gone already may have left members: they are younger than `before`."""
        self._groups[pid] = start_ticks(pid) or before
        layout.append_group(self.directory, pid, self._groups[pid])

    def _not_started(self, error: OSError, program: str, directory: Path) -> ExecResult:
        """A program that cannot start is the command's own failure, as in a container. Raises for a directory or a shortage.

        No text holds the host's path of the sandbox: it may reach an agent.
        """
        if error.filename == str(directory) or not directory.is_dir():
            shown = os.fsdecode(self.paths.output(os.fsencode(directory)))
            raise OSError(error.errno, os.strerror(error.errno or 0), shown) from error
        if error.errno not in (errno.ENOENT, errno.EACCES, errno.ENOEXEC, errno.ENOTDIR, errno.EPERM):
            raise error
        name = os.fsdecode(self.paths.output(os.fsencode(program)))
        code = NOT_FOUND if error.errno == errno.ENOENT else NOT_EXECUTABLE
        return ExecResult(code, "", f"{name}: {os.strerror(error.errno)}\n")

    def _check_running(self) -> None:
        if self._closed:
            raise RuntimeError(f"sandbox {self.id} is stopped")

    def _base_environment(self) -> dict[str, str]:
        host = {name: os.environ[name] for name in HOST_VARIABLES if name in os.environ}
        own = {"HOME": f"{self.paths.fs}{HOME}", "TMPDIR": str(self.paths.fs / "tmp")}
        return {**host, **own, **self._mapped(self.spec.env)}

    def _mapped(self, env: Mapping[str, str]) -> dict[str, str]:
        return {name: self.paths.command(value) for name, value in env.items()}

    def _output(self, result: CommandResult) -> tuple[str, str]:
        dropped = (result.stdout_dropped_bytes, result.dropped_bytes - result.stdout_dropped_bytes)
        texts = [self.paths.output(data).decode("utf-8", "replace") for data in (result.stdout, result.stderr)]
        for index, size in enumerate(dropped):
            if size:
                texts[index] += f"\n[{size} more bytes were left out: only the first {OUTPUT_LIMIT_BYTES} are kept]\n"
        return texts[0], texts[1]

    def _upload(self, src: Path, dst: str) -> None:
        target = self.paths.host(dst, self.spec.workdir)
        parent = target if src.is_dir() else target.parent
        self._check_inside(parent, dst)
        parent.mkdir(parents=True, exist_ok=True)
        if src.is_dir():
            copy_tree(src, target, links=False)
        else:
            copy_file(src, target)

    @staticmethod
    def _download(source: Path, named: str, dst: Path) -> None:
        if not os.path.lexists(source):
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), named)
        dst.parent.mkdir(parents=True, exist_ok=True)
        if source.is_dir():
            copy_tree(source, dst, links=True)
        else:
            copy_file(source, dst)

    def _check_inside(self, path: Path, named: str) -> None:
        """A mapped path must stay below `fs` or a mount's source once links are followed."""
        if not path.is_relative_to(self.paths.fs):
            return
        real = Path(os.path.realpath(path))
        allowed = [self.paths.fs, *(Path(os.path.realpath(mount.source)) for mount in self.spec.mounts)]
        if not any(real.is_relative_to(place) for place in allowed):
            raise OSError(errno.ELOOP, "a symlink leads out of the sandbox", named)


def enough_tools() -> str | None:
    """Why commands cannot run here, None when they can."""
    return None if shutil.which("bash") else "bash is not on PATH"
