"""Typed errors of the whole package.

Every error a person may see derives from `PlatoonError` and carries the exit code the command line ends with. A refusal of
configuration is a `ConfigError`: it holds all problems found, each naming file, key, value, rule and what to do next.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from platoon import exits


class PlatoonError(Exception):
    """An error with a message for a person and an exit code for a shell."""

    exit_code: int = exits.FAILED


@dataclass(frozen=True)
class Problem:
    """One fault of one input.

    file: the input as the user wrote its path; empty when the fault is of no file.
    key: dotted path below it (`train.batch_size`), or empty.
    rule: what must hold, one sentence in lower case without a period.
    advice: what to do next; empty when the rule says it.
    """

    rule: str
    key: str = ""
    file: str = ""
    advice: str = ""

    def __str__(self) -> str:
        place = ": ".join(part for part in (self.file, self.key) if part)
        text = f"{place}: {self.rule}" if place else self.rule
        return f"{text} ({self.advice})" if self.advice else text


class ConfigError(PlatoonError):
    """Configuration that cannot run; never worth a restart. Holds every problem found."""

    exit_code = exits.CONFIG

    def __init__(self, problems: str | Problem | Iterable[Problem]) -> None:
        if isinstance(problems, str):
            problems = Problem(problems)
        self.problems: Sequence[Problem] = (problems,) if isinstance(problems, Problem) else tuple(problems)
        super().__init__("\n".join(str(problem) for problem in self.problems))


class NotPreparedError(ConfigError):
    """Something that `platoon prepare` makes is missing; the message names the command."""


class IdentityError(ConfigError):
    """A run directory or receipt answers another identity than the configuration asks for."""


class HeldError(PlatoonError):
    """Another live process holds what this one needs; the same command may work later."""

    exit_code = exits.TRY_AGAIN


class ServiceError(PlatoonError):
    """The training service failed, refused or did not answer within its bound."""


class EnvSetupError(PlatoonError):
    """A session could not open. `failure_kind` is one of the kinds of `core.outcome`."""

    def __init__(self, failure_kind: str, message: str) -> None:
        self.failure_kind = failure_kind
        super().__init__(message)


class EnvNotPrepared(EnvSetupError):
    """A session needs something `platoon prepare` makes."""

    exit_code = exits.CONFIG

    def __init__(self, message: str) -> None:
        super().__init__("env_config", message)
