"""The tools every session with a sandbox offers: bash, view, write, edit.

Files are read through the sandbox's own shell, as its commands run, base64-encoded and within a bound; what is no regular file is
refused at once. Relative paths start at the working directory. Whatever goes wrong is an error result, never an exception.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from typing import Any, cast

from platoon.config.text import counted
from platoon.core.tools import ToolResult, ToolSpec
from platoon.sandbox.base import ExecResult, Sandbox

OUTPUT_LIMIT_CHARACTERS = 30_000
READ_LIMIT_BYTES = 8 << 20
CHUNK_BYTES = 4 << 20
CONTEXT_LINES = 4

_PATH = {"type": "string", "description": "Absolute, or relative to the working directory."}


def _schema(properties: Mapping[str, Any], required: list[str]) -> dict[str, Any]:
    return {"type": "object", "properties": dict(properties), "required": required, "additionalProperties": False}


TOOLS: tuple[ToolSpec, ...] = (
    ToolSpec("bash", "Run a command with bash.", _schema({"command": {"type": "string"}}, ["command"])),
    ToolSpec(
        "view",
        "Show a file with line numbers, or a directory two levels deep.",
        _schema(
            {
                "path": _PATH,
                "view_range": {
                    "type": "array",
                    "items": {"type": "integer"},
                    "minItems": 2,
                    "maxItems": 2,
                    "description": "First and last line, counted from 1; -1 is the end.",
                },
            },
            ["path"],
        ),
    ),
    ToolSpec(
        "write", "Write a file, replacing it whole.", _schema({"path": _PATH, "content": {"type": "string"}}, ["path", "content"])
    ),
    ToolSpec(
        "edit",
        "Replace the one occurrence of a text in a file.",
        _schema({"path": _PATH, "old_str": {"type": "string"}, "new_str": {"type": "string"}}, ["path", "old_str", "new_str"]),
    ),
)
TOOL_NAMES = frozenset(tool.name for tool in TOOLS)

_KIND = """
if [ -d "$1" ]; then echo directory
elif [ -f "$1" ]; then echo file $(wc -c < "$1")
elif [ -e "$1" ] || [ -L "$1" ]; then echo other
else echo missing; fi
"""
_CHUNK = 'tail -c +"$2" -- "$1" | head -c "$3" | base64'
_LIST = 'cd -- "$1" && find . -mindepth 1 -maxdepth 2 -not -path "*/.*" | head -n 2000 | LC_ALL=C sort'
_WRITE = 'case $1 in */*) mkdir -p -- "${1%/*}/" || exit 1;; esac; cat > "$1"'


class ToolFault(Exception):
    """A call that cannot be done; its text goes to the agent."""


async def call_sandbox_tool(sandbox: Sandbox, name: str, arguments: Mapping[str, Any], *, timeout_s: float) -> ToolResult:
    """One call, within `timeout_s` for each command it runs."""
    try:
        match name:
            case "bash":
                return await _bash(sandbox, _text(arguments, "command"), timeout_s)
            case "view":
                text = await _view(sandbox, _text(arguments, "path"), arguments.get("view_range"), timeout_s)
            case "write":
                text = await _write(sandbox, _text(arguments, "path"), _encoded(_text(arguments, "content")), timeout_s)
            case "edit":
                old, new = _text(arguments, "old_str"), _text(arguments, "new_str")
                text = await _edit(sandbox, _text(arguments, "path"), old, new, timeout_s)
            case _:
                raise ToolFault(f"there is no tool {name!r}")
    except ToolFault as fault:
        return ToolResult.text(str(fault), is_error=True)
    except (OSError, RuntimeError, ValueError) as error:
        return ToolResult.text(f"{name} failed: {error}", is_error=True)
    return ToolResult.text(cut(text))


def cut(text: str, limit: int = OUTPUT_LIMIT_CHARACTERS) -> str:
    """Text of at most about `limit` characters: its start and its end, with what is between counted."""
    if len(text) <= limit:
        return text
    half = limit // 2
    return f"{text[:half]}\n[{len(text) - 2 * half} characters left out]\n{text[-half:]}"


def render_result(result: ExecResult, timeout_s: float) -> str:
    """A command's result as an agent reads it."""
    parts = [result.stdout.rstrip("\n")] if result.stdout else []
    if result.stderr:
        parts.append(f"[stderr]\n{result.stderr.rstrip(chr(10))}")
    if result.timed_out:
        parts.append(f"[timed out after {timeout_s:g} s]")
    elif result.exit_code:
        parts.append(f"[exit code {result.exit_code}]")
    return "\n".join(parts)


async def _bash(sandbox: Sandbox, command: str, timeout_s: float) -> ToolResult:
    result = await sandbox.exec(command, timeout_s=timeout_s)
    return ToolResult.text(cut(render_result(result, timeout_s)), is_error=result.timed_out)


async def _view(sandbox: Sandbox, path: str, view_range: Any, timeout_s: float) -> str:
    kind, _ = await _kind(sandbox, path, timeout_s)
    if kind == "directory":
        listing = await _run(sandbox, ["sh", "-c", _LIST, "sh", path], timeout_s)
        return "\n".join(line.removeprefix("./") for line in listing.stdout.splitlines()) or "(empty)"
    lines = _lines(_as_seen(sandbox, await read_file(sandbox, path, timeout_s)).decode("utf-8", "replace"))
    first, last = _range(view_range, len(lines))
    return "\n".join(f"{number:6d}\t{line}" for number, line in enumerate(lines[first - 1 : last], first))


