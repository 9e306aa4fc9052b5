"""Runs git on repositories that are anybody's: no prompt, no hook, no filter, no setting of this machine or of the repository's.

What a site must set for its servers (a proxy, a credential helper) stands in the file that `PLATOON_GIT_CONFIG` names. Messages of
git are shown without the secrets that a redirect or a rewritten address may hold.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from platoon.config.addresses import GIT_SCHEMES
from platoon.config.credentials import hide_credentials
from platoon.config.text import printable
from platoon.errors import ConfigError, PlatoonError, Problem
from platoon.host.run_command import Whole, run_blocking, signal_told

CONFIG_VARIABLE = "PLATOON_GIT_CONFIG"
TIMEOUT_S = 3600.0
OUTPUT_LIMIT_BYTES = 64 << 20
SHOWN_CHARACTERS = 400

# Of git's own variables only those that say how to reach a server are kept.
_KEPT = ("GIT_SSH", "GIT_SSH_COMMAND", "GIT_SSL_CAINFO", "GIT_SSL_CAPATH", "GIT_PROXY_COMMAND")
_SETTINGS = {
    "core.hooksPath": "/dev/null",
    "core.autocrlf": "false",
    "core.eol": "lf",
    "core.symlinks": "true",
    "core.fsmonitor": "false",
    "core.attributesFile": "/dev/null",
    "core.quotePath": "true",
    "core.fileMode": "true",
    "core.precomposeUnicode": "false",
    "advice.detachedHead": "false",
    "gc.auto": "0",
    "maintenance.auto": "false",
    "http.lowSpeedLimit": "1000",
    "http.lowSpeedTime": "120",
    "protocol.ext.allow": "never",
    "submodule.recurse": "false",
    "fetch.recurseSubmodules": "false",
    "transfer.bundleURI": "false",
}
# The data is not there, which no second try mends; anything else may be the network's fault.
_ABSENT = re.compile(
    r"not our ref|could not find remote ref|couldn't find remote ref|repository .* not found|does not appear to be a git repository"
    r"|does not exist|unadvertised object|no such remote ref|repository not found",
    re.IGNORECASE,
)
# Of its configuration git does not say why it could not write it.
_FULL = re.compile(r"No space left on device|Disk quota exceeded|failed to write new configuration file")
_NOISE = re.compile(
    r"^(?:warning: |hint: |remote: (?:Enumerating|Counting|Compressing|Total)|From |From: "
    r"|Errors logged to |Use `git lfs logs|error: external filter "
    # What git says after ssh's own reason.
    r"|Please make sure you have the correct access rights|and the repository exists\.$)"
)
_DIED = re.compile(r"died of signal (\d+)")


class GitError(PlatoonError):
    """git failed. stderr: what it said, without secrets. reason: its last lines. is_absent: what was asked for is not there.

    is_full: the disk is.
    """

    def __init__(self, what: str, stderr: str) -> None:
        self.stderr = stderr
        self.is_absent = _ABSENT.search(stderr) is not None
        self.is_full = _FULL.search(stderr) is not None
        self.reason = _last_lines(stderr)
        super().__init__(f"{what}: {self.reason}")


@dataclass(frozen=True)
class Git:
    """directory: the repository's own (bare) one. url: how messages call it. tick: told each second while git runs."""

    directory: Path
    url: str
    environment: Mapping[str, str]
    tick: Callable[[], None]
    extra: Mapping[str, str] = field(default_factory=dict)

    def run(
        self,
        *arguments: str,
        what: str = "git failed",
        stdin: bytes | None = None,
        timeout_s: float = TIMEOUT_S,
        limit_bytes: int = OUTPUT_LIMIT_BYTES,
    ) -> bytes:
        """Standard output of one command. Raises GitError, ConfigError where there is no git or more output than `limit_bytes`.

        A command that says more is ended there.
        """
        output = Whole(limit_bytes, ConfigError(Problem(f"{what}: more than {limit_bytes} bytes", file=self.url)))
        self.stream(*arguments, take=output, what=what, stdin=stdin, timeout_s=timeout_s)
        return bytes(output.data)

    def stream(
        self,
        *arguments: str,
        take: Callable[[bytes], None],
        what: str = "git failed",
        stdin: bytes | None = None,
        timeout_s: float = TIMEOUT_S,
    ) -> None:
        """One command whose standard output `take` is given as it comes; what that raises ends the command. Raises as `run`."""
        argv = ["git", *(item for key, value in _SETTINGS.items() for item in ("-c", f"{key}={value}")), *arguments]
        try:
            result = run_blocking(
                argv,
                cwd=self.directory if self.directory.is_dir() else None,
                env={**git_environment(self.environment), "GIT_DIR": str(self.directory), **self.extra},
                stdin=stdin,
                timeout_s=timeout_s,
                take=take,
                tick=self.tick,
            )
        except FileNotFoundError:
            raise ConfigError(Problem("git is needed and not on PATH", file=self.url, advice="install git")) from None
        stderr = hide_credentials(result.stderr.decode("utf-8", "replace"))
        if result.timed_out:
            raise GitError(f"{self.url}: {what}", f"no end after {timeout_s:.0f} s\n{stderr}")
        if result.exit_code:
            raise GitError(f"{self.url}: {what}", stderr or result.ending)

    def at(self, work_tree: Path, index: Path) -> Git:
        """The same repository with a work tree and an index of their own."""
        extra = {"GIT_WORK_TREE": str(work_tree), "GIT_INDEX_FILE": str(index)}
        return Git(self.directory, self.url, self.environment, self.tick, extra)


def git_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """The variables git runs with."""
    kept = {key: value for key, value in environment.items() if not key.startswith("GIT_") or key in _KEPT}
    if "GIT_SSH" not in kept:
        # A question that nobody answers would hang.
        kept.setdefault("GIT_SSH_COMMAND", "ssh -oBatchMode=yes")
    return {
        **kept,
        "LC_ALL": "C",
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_ASKPASS": "true",
        "SSH_ASKPASS": "true",
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_ATTR_NOSYSTEM": "1",
        "GIT_CONFIG_GLOBAL": environment.get(CONFIG_VARIABLE) or "/dev/null",
        "GIT_ALLOW_PROTOCOL": ":".join(GIT_SCHEMES),
        "GIT_LFS_SKIP_SMUDGE": "1",
        "GIT_OPTIONAL_LOCKS": "0",
        "GIT_NO_REPLACE_OBJECTS": "1",
        "GIT_LITERAL_PATHSPECS": "1",
    }


def _last_lines(stderr: str) -> str:
    lines = [printable(line.strip()) for line in stderr.splitlines() if line.strip() and not _NOISE.match(line.strip())]
    said = " / ".join(lines[-3:]) or "it said nothing"
    said = said if len(said) <= SHOWN_CHARACTERS else f"...{said[-SHOWN_CHARACTERS:]}"
    return _DIED.sub(lambda found: f"died of {signal_told(int(found[1]))}", said)
