"""Makes `tasks/` and `chat.jsonl` of this folder, the same bytes on every machine: `python recipes/quickstart/make_data.py`.

Four families of small shell tasks in ten sets, one task of each family a set; a set is held out or trained on as a whole:

    put   "put 479 in a"   overwrite a file       add   "add 479 to a"   append a line
    copy  "copy a to b"    copy a file            job   "do b"           read a file, then do what it says

All numbers of the tasks are different, and none of them stands in a demonstration: a policy that does well on a held-out task has
learnt to copy, not to remember. The demonstrations are imperfect on purpose: some calls are broken JSON, and many do the wrong
thing, so that the warm start imitates both faults and reinforcement learning has something to correct.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

FOLDER = Path(__file__).resolve().parent
FAMILIES = ("put", "add", "copy", "job")
SETS = 10
LETTERS = "abcdefghijklmnopqrstuvwxyz"
CONVERSATIONS = 900
BROKEN_PERCENT = 25
WRONG_PERCENT = 40

TOOL = {
    "type": "function",
    "function": {
        "name": "bash",
        "parameters": {"type": "object", "properties": {"command": {"type": "string"}}, "required": ["command"]},
    },
}

TASK_TOML = """\
[metadata]
family = "{family}"
group = "{group}"

[environment]
docker_image = "python:3.12-slim-bookworm"

[agent]
timeout_sec = 300

[verifier]
timeout_sec = 60
"""

# Builtins alone: a verifier runs after every rollout, and each process it starts costs more than all it computes.
TEST_SH = """\
#!/bin/bash
# Reads what the commands left. parsed: anything differs from the start, so a call was read and run. state: the share of
# characters that are right in the file the task is about.
start={start} start_line={start_line} file={file} kept_line={kept_line} want={want}

LC_ALL=C
shopt -s nullglob

# REPLY: the first 64 characters of a regular file; empty for anything else.
content() {{
    REPLY=
    [[ -f $1 && ! -L $1 ]] && IFS= read -r -N 64 REPLY < "$1"
}}

