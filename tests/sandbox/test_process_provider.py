"""The process provider: the contract, and what is its own (layout, path map, owners, hostile links, routes)."""

from __future__ import annotations

import asyncio
import json
import os
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from platoon.errors import ConfigError, PlatoonError
from platoon.sandbox import get_provider, root_refusal, stack_refusal
from platoon.sandbox.base import ExecResult, Mount, SandboxSpec
from platoon.sandbox.process import ProcessProvider, killing
from tests.sandbox.contract import PROCESS, ProviderContract, running

pytestmark = pytest.mark.process


class TestProcess(ProviderContract):
    mode = PROCESS


@pytest.fixture
def provider(tmp_path: Path) -> ProcessProvider:
    return ProcessProvider(root=tmp_path / "sandboxes")


def play(provider: ProcessProvider, scenario, **spec):
    async def main():
        box = await provider.start(SandboxSpec("local", **spec))
        try:
            return await asyncio.wait_for(scenario(box), 60)
        finally:
            await box.stop()

    return asyncio.run(main())


def test_layout_and_record(provider: ProcessProvider):
    async def scenario(box):
        record = json.loads((box.directory / "sandbox.json").read_text())
        assert record["labels"] == {"a": "b"} and record["owner_pid"] == os.getpid()
        await box.exec("true")
        group, start = (box.directory / "process-groups").read_text().split()
        assert int(group) > 0 and int(start) > 0
        assert {entry.name for entry in box.directory.iterdir()} == {"fs", "sandbox.json", "process-groups"}
        assert box.directory.parent.stat().st_mode & 0o777 == 0o700

    play(provider, scenario, labels={"a": "b"})
    assert list((provider._root()).iterdir()) == []


def test_s503_a_root_that_is_a_link_is_refused_and_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    target = tmp_path / "target"
    target.mkdir(mode=0o700)
    (target / "process-0123456789ab").mkdir()
    monkeypatch.setenv("PLATOON_NODE_SCRATCH", str(tmp_path))
    (tmp_path / f"platoon-sandboxes-{os.getuid()}").symlink_to(target)
    with pytest.raises(PlatoonError, match="not a directory"):
        asyncio.run(ProcessProvider().start(SandboxSpec("local")))
    with pytest.raises(PlatoonError):
        asyncio.run(ProcessProvider().reap({"a": "b"}))
    assert [entry.name for entry in target.iterdir()] == ["process-0123456789ab"]


def test_s502_the_default_root_is_closed_to_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("PLATOON_NODE_SCRATCH", str(tmp_path))

    async def main():
        box = await ProcessProvider().start(SandboxSpec("local"))
        await box.stop()

    asyncio.run(main())
    assert (tmp_path / f"platoon-sandboxes-{os.getuid()}").stat().st_mode & 0o777 == 0o700


def test_a_workdir_of_slash_is_the_sandboxs_tmp(provider: ProcessProvider):
    async def scenario(box):
        assert (await box.exec("pwd")).stdout == "/tmp\n"
        assert (await box.exec("pwd", cwd="/")).stdout == "/tmp\n"

    play(provider, scenario, workdir="/")


def test_s519_to_s522_mounts_are_linked_before_the_workdir(provider: ProcessProvider, tmp_path: Path):
    source = tmp_path / "task"
    source.mkdir()
    (source / "file").write_text("x")

    async def at_the_mount(box):
        assert (await box.exec("ls; echo written > new")).stdout == "file\n"

    play(provider, at_the_mount, workdir="/work", mounts=[Mount(str(source), "/work")])
    assert (source / "new").read_text() == "written\n", "read-only is not enforced"

    async def inside(box):
        with pytest.raises(OSError):
            await box.exec("true")

    play(provider, inside, workdir="/work/sub", mounts=[Mount(str(source), "/work")])
    assert not (source / "sub").exists()

    async def writable(box):
        await box.exec("touch made")

    play(provider, writable, workdir="/work/sub", mounts=[Mount(str(source), "/work", read_only=False)])
    assert (source / "sub" / "made").exists()


