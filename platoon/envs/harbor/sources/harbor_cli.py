"""The Harbor CLI, the only way to the Harbor Hub: run at a pin with `uvx`, or as `PLATOON_HARBOR_CLI` says, and never imported.

Only its JSON is read. Whatever login it has is its own: nothing of it is asked for, recorded or shown.
"""

from __future__ import annotations

import asyncio
import os
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from platoon.artifacts.reading import parse_json
from platoon.config.credentials import hide_credentials
from platoon.config.text import printable
from platoon.envs.harbor.sources.protocol import FetchTools
from platoon.envs.harbor.sources.transport import told_wait
from platoon.errors import ConfigError, PlatoonError, Problem
from platoon.host.run_command import CommandResult, Whole, run_blocking, run_command

PIN = "harbor==0.24.0"
VARIABLE = "PLATOON_HARBOR_CLI"
COMMAND = ("uvx", "--from", PIN, "harbor")
SHOW_TIMEOUT_S = 900.0
DOWNLOAD_TIMEOUT_S = 3600.0
ATTEMPTS = 3
RETRY_S = 1.0
JSON_LIMIT_BYTES = 1 << 28
SHOWN_CHARACTERS = 400


class HarborCliError(PlatoonError):
    """The Harbor CLI failed, or said what it never says."""


@dataclass(frozen=True)
class HarborCli:
    """command: the words before its arguments."""

    command: tuple[str, ...]
    tools: FetchTools

    @classmethod
    def of(cls, tools: FetchTools) -> HarborCli:
        """Raises ConfigError for a variable that holds no command."""
        text = tools.environment.get(VARIABLE)
        if not text:
            return cls(COMMAND, tools)
        try:
            words = tuple(shlex.split(text))
        except ValueError as error:
            raise ConfigError(Problem(f"is no command: {error}", key=VARIABLE)) from None
        if not words:
            raise ConfigError(Problem("is no command", key=VARIABLE))
        return cls(words, tools)

    def show(self, package: str, *more: str) -> Mapping[str, Any]:
        """What the Hub says of `org/name@ref`. Raises HarborCliError, ConfigError where there is no CLI."""
        arguments = ["version", "show", package, "--json", *more]
        rule = f"what the Harbor CLI says of {package} has more than {JSON_LIMIT_BYTES} bytes"
        output = Whole(JSON_LIMIT_BYTES, HarborCliError(rule))
        try:
            result = run_blocking(
                [*self.command, *arguments],
                env=self._environment(),
                timeout_s=SHOW_TIMEOUT_S,
                take=output,
                tick=lambda: self.tools.progress(f"asking the Hub for {package}"),
            )
        except OSError as error:
            raise self._missing(error) from None
        self._check(replace(result, stdout=bytes(output.data)), f"the Hub has no {package}, or it is not open to you")
        value = _one_object(bytes(output.data), package)
        name = package.partition("@")[0]
        if value.get("package", name) != name:
            said = printable(str(value["package"]))[:80]
            raise HarborCliError(f"the Harbor CLI was asked for {package} and answers with {said}")
        return value

    async def download(self, package: str, directory: Path) -> None:
        """Puts the task `org/name@sha256:…` into `directory/<org>/<name>/<hex>`. Raises HarborCliError, ConfigError."""
        arguments = ["download", package, "-o", str(directory), "--cache"]
        for attempt in range(1, ATTEMPTS + 1):
            try:
                result = await run_command(
                    [*self.command, *arguments], env=self._environment(), timeout_s=DOWNLOAD_TIMEOUT_S, ends_with_parent=True
                )
            except OSError as error:
                raise self._missing(error) from None
            if result.exit_code == 0 or attempt == ATTEMPTS:
                break
            pause_s = RETRY_S * 2 ** (attempt - 1) * (0.5 + self.tools.jitter())
            self.tools.say(told_wait(package, _why(result), pause_s))
            await asyncio.sleep(pause_s)
        self._check(result, f"{package} could not be downloaded in {ATTEMPTS} tries")

    async def download_all(self, packages: Sequence[str], directory: Path) -> None:
        """Several downloads, `tools.workers` of them at a time. Raises as `download` does, after the others ended."""
        permits = asyncio.Semaphore(self.tools.workers)

        async def one(package: str) -> None:
            async with permits:
                await self.download(package, directory)

        async with asyncio.TaskGroup() as group:
            for package in packages:
                group.create_task(one(package))

    def _environment(self) -> dict[str, str]:
        return {**self.tools.environment, "NO_COLOR": "1", "TERM": "dumb", "COLUMNS": "200", "PYTHONIOENCODING": "utf-8"}

    def _missing(self, error: OSError) -> ConfigError:
        name = printable(self.command[0])
        rule = f"the Harbor CLI cannot be run: {name}: {os.strerror(error.errno) if error.errno else error}"
        return ConfigError(Problem(rule, advice=f"install uv, or set {VARIABLE} to the command of a Harbor CLI"))

    def _check(self, result: CommandResult, what: str) -> None:
        if result.exit_code == 0 and not result.timed_out:
            return
        raise HarborCliError(f"{what}: {_why(result)}")


def _why(result: CommandResult) -> str:
    """Why a command that failed did, as far as it said."""
    stderr = hide_credentials((result.stderr or result.stdout).decode("utf-8", "replace"))
    lines = [printable(line.strip()) for line in stderr.splitlines() if line.strip()]
    said = " / ".join(lines[-3:])[-SHOWN_CHARACTERS:] or result.ending
    return f"{'it took too long: ' if result.timed_out else ''}{said}"


def _one_object(data: bytes, package: str) -> Mapping[str, Any]:
    try:
        value = parse_json(data)
    except ValueError as error:
        raise HarborCliError(f"what the Harbor CLI says of {package} is no JSON: {str(error)[:200]}") from None
    if not isinstance(value, dict):
        raise HarborCliError(f"what the Harbor CLI says of {package} is no JSON object")
    return value
