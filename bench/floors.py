"""The program `floors` (native/floors): the least that a kernel could cost, as a peer. Built when first asked for."""

from __future__ import annotations

import functools
import json
import subprocess
from collections.abc import Callable
from pathlib import Path

from bench.case import Timed, command

ROOT = Path(__file__).resolve().parents[1]


def floor(*arguments: str) -> Callable[[], Timed]:
    """The floor of a name on its arguments: what it found, and the time it says it took."""
    run = command(program(), *arguments)

    def timed() -> Timed:
        found, times = run().splitlines()
        cpu_ms, wall_ms = times.split()
        return Timed(found, float(cpu_ms), float(wall_ms))

    return timed


@functools.cache
def program() -> str:
    command = ["cargo", "build", "--quiet", "--locked", "--release", "--package", "platoon-floors", "--message-format=json"]
    built = subprocess.run(command, check=True, cwd=ROOT, stdout=subprocess.PIPE, text=True).stdout
    messages = [json.loads(line) for line in built.splitlines() if line.startswith("{")]
    return next(str(message["executable"]) for message in messages if message.get("executable"))