def test_an_upload_does_not_follow_a_planted_link_out(provider: ProcessProvider, tmp_path: Path):
    outside, source = tmp_path / "outside", tmp_path / "source"
    outside.mkdir()
    source.mkdir()
    (source / "test.sh").write_text("x")
    victim = tmp_path / "victim"
    victim.write_text("keep")

    async def scenario(box):
        await box.exec(f"rmdir /tests; ln -s {outside} /tests; ln -s {victim} /app/test.sh; ln -s {outside} /app/deep")
        with pytest.raises(OSError):
            await box.upload(source, "/tests")
        with pytest.raises(OSError):
            await box.upload(source / "test.sh", "/app/deep/new/test.sh")
        await box.upload(source / "test.sh", "/app/test.sh")
        assert (box.paths.fs / "app/test.sh").read_text() == "x"

    play(provider, scenario)
    assert victim.read_text() == "keep" and not list(outside.iterdir())


def test_stop_and_reap_remove_links_and_not_their_targets(provider: ProcessProvider, tmp_path: Path):
    target = tmp_path / "precious"
    target.mkdir()
    (target / "file").write_text("x")

    async def scenario(box):
        await box.exec(f"ln -s {target} /app/link; rm -rf /logs; ln -s {target} /logs")

    play(provider, scenario)
    (provider._root() / "process-abcdefabcdef").symlink_to(target)
    asyncio.run(provider.reap({"a": "b"}))
    assert (target / "file").exists()


OWNER = """
import asyncio, sys
from platoon.sandbox.base import SandboxSpec
from platoon.sandbox.process import ProcessProvider

async def main():
    box = await ProcessProvider(root=sys.argv[1]).start(SandboxSpec("local", labels={"run": "dead"}))
    one = await box.exec("sleep 300 >/dev/null 2>&1 & echo $!")
    two = await box.exec("env -i sleep 300 >/dev/null 2>&1 & echo $!")
    task = asyncio.create_task(box.exec("echo $$ > /tmp/running; exec sleep 300"))
    while (await box.exec("cat /tmp/running")).stdout == "":
        await asyncio.sleep(0.02)
    print(one.stdout.strip(), two.stdout.strip(), (await box.exec("cat /tmp/running")).stdout.strip(), flush=True)
    await asyncio.sleep(300)

asyncio.run(main())
"""


def test_s535_a_reap_after_the_owner_was_killed(provider: ProcessProvider, tmp_path: Path):
    with subprocess.Popen([sys.executable, "-c", OWNER, str(tmp_path / "sandboxes")], stdout=subprocess.PIPE, text=True) as owner:
        assert owner.stdout is not None
        pids = [int(word) for word in owner.stdout.readline().split()]
        assert len(pids) == 3 and all(map(running, pids))
        assert asyncio.run(provider.reap({"run": "dead"})) == 0, "a living owner's sandbox is not reaped"
        owner.kill()
        owner.wait()
    assert all(map(running, pids))
    assert asyncio.run(provider.reap({"run": "dead"})) == 1
    assert not any(map(running, pids))
    assert list(provider._root().iterdir()) == []


def test_s536_a_reap_warns_of_what_still_runs(provider: ProcessProvider, caplog, monkeypatch: pytest.MonkeyPatch):
    async def scenario(box):
        monkeypatch.setattr(killing.Killer, "look", lambda self: [killing.ProcessRow(4242, 1, 4242, 1)])
        monkeypatch.setattr("platoon.sandbox.process.provider.REAP_WAIT_S", 0.1)
        assert await provider.reap({"run": "x"}) == 1
        monkeypatch.undo()
        assert box.directory.exists()

    play(provider, scenario, labels={"run": "x"})
    assert "4242" in caplog.text


def test_records_of_another_boot_kill_nothing(provider: ProcessProvider):
    async def scenario(box):
        innocent = await asyncio.create_subprocess_exec("sleep", "300", start_new_session=True)
        try:
            record = json.loads((box.directory / "sandbox.json").read_text())
            (box.directory / "sandbox.json").write_text(json.dumps({**record, "boot_id": "another"}))
            from platoon.host.processes import start_ticks

            (box.directory / "process-groups").write_text(f"{innocent.pid} {start_ticks(innocent.pid)}\n1 1\n garbage\n")
            assert await provider.reap({"run": "x"}) == 1
            assert running(innocent.pid)
        finally:
            innocent.kill()
            await innocent.wait()

    play(provider, scenario, labels={"run": "x"})