async def _write(sandbox: Sandbox, path: str, content: bytes, timeout_s: float) -> str:
    # A shell redirect keeps the mode of a file that is there.
    await _run(sandbox, ["sh", "-c", _WRITE, "sh", path], timeout_s, stdin=content)
    return f"wrote {path}"


async def _edit(sandbox: Sandbox, path: str, old: str, new: str, timeout_s: float) -> str:
    """Replaces text as the agent sees it: `old_str` may hold the sandbox's paths, and never matches a part of the host's."""
    if not old:
        raise ToolFault("old_str is empty")
    data = await read_file(sandbox, path, timeout_s)
    seen = _as_seen(sandbox, data)
    try:
        seen.decode("utf-8")
    except UnicodeDecodeError:
        raise ToolFault(f"{path} is not UTF-8 text") from None
    count = seen.count(_encoded(old))
    if count != 1:
        raise ToolFault(f"old_str occurs {count} times in {path}; it must occur exactly once")
    start = seen.index(_encoded(old))
    edited = _edited(sandbox, data, start, start + len(_encoded(old)), _encoded(new))
    await _write(sandbox, path, edited, timeout_s)
    first = seen.count(b"\n", 0, start) + 1
    last = first + new.removesuffix("\n").count("\n")
    lines = _lines(_as_seen(sandbox, edited).decode("utf-8", "replace"))
    shown = range(max(1, first - CONTEXT_LINES), min(len(lines), last + CONTEXT_LINES) + 1)
    return f"edited {path}\n" + "\n".join(f"{number:6d}\t{lines[number - 1]}" for number in shown)


def _encoded(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def _as_seen(sandbox: Sandbox, data: bytes) -> bytes:
    """What an agent is shown of a file: a provider that rewrites paths in commands knows how to write them back."""
    as_seen = getattr(sandbox, "as_seen", None)
    return data if as_seen is None else cast(bytes, as_seen(data))


def _edited(sandbox: Sandbox, data: bytes, start: int, end: int, new: bytes) -> bytes:
    """A file's content with `new` in place of what is seen of it from `start` to `end`."""
    edited = getattr(sandbox, "edited", None)
    return data[:start] + new + data[end:] if edited is None else cast(bytes, edited(data, start, end, new))


async def read_file(sandbox: Sandbox, path: str, timeout_s: float, limit_bytes: int = READ_LIMIT_BYTES) -> bytes:
    """The content of a regular file of the sandbox. Raises ToolFault for anything else or a larger one."""
    kind, size = await _kind(sandbox, path, timeout_s)
    if kind != "file":
        raise ToolFault(
            {"missing": f"{path} does not exist", "directory": f"{path} is a directory"}.get(kind, f"{path} is no file")
        )
    if size > limit_bytes:
        raise ToolFault(f"{path} has {size} bytes; at most {limit_bytes} can be read")
    data = bytearray()
    while len(data) < size:
        command = ["sh", "-c", _CHUNK, "sh", path, str(len(data) + 1), str(CHUNK_BYTES)]
        try:
            chunk = base64.b64decode((await _run(sandbox, command, timeout_s)).stdout)
        except binascii.Error:
            raise ToolFault(f"{path} could not be read") from None
        if not chunk:
            break
        data += chunk
    return bytes(data)


async def _kind(sandbox: Sandbox, path: str, timeout_s: float) -> tuple[str, int]:
    words = (await _run(sandbox, ["sh", "-c", _KIND, "sh", path], timeout_s)).stdout.split()
    if not words:
        raise ToolFault(f"{path} could not be looked at")
    return words[0], int(words[1]) if len(words) > 1 else 0


async def _run(sandbox: Sandbox, command: list[str], timeout_s: float, stdin: bytes | None = None) -> ExecResult:
    result = await sandbox.exec(command, timeout_s=timeout_s, stdin=stdin)
    if result.timed_out:
        raise ToolFault(f"timed out after {timeout_s:g} s")
    if result.exit_code:
        raise ToolFault(result.stderr.strip()[-500:] or f"exit code {result.exit_code}")
    return result


def _lines(text: str) -> list[str]:
    """Lines as editors count them: ended by a newline and nothing else."""
    return text.removesuffix("\n").split("\n") if text else []


def _text(arguments: Mapping[str, Any], name: str) -> str:
    value = arguments.get(name)
    if not isinstance(value, str):
        raise ToolFault(f"{name} must be a string")
    if name != "content" and "\0" in value:
        raise ToolFault(f"{name} holds a NUL character")
    return value


def _range(view_range: Any, count: int) -> tuple[int, int]:
    if view_range is None:
        return 1, count
    numbers = list(view_range) if isinstance(view_range, list | tuple) else []
    if len(numbers) != 2 or not all(isinstance(item, int) and not isinstance(item, bool) for item in numbers):
        raise ToolFault("view_range must be two whole numbers")
    first, last = numbers
    last = count if last == -1 else min(last, count)
    if first < 1 or last < first:
        raise ToolFault(f"view_range {numbers} is not within the file's {counted(count, 'line')}")
    return first, last
