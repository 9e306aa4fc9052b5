"""What every sandbox provider must do, as tests; a provider is a `RunMode`, so the suite is written once.

A test module subclasses `ProviderContract`; a mode whose tools are absent is skipped with what it lacks.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from platoon.sandbox import get_provider, provider_unavailable
from platoon.sandbox.base import CAPABILITIES, CWD_ERROR_EXIT_CODE, Mount, Sandbox, SandboxSpec, cwd_error


@dataclass(frozen=True)
class RunMode:
    """cwd_error: `raises` (the host's OSError) or `result` (exit 126). own_proc: sandboxes share this host's process table."""

    provider: str
    image: str
    cwd_error: str
    output_limit_bytes: int
    shares_processes: bool
    options: Callable[[Path], dict[str, Any]] = field(default=lambda tmp_path: {})

    def build(self, tmp_path: Path) -> Any:
        options = self.options(tmp_path)
        if reason := provider_unavailable(self.provider, options):
            pytest.skip(f"{self.provider}: {reason}")
        return get_provider(self.provider, **options)


PROCESS = RunMode(
    provider="process",
    image="local",
    cwd_error="raises",
    output_limit_bytes=8 << 20,
    shares_processes=True,
    options=lambda tmp_path: {"root": str(tmp_path / "sandboxes")},
)

TELL = "until test -s /tmp/pid; do sleep 0.02; done; cat /tmp/pid"
LEFT_BEHIND = {
    "background": "sleep 300 & echo $!",
    "nohup": "nohup sleep 300 >/dev/null 2>&1 & echo $!",
    "own session": f"setsid sh -c 'echo $$ > /tmp/pid; sleep 300' >/dev/null 2>&1 & {TELL}",
    "double fork": f"(setsid sh -c 'sleep 300 & echo $! > /tmp/pid' >/dev/null 2>&1 &) ; {TELL}",
    "clean environment": "env -i sleep 300 >/dev/null 2>&1 & echo $!",
    "ignores signals": "sh -c 'trap \"\" TERM INT HUP; while :; do sleep 0.1; done' >/dev/null 2>&1 & echo $!",
    "stopped": "sh -c 'kill -STOP $$; sleep 300' >/dev/null 2>&1 & echo $!",
}


def running(pid: int) -> bool:
    """Alive on this host, and no zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


class ProviderContract:
    mode: RunMode

    @pytest.fixture(autouse=True)
    def _provider(self, tmp_path: Path) -> Iterator[None]:
        self.tmp_path = tmp_path
        self.provider = self.mode.build(tmp_path)
        yield

    def play(self, scenario: Callable[[Sandbox], Awaitable[Any]], **spec: Any) -> Any:
        async def main() -> Any:
            box = await self.provider.start(SandboxSpec(self.mode.image, **{"labels": {"test": "contract"}, **spec}))
            try:
                return await asyncio.wait_for(scenario(box), 60)
            finally:
                await box.stop()

        return asyncio.run(main())

    # Declarations

    def test_capabilities_are_known_names(self):
        assert self.provider.capabilities <= CAPABILITIES
        assert isinstance(type(self.provider).isolates, bool)

    # Execution

    def test_a_string_is_bash_and_a_list_is_an_argv(self):
        async def scenario(box: Sandbox):
            text = await box.exec("[[ a == a ]] && echo $((1+2)) | cat; exit 4")
            assert (text.exit_code, text.stdout, text.stderr) == (4, "3\n", "")
            words = await box.exec(["printf", "%s|", "a b", "$HOME", ""])
            assert words.stdout == "a b|$HOME||"

        self.play(scenario)

    def test_standard_input(self):
        async def scenario(box: Sandbox):
            assert (await box.exec("wc -c", stdin=b"x" * 300_000)).stdout.strip() == "300000"
            assert (await box.exec("cat")).stdout == ""

        self.play(scenario)

    def test_environment_of_spec_and_command(self):
        async def scenario(box: Sandbox):
            result = await box.exec("echo $A $B", env={"B": "command"})
            assert result.stdout == "spec command\n"

        self.play(scenario, env={"A": "spec", "B": "spec"})

    def test_secrets_of_the_host_are_not_inherited(self, monkeypatch: pytest.MonkeyPatch):
        monkeypatch.setenv("TINKER_API_KEY", "secret")

        async def scenario(box: Sandbox):
            assert "secret" not in (await box.exec("env")).stdout

        self.play(scenario)

    def test_a_missing_program_is_a_failing_command(self):
        async def scenario(box: Sandbox):
            assert (await box.exec(["no-such-program-here"])).exit_code == 127

        self.play(scenario)

    def test_working_directories(self):
        async def scenario(box: Sandbox):
            await box.exec("mkdir -p sub")
            assert (await box.exec("pwd")).stdout == "/work/dir\n"
            assert (await box.exec("pwd", cwd="sub")).stdout == "/work/dir/sub\n"
            assert (await box.exec("pwd", cwd="/logs")).stdout == "/logs\n"

        self.play(scenario, workdir="/work/dir")

    @pytest.mark.parametrize("kind", ["missing", "file"])
    def test_a_working_directory_that_cannot_be_entered(self, kind: str):
        async def scenario(box: Sandbox):
            await box.exec("rm -rf /app; " + ("echo x > /app" if kind == "file" else "true"), cwd="/tmp")
            if self.mode.cwd_error == "raises":
                with pytest.raises(OSError):
                    await box.exec("echo ran > /tmp/ran")
            else:
                result = await box.exec("echo ran > /tmp/ran")
                assert result.exit_code == CWD_ERROR_EXIT_CODE and cwd_error(result)
            assert (await box.exec("test -e /tmp/ran", cwd="/tmp")).exit_code == 1

        self.play(scenario)

    def test_output_beyond_the_bound_keeps_the_head_and_counts_the_rest(self):
        async def scenario(box: Sandbox):
            size = self.mode.output_limit_bytes + 1_000_000
            result = await box.exec(f"echo first; head -c {size} /dev/zero | tr '\\0' x; echo problem >&2")
            assert result.stdout.startswith("first\nxxx")
            assert len(result.stdout) < self.mode.output_limit_bytes + 1000
            assert "1000006 more bytes" in result.stdout[-200:]
            assert result.stderr == "problem\n"

        self.play(scenario)

    def test_output_that_is_no_text_is_decoded_leniently(self):
        async def scenario(box: Sandbox):
            assert (await box.exec("printf 'a\\377b'")).stdout == "a\ufffdb"

        self.play(scenario)

    def test_a_background_process_that_holds_the_pipe_does_not_delay(self):
        async def scenario(box: Sandbox):
            began = time.monotonic()
            result = await box.exec("sleep 300 & echo started")
            assert result.stdout == "started\n" and time.monotonic() - began < 30

        self.play(scenario)

    @pytest.mark.parametrize(
        "how", ["sleep 300", "sleep 300 & wait", "setsid sleep 300 & wait", "trap '' TERM; sleep 300; sleep 300"]
    )
    def test_a_timeout_ends_the_whole_tree(self, how: str):
        async def scenario(box: Sandbox):
            result = await box.exec(f"echo before; {how}", timeout_s=0.5)
            assert result.timed_out and result.stdout == "before\n"
            assert not self._marked(box)

        self.play(scenario)

    def test_a_cancellation_returns_once_the_command_is_gone(self):
        async def scenario(box: Sandbox):
            task = asyncio.create_task(
                box.exec("echo $$ > /tmp/pid; (sleep 300 &) ; while :; do date > /tmp/beat; sleep 0.02; done")
            )
            await box.exec("until test -s /tmp/beat; do sleep 0.02; done", timeout_s=20)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert (await box.exec("grep -q 'State:.[RSDT]' /proc/$(cat /tmp/pid)/status")).exit_code != 0
            assert not self._marked(box)

        self.play(scenario)

    # Kills

    @pytest.mark.parametrize("how", list(LEFT_BEHIND))
    def test_a_kill_ends_what_commands_left(self, how: str):
        async def scenario(box: Sandbox):
            pid = int((await box.exec(LEFT_BEHIND[how])).stdout.split()[-1])
            assert (await box.exec(f"kill -0 {pid}")).exit_code == 0
            await box.kill_processes()
            assert (await box.exec(f"grep -q 'State:.[RSDT]' /proc/{pid}/status")).exit_code != 0
            await box.kill_processes()

        self.play(scenario)

    def test_kept_processes_and_their_descendants_are_spared(self):
        async def scenario(box: Sandbox):
            await box.exec("sh -c 'sleep 300 & echo $! > /tmp/child; wait' >/dev/null 2>&1 & echo $! > /tmp/kept")
            await box.exec("sleep 300 >/dev/null 2>&1 & echo $! > /tmp/other")
            await box.exec("until test -s /tmp/child; do sleep 0.02; done")
            entry = await box.exec("p=$(cat /tmp/kept); echo $p:$(sed 's/.*) //' /proc/$p/stat | cut -d' ' -f20)")
            await box.keep_processes([entry.stdout.strip(), "4194304:1"])  # type: ignore[attr-defined]
            await box.kill_processes()
            alive = await box.exec(
                "for n in kept child other; do grep -q 'State:.[RSD]' /proc/$(cat /tmp/$n)/status && echo $n; done; true"
            )
            assert alive.stdout.split() == ["kept", "child"]

        self.play(scenario)

    # Files

    def test_upload_of_a_file_and_of_a_directorys_contents(self):
        source = self.tmp_path / "src"
        (source / "deep").mkdir(parents=True)
        (source / "run.sh").write_text("echo ran\n")
        (source / "run.sh").chmod(0o755)
        (source / "deep" / "data").write_bytes(b"\0\xff")

        async def scenario(box: Sandbox):
            await box.upload(source, "/tests")
            await box.upload(source / "run.sh", "/app/made/up/here.sh")
            assert (await box.exec("/tests/run.sh; stat -c %s /tests/deep/data; sh made/up/here.sh")).stdout == "ran\n2\nran\n"
            await box.upload(source, "/tests")

        self.play(scenario)

    def test_download_of_a_file_and_a_directory(self):
        async def scenario(box: Sandbox):
            await box.exec("mkdir -p out/in; printf hello > out/in/file; ln -s in/file out/link")
            await box.download("out/in/file", self.tmp_path / "file")
            await box.download("/app/out", self.tmp_path / "tree")
            assert (self.tmp_path / "file").read_text() == (self.tmp_path / "tree/in/file").read_text() == "hello"
            with pytest.raises(FileNotFoundError):
                await box.download("/app/none", self.tmp_path / "none")

        self.play(scenario)

    def test_download_does_not_wait_for_a_fifo(self):
        async def scenario(box: Sandbox):
            await box.exec("mkfifo pipe; mkdir d; mkfifo d/pipe; echo x > d/file")
            with pytest.raises(OSError):
                await asyncio.wait_for(box.download("pipe", self.tmp_path / "pipe"), 20)
            await asyncio.wait_for(box.download("d", self.tmp_path / "d"), 20)
            assert (self.tmp_path / "d" / "file").exists()

        self.play(scenario)

    def test_mounts(self):
        source = self.tmp_path / "data"
        source.mkdir()
        (source / "file").write_text("mounted")

        async def scenario(box: Sandbox):
            assert (await box.exec("cat /data/set/file; ls")).stdout.startswith("mounted")

        self.play(scenario, mounts=[Mount(str(source), "/data/set")])
        assert (source / "file").exists()

    # Snapshots

    def test_snapshot_and_restore_carry_files_and_no_processes(self):
        async def scenario(box: Sandbox):
            await box.exec("echo one > file; ln -s file link; sleep 300 >/dev/null 2>&1 &")
            snapshot = await box.snapshot()
            await box.exec("echo two > file")
            copy = await self.provider.restore(snapshot, SandboxSpec(self.mode.image, labels={"test": "copy"}))
            try:
                assert copy.id != box.id
                assert (await copy.exec("cat file; readlink link; echo three > file")).stdout == "one\nfile\n"
                await copy.kill_processes()
                assert (await box.exec("cat file")).stdout == "two\n"
            finally:
                await copy.stop()

        if "snapshot" not in self.provider.capabilities:
            pytest.skip(f"{self.mode.provider}: lacks snapshot")
        self.play(scenario)

    # Ends

    def test_stop_is_idempotent_and_ends_everything(self):
        async def scenario(box: Sandbox):
            pid = int((await box.exec("sleep 300 >/dev/null 2>&1 & echo $!")).stdout)
            await asyncio.gather(box.stop(), box.stop())
            await box.stop()
            assert not (self.mode.shares_processes and running(pid))
            with pytest.raises(RuntimeError):
                await box.exec("true")
            with pytest.raises(RuntimeError):
                await box.kill_processes()

        self.play(scenario)

    def test_a_cancelled_stop_still_ends_the_sandbox(self):
        async def scenario(box: Sandbox):
            task = asyncio.create_task(box.stop())
            await asyncio.sleep(0)
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task
            await box.stop()
            with pytest.raises(RuntimeError):
                await box.exec("true")

        self.play(scenario)

    def test_closed_directories_and_odd_files_do_not_stop_the_removal(self):
        async def scenario(box: Sandbox):
            await box.exec("mkdir -p a/b; echo x > a/b/c; chmod 000 a/b a; mkfifo p; ln -s /etc/passwd l; ln -s nowhere d")

        self.play(scenario)
        assert Path("/etc/passwd").exists()

    def test_a_tree_deeper_than_a_path_name_is_removed(self):
        async def scenario(box: Sandbox):
            result = await box.exec("p=$(printf 'ddd/%.0s' $(seq 800)); mkdir -p $p && cd -P $p && mkdir -p $p && touch $p/end")
            assert result.exit_code == 0

        self.play(scenario)

    def test_a_reap_needs_labels(self):
        with pytest.raises(ValueError):
            asyncio.run(self.provider.reap({}))

    def test_a_reap_takes_what_bears_all_labels_and_leaves_the_rest(self):
        async def main():
            spec = SandboxSpec(self.mode.image, labels={"run": "one", "more": "x"})
            ours, other = (
                await self.provider.start(spec),
                await self.provider.start(SandboxSpec(self.mode.image, labels={"run": "two"})),
            )
            try:
                assert await self.provider.reap({"run": "none"}) == 0
                assert await self.provider.reap({"run": "one", "more": "y"}) == 0
                assert await self.provider.reap({"run": "one"}) == 1
                assert await self.provider.reap({"run": "one"}) == 0
                assert (await other.exec("echo alive")).stdout == "alive\n"
            finally:
                await ours.stop()
                await other.stop()

        asyncio.run(main())

    def _marked(self, box: Sandbox) -> list[int]:
        """Processes on this host that still belong to `box`, where hosts share them."""
        if not self.mode.shares_processes:
            return []
        from platoon.sandbox.process import killing

        return [row.pid for row in killing.marked(f"{killing.MARKER}={box.paths.fs}") if row.pid != os.getpid()]  # type: ignore[attr-defined]
