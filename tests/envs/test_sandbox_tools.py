"""The generic tools over a process sandbox, and what they refuse."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from platoon.core.tools import ToolResult
from platoon.envs.sandbox_tools import OUTPUT_LIMIT_CHARACTERS, TOOL_NAMES, TOOLS, call_sandbox_tool, cut
from platoon.sandbox.base import SandboxSpec
from platoon.sandbox.process import ProcessProvider

pytestmark = pytest.mark.process


@pytest.fixture
def play(tmp_path: Path):
    """Runs a scenario with a `call(name, **arguments)` over a fresh sandbox; returns what it returns."""

    def run(scenario, timeout_s: float = 30):
        async def main():
            box = await ProcessProvider(root=tmp_path / "sandboxes").start(SandboxSpec("local"))

            async def call(name: str, **arguments) -> ToolResult:
                return await call_sandbox_tool(box, name, arguments, timeout_s=timeout_s)

            try:
                return await asyncio.wait_for(scenario(call), 60)
            finally:
                await box.stop()

        return asyncio.run(main())

    return run


def test_specs():
    assert {"bash", "view", "write", "edit"} == TOOL_NAMES
    assert not any(tool.terminal or tool.read_only for tool in TOOLS)


def test_bash(play):
    async def scenario(call):
        result = await call("bash", command="echo out; echo err >&2; exit 3")
        assert result.as_text() == "out\n[stderr]\nerr\n[exit code 3]" and not result.is_error
        assert (await call("bash", command="true")).as_text() == ""
        assert (await call("bash", command="pwd")).as_text() == "/app"
        long = (await call("bash", command="head -c 100000 /dev/zero | tr '\\0' a; echo end")).as_text()
        assert len(long) < OUTPUT_LIMIT_CHARACTERS + 100 and long.endswith("end") and "left out" in long
        gone = await call("bash", command="cd /; rm -rf /app")
        assert not gone.is_error
        assert (await call("bash", command="true")).is_error

    play(scenario)


def test_bash_timeout(play):
    async def scenario(call):
        result = await call("bash", command="echo begun; sleep 300")
        assert result.as_text() == "begun\n[timed out after 0.3 s]" and result.is_error

    play(scenario, timeout_s=0.3)


def test_write_keeps_the_mode_and_makes_parents(play):
    async def scenario(call):
        assert not (await call("write", path="a/b/run.sh", content="echo one\n")).is_error
        await call("bash", command="chmod 750 a/b/run.sh")
        await call("write", path="/app/a/b/run.sh", content="echo 'two $HOME' \u00e9\n")
        assert (await call("bash", command="stat -c %a a/b/run.sh; sh a/b/run.sh")).as_text() == "750\ntwo $HOME \u00e9"
        assert (await call("write", path="a", content="x")).is_error
        assert not (await call("write", path="-n", content="x")).is_error

    play(scenario)


def test_view(play):
    async def scenario(call):
        await call("write", path="f", content="one\ntwo\nthree\n")
        assert (await call("view", path="f")).as_text() == "     1\tone\n     2\ttwo\n     3\tthree"
        assert (await call("view", path="/app/f", view_range=[2, -1])).as_text() == "     2\ttwo\n     3\tthree"
        assert (await call("view", path="f", view_range=[2, 99])).as_text() == "     2\ttwo\n     3\tthree"
        for wrong in ([0, 1], [3, 2], [1], "x", [True, 2], [9, 12]):
            assert (await call("view", path="f", view_range=wrong)).is_error, wrong
        await call("bash", command="mkdir -p d/e/deeper .hidden; touch d/e/deeper/x d/y .hidden/z")
        assert (await call("view", path=".")).as_text().split() == ["d", "d/e", "d/y", "f"]
        assert (await call("view", path="none")).is_error
        await call("write", path="empty", content="")
        assert (await call("view", path="empty")).as_text() == ""

    play(scenario)


def test_edit(play):
    async def scenario(call):
        await call("write", path="f", content="".join(f"line {n}\n" for n in range(1, 21)))
        result = (await call("edit", path="f", old_str="line 10\n", new_str="new\nlines\n")).as_text()
        assert result.splitlines()[1:] == [
            f"{n:6d}\t{text}"
            for n, text in enumerate(
                ["line 6", "line 7", "line 8", "line 9", "new", "lines", "line 11", "line 12", "line 13", "line 14"], 6
            )
        ]
        for old in ("nothing", "line", ""):
            assert (await call("edit", path="f", old_str=old, new_str="x")).is_error
        await call("bash", command="printf 'a\\377' > binary; mkfifo fifo; truncate -s 9M big; ln -s f link")
        for path in ("binary", "fifo", "big", ".", "none", "/dev/zero"):
            assert (await call("edit", path=path, old_str="a", new_str="b")).is_error, path
        assert not (await call("edit", path="link", old_str="new", new_str="newer")).is_error
        assert (await call("bash", command="grep -c newer f")).as_text() == "1"

    play(scenario)


def test_edit_of_a_file_larger_than_one_read(play):
    async def scenario(call):
        await call("bash", command="(yes abcdefg | head -c 5000000; echo needle; yes z | head -c 100) > large")
        assert not (await call("edit", path="large", old_str="needle", new_str="found")).is_error
        assert (await call("bash", command="grep -c found large; wc -c < large")).as_text().split() == ["1", "5000106"]

    play(scenario)


def test_arguments_that_are_none(play):
    async def scenario(call):
        assert (await call("bash")).is_error
        assert (await call("bash", command=3)).is_error
        assert (await call("bash", command="a\0b")).is_error
        assert (await call("write", path="x", content=None)).is_error
        assert (await call("unheard-of")).is_error

    play(scenario)


def test_cut_keeps_both_ends():
    assert cut("abc", 3) == "abc"
    assert cut("a" * 10 + "b" * 10, 6) == "aaa\n[14 characters left out]\nbbb"


def test_files_are_shown_and_edited_with_the_sandboxs_paths(play):
    """The host's directory of the sandbox, which a command wrote into the file, holds letters of its own."""

    async def scenario(call):
        await call("bash", command="printf 'cd /app\\nls /app/a /tmp\\n' > script.sh")
        assert (await call("view", path="script.sh")).as_text() == "     1\tcd /app\n     2\tls /app/a /tmp"
        for old, new in (("cd", "ls"), ("s", "cat"), ("t", "T"), ("/app/a", "/app/b")):
            before = (await call("bash", command="cat script.sh")).as_text()
            edited = await call("edit", path="script.sh", old_str=old, new_str=new)
            count = before.count(old)
            assert edited.is_error == (count != 1), (old, edited.as_text())
            after = (await call("bash", command="cat script.sh")).as_text()
            assert after == (before.replace(old, new) if count == 1 else before)

    play(scenario)