def test_a_recorded_group_whose_number_was_given_again_is_left_alone(provider: ProcessProvider):
    async def scenario(box):
        innocent = await asyncio.create_subprocess_exec("sleep", "300", start_new_session=True)
        try:
            box._groups[innocent.pid] = 17
            await box.kill_processes()
            assert running(innocent.pid)
        finally:
            innocent.kill()
            await innocent.wait()

    play(provider, scenario)


def test_an_upstream_socket_is_reached_through_its_route(provider: ProcessProvider, tmp_path: Path):
    path = tmp_path / ("d" * 60) / ("e" * 60) / "gateway.sock"
    path.parent.mkdir(parents=True)

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        data = await reader.read(100)
        writer.write(b"got " + data)
        await writer.drain()
        writer.close()

    async def main():
        # Bound by its name from a file descriptor's directory, since the path is longer than a socket address holds.
        descriptor = os.open(path.parent, os.O_PATH)
        listener = socket.socket(socket.AF_UNIX)
        listener.bind(f"/proc/self/fd/{descriptor}/gateway.sock")
        os.close(descriptor)
        server = await asyncio.start_unix_server(answer, sock=listener)
        upstreams = {"gateway": f"unix://{path}", "other": "http://127.0.0.1:9"}
        box = await provider.start(SandboxSpec("local", upstreams=upstreams))
        try:
            routes = await box.ensure_routes()
            assert routes == box.routes and routes["other"] == "http://127.0.0.1:9"
            port = routes["gateway"].rpartition(":")[2]
            ask = f"exec 3<>/dev/tcp/127.0.0.1/{port}; printf hello >&3; cat <&3"
            assert (await box.exec(ask, timeout_s=20)).stdout == "got hello"
            await box.kill_processes()
            assert (await box.exec(ask, timeout_s=20)).stdout == "got hello"
        finally:
            await box.stop()
            server.close()
        with pytest.raises(OSError):
            await asyncio.open_connection("127.0.0.1", int(port))

    asyncio.run(main())


@pytest.mark.parametrize(
    "spec",
    [
        SandboxSpec("docker://busybox"),
        SandboxSpec("local", file_owners="/x"),
        SandboxSpec("local", upstreams={"bad name": "unix:///x/y"}),
        SandboxSpec("local", upstreams={"a": "unix://relative"}),
        SandboxSpec("local", upstreams={"a": "ftp://x"}),
        SandboxSpec("local", mounts=[Mount("/no/such/source", "/data")]),
    ],
)
def test_what_cannot_be_served_is_refused_and_leaves_nothing(provider: ProcessProvider, spec: SandboxSpec):
    with pytest.raises(ConfigError):
        asyncio.run(provider.start(spec))
    assert list(provider._root().iterdir()) == []


def test_nothing_an_agent_may_read_holds_the_hosts_directory(provider: ProcessProvider):
    """The same rollout reads the same text again: no random name, no path of this machine."""

    async def scenario(box):
        commands = ["env", "cat /app/none", "cd /app/none", "/app/none", "pwd -P", "echo $HOME $TMPDIR", "readlink /proc/self/cwd"]
        for command in commands:
            result = await box.exec(command)
            assert box.id not in result.stdout + result.stderr, command
        assert (await box.exec(["/app/none"])).stderr == "/app/none: No such file or directory\n"
        await box.exec("rm -rf /app", cwd="/tmp")
        with pytest.raises(FileNotFoundError) as caught:
            await box.exec("true")
        assert box.id not in str(caught.value) and caught.value.filename == "/app"

    play(provider, scenario)


def test_a_directory_whose_maker_died_before_its_record_is_swept(provider: ProcessProvider, tmp_path: Path):
    root = provider._root()
    for name, age_s in (("process-000000000000", 1000), ("process-111111111111", 0)):
        (root / name / "fs").mkdir(parents=True)
        os.utime(root / name, (time.time() - age_s,) * 2)
    assert asyncio.run(provider.reap({"a": "b"})) == 0
    assert [entry.name for entry in root.iterdir()] == ["process-111111111111"]


