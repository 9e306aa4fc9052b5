"""The program `floors` (native/floors): the least that a kernel could cost, as a peer. Built when first asked for."""

from __future__ import annotations

import functools
import json
import subprocess
from collections.abc import Callable
from pathlib import Path

from bench.case import command

ROOT = Path(__file__).resolve().parents[1]


def floor(*arguments: str) -> Callable[[], bytes]:
    """The floor of a name on its arguments; its output without the newline."""
    run = command(program(), *arguments)
    return lambda: run().strip()


@functools.cache
def program() -> str:
    command = ["cargo", "build", "--quiet", "--locked", "--release", "--package", "platoon-floors", "--message-format=json"]
    built = subprocess.run(command, check=True, cwd=ROOT, stdout=subprocess.PIPE, text=True).stdout
    messages = [json.loads(line) for line in built.splitlines() if line.startswith("{")]
    return next(str(message["executable"]) for message in messages if message.get("executable"))