entries=(*)
content "$start"
parsed=1
[[ ${{#entries[@]}} -eq 1 && $REPLY == "$start_line"$'\\n' ]] && parsed=0

content "$file"
left=$REPLY right=0
if [[ -n $kept_line ]]; then
    [[ $left == "$kept_line"$'\\n'* ]] && left=${{left#*$'\\n'}} || left=
fi
left=${{left%$'\\n'}}
if (( parsed && ${{#left}} == ${{#want}} )); then
    for (( i = 0; i < ${{#want}}; i++ )); do
        [[ ${{left:i:1}} == "${{want:i:1}}" ]] && (( right++ ))
    done
fi

state=$(( 1000 * right / ${{#want}} ))
reward=$(( 200 * parsed + 800 * state / 1000 ))
printf '{{"reward": %d.%03d, "parsed": %d, "state": %d.%03d}}\\n' \\
    $(( reward / 1000 )) $(( reward % 1000 )) "$parsed" $(( state / 1000 )) $(( state % 1000 )) \\
    > "${{PLATOON_SANDBOX_ROOT:-}}/logs/verifier/reward.json"
"""

SOLVE_SH = """\
#!/bin/bash
set -e
{commands}
"""


class Draws:
    """Numbers from SHA-256 of a name and a counter: the library's generators may differ between versions."""

    def __init__(self, name: str) -> None:
        self._name, self._count = name, 0

    def below(self, bound: int) -> int:
        digest = hashlib.sha256(f"{self._name}:{self._count}".encode()).digest()
        self._count += 1
        return int.from_bytes(digest[:8], "big") % bound

    def number(self, used: set[str]) -> str:
        """Three digits that are not in `used`, which it adds them to."""
        while (number := str(100 + self.below(900))) in used:
            pass
        used.add(number)
        return number

    def letters(self) -> tuple[str, str]:
        """Two different file names."""
        first = self.below(26)
        return LETTERS[first], LETTERS[(first + 1 + self.below(25)) % 26]


@dataclass(frozen=True)
class Task:
    """One file at the start, one file that is asked for. kept_line: what its first line must still be, or nothing."""

    family: str
    instruction: str
    start: str
    start_line: str
    file: str
    kept_line: str
    want: str
    commands: tuple[str, ...]


def make_task(family: str, draws: Draws, used: set[str]) -> Task:
    number = draws.number(used)
    first, second = draws.letters()
    match family:
        case "put":
            old = _unlike(number, draws, used)
            return Task(family, f"put {number} in {first}", first, old, first, "", number, (f"echo {number} > {first}",))
        case "add":
            old = _unlike(number, draws, used)
            return Task(family, f"add {number} to {first}", first, old, first, old, number, (f"echo {number} >> {first}",))
        case "copy":
            return Task(family, f"copy {first} to {second}", first, number, second, "", number, (f"cp {first} {second}",))
        case _:
            job = f"put {number} in {second}"
            commands = (f"cat {first}", f"echo {number} > {second}")
            return Task(family, f"do {first}", first, job, second, "", number, commands)


def _unlike(number: str, draws: Draws, used: set[str]) -> str:
    """A number with another digit in each place: a file left as it was must not look partly right."""
    while True:
        old = draws.number(set(used))
        if all(a != b for a, b in zip(number, old, strict=True)):
            used.add(old)
            return old


def all_tasks() -> tuple[dict[str, Task], set[str]]:
    """Task by directory name, and every number they hold."""
    used: set[str] = set()
    tasks = {}
    for group in range(SETS):
        for family in FAMILIES:
            tasks[f"{family}-{group}"] = make_task(family, Draws(f"task:{family}:{group}"), used)
    return tasks, used


def write_tasks(folder: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    for name, task in all_tasks()[0].items():
        group = f"set-{name.rpartition('-')[2]}"
        verifier = TEST_SH.format(
            start=task.start, start_line=_quoted(task.start_line), file=task.file, kept_line=task.kept_line, want=task.want
        )
        files = {
            "task.toml": TASK_TOML.format(family=task.family, group=group),
            "instruction.md": task.instruction + "\n",
            f"environment/{task.start}": task.start_line + "\n",
            "tests/test.sh": verifier,
            "solution/solve.sh": SOLVE_SH.format(commands="\n".join(task.commands)),
        }
        for path, text in files.items():
            target = folder / name / path
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(text.encode())


def _quoted(text: str) -> str:
    return f"'{text}'" if " " in text else text


def conversation(task: Task, draws: Draws) -> list[dict[str, object]]:
    """A demonstration of the task: right, wrong, or with a last call that is no JSON, at which an episode ends."""
    messages: list[dict[str, object]] = [{"role": "user", "content": task.instruction}]
    for number, right in enumerate(task.commands):
        last = number == len(task.commands) - 1
        command = _wrong(right, draws) if last and draws.below(100) < WRONG_PERCENT else right
        if last and draws.below(100) < BROKEN_PERCENT:
            call = json.dumps({"name": "bash", "arguments": {"command": command}})
            messages.append({"role": "assistant", "content": f"<tool_call>\n{call[:-1]}\n</tool_call>"})
            return messages
        function = {"name": "bash", "arguments": json.dumps({"command": command})}
        calls = [{"id": f"call_{number}", "type": "function", "function": function}]
        messages.append({"role": "assistant", "content": "", "tool_calls": calls})
        messages.append({"role": "tool", "tool_call_id": f"call_{number}", "content": "" if last else task.start_line})
    messages.append({"role": "assistant", "content": "done"})
    return messages


def _wrong(command: str, draws: Draws) -> str:
    """Another number for `echo`, another target for `cp`."""
    words = command.split(" ")
    if words[0] == "echo":
        words[1] = str(100 + draws.below(900))
    else:
        words[2] = LETTERS[draws.below(26)]
    return " ".join(words)


def chat_lines() -> Sequence[bytes]:
    """The chat file. A number of a task is in no line, neither asked for nor answered."""
    held = all_tasks()[1]
    lines = []
    for index in range(CONVERSATIONS):
        draws = Draws(f"chat:{index}")
        while True:
            messages = conversation(make_task(FAMILIES[index % len(FAMILIES)], draws, set(held)), draws)
            text = json.dumps({"messages": messages, "tools": [TOOL]}, separators=(",", ":"))
            if not any(number in text for number in held):
                break
        lines.append(text.encode() + b"\n")
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description="Makes the tasks and the chat file of the quickstart.")
    parser.add_argument("folder", nargs="?", type=Path, default=FOLDER, help="where to write them, this folder by default")
    folder: Path = parser.parse_args().folder
    write_tasks(folder / "tasks")
    (folder / "chat.jsonl").write_bytes(b"".join(chat_lines()))


if __name__ == "__main__":
    main()