def test_a_half_made_directory_is_judged_by_its_maker(provider: ProcessProvider):
    """A kill between a directory and its record, or between the two removals, leaves a name only: it tells who made it."""
    dead = subprocess.Popen(["true"])
    dead.wait()
    root = provider._root()
    names = {pid: root / f"process-{pid:06x}{'0' * 6}" for pid in (dead.pid, os.getpid())}
    for directory in names.values():
        directory.mkdir()
        os.utime(directory, (time.time() - 5, time.time() - 5))
    assert asyncio.run(provider.reap({"a": "b"})) == 0
    assert not names[dead.pid].exists() and names[os.getpid()].exists()


@pytest.mark.parametrize(
    "line",
    ["kill -9 $PPID", "kill $PPID", "kill -9 0", "kill -9 $$", "sh -c 'kill -9 $PPID; kill -9 $PPID'", "kill -9 $PPID; sleep 300"],
)
def test_a_command_that_kills_what_is_around_it_ends_alone(provider: ProcessProvider, line: str):
    """In a session of its own, below a parent of its own: whoever started it lives, and so does what an earlier command left."""

    async def scenario(box):
        other = (await box.exec("sleep 300 >/dev/null 2>&1 & echo $!")).stdout.strip()
        result = await box.exec(f"(sleep 299 & sleep 298) & {line}", timeout_s=30)
        assert result.exit_code in (128 + 9, 128 + 15, 0) and not result.timed_out
        if "PPID" in line and not line.startswith("sh"):
            assert result.exit_code > 128
            left = killing.marked(f"{killing.MARKER}={box.paths.fs}")
            assert [row.pid for row in left] == [int(other)], "what the command started is ended with it"
        assert running(int(other))
        assert (await box.exec("echo still here")).stdout == "still here\n"

    play(provider, scenario)


def test_the_parent_of_a_command_changes_nothing_that_it_sees(provider: ProcessProvider):
    async def scenario(box):
        assert (await box.exec(["echo", "-n", "a"])).stdout == "a", "the program, not the builtin of a shell"
        assert (await box.exec(["cd", "/"])).exit_code == 127
        assert (await box.exec("no-such-thing-here")).stderr == "bash: line 1: no-such-thing-here: command not found\n"
        assert (await box.exec("kill -11 $$")) == ExecResult(128 + 11, "", "")
        assert (await box.exec("ls /proc/self/fd | wc -l")).stdout == "4\n", "three, and the one that lists them"
        lines = (await box.exec(["env"], env={"A.B": "x y", "C": "1"})).stdout.splitlines()
        assert {"A.B=x y", "C=1"} <= set(lines)
        assert (await box.exec("touch plain; ./plain")).exit_code == 126
        assert (await box.exec(["./plain"])).exit_code == 126
        assert (await box.exec(["/app"])).exit_code == 126
        await box.exec("mkdir bin; printf '#!/bin/sh\\necho found $0' > bin/own; chmod +x bin/own")
        assert (await box.exec(["own"], env={"PATH": "bin:/usr/bin:/bin"})).stdout == "found bin/own\n"
        assert (await box.exec("cat", stdin=b"in")).stdout == "in"

    play(provider, scenario)


def test_names_that_are_no_provider():
    with pytest.raises(ConfigError, match="no sandbox provider is called 'docker'; there is: process"):
        get_provider("docker")
    with pytest.raises(ConfigError, match="process"):
        get_provider("process", no_such_option=1)
    assert stack_refusal("process") and root_refusal(ProcessProvider())
    assert stack_refusal("no.such:Thing") is None


def test_a_process_that_is_just_executing_another_program_is_found(provider: ProcessProvider):
    """While a program is replaced its environment reads as empty: that is no reason to spare it."""

    async def scenario(box):
        await box.exec("printf 'sh -c :\\nexec sh \"$0\"\\n' > loop.sh; sed -i '1d' loop.sh")
        for _ in range(25):
            await box.exec("setsid sh loop.sh >/dev/null 2>&1 &")
            await box.kill_processes()
            left = killing.marked(f"{killing.MARKER}={box.paths.fs}")
            assert left == []

    play(provider, scenario)
