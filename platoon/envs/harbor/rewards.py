"""From what tests left in `/logs/verifier` to an outcome: one table of verdicts, pure functions.

A reward is believed only as a finite number of bounded magnitude, under a plain name, in a regular file of bounded size. Whatever
is missing or malformed is a fault of the measurement and never a reward of 0. A reward file that somebody made something else than
a file, or too large to be read, makes the measurement void (`invalid`). What an outcome takes over from a file can so be stored,
summed and used as the name of a metric.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NoReturn

from platoon.artifacts.reading import parse_json
from platoon.core.outcome import Outcome
from platoon.errors import ConfigError, Problem

MAX_REWARD_FILE_BYTES = 1 << 20
REWARD_FILES = ("reward.json", "reward.txt")
DEFAULT_PRIMARY = "reward"
RESERVED_KEYS = frozenset({"invalid", "failure_kind"})
MAX_COMPONENTS = 64
# Far beyond any reward that is meant, and far from what overflows in the differences and squares of a group.
MAX_MAGNITUDE = 1e9
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.:-]{0,63}")
NAME_RULE = "1 to 64 characters of A-Z a-z 0-9 _ . : -, the first a letter or digit"

FileState = Literal["missing", "regular", "not_regular", "too_large"]


@dataclass(frozen=True)
class RewardFile:
    """A reward file as it was found. text: its whole content when it is regular and within the bound."""

    name: str
    state: FileState = "missing"
    text: str = ""


@dataclass(frozen=True)
class RewardContract:
    """Which reported numbers count. primaries: one name, or several of which exactly one must be reported.

    components: the only names that may be reported, None for any. range: inclusive bounds of the primary.
    """

    primaries: tuple[str, ...] = (DEFAULT_PRIMARY,)
    components: frozenset[str] | None = None
    range: tuple[float, float] | None = None

    @property
    def default_primary(self) -> str:
        return self.primaries[0]


class RewardFault(Exception):
    """A reward file that holds no reward. reason: one of the outcome reasons; problem: what exactly is wrong."""

    def __init__(self, reason: str, problem: str) -> None:
        self.reason, self.problem = reason, problem
        super().__init__(f"{reason}: {problem}")


@dataclass(frozen=True)
class Report:
    """What a reward file says. invalid: the tests declare the measurement void, for the reason `failure_kind`."""

    file: str
    rewards: Mapping[str, float] = field(default_factory=dict)
    invalid: bool = False
    failure_kind: str | None = None


def parse_contract(value: str | Sequence[str] | Mapping[str, Any] | RewardContract | None) -> RewardContract:
    """The contract of an option `reward`: a name, a list of names, or `{primary, components, range}`. Raises ConfigError."""
    if value is None:
        return RewardContract()
    if isinstance(value, RewardContract):
        return value
    if not isinstance(value, Mapping):
        return RewardContract(_names(value, "reward"))
    if unknown := sorted(set(value) - {"primary", "components", "range"}):
        raise ConfigError(Problem(f"unknown key {unknown[0]}", key="reward", advice="it has primary, components and range"))
    primaries = _names(value.get("primary", DEFAULT_PRIMARY), "reward.primary")
    components = value.get("components")
    names = None if components is None else frozenset(_names(components, "reward.components"))
    if names is not None and not names.issuperset(primaries):
        raise ConfigError(Problem("must include every primary reward", key="reward.components"))
    return RewardContract(primaries, names, _range(value.get("range")))


def judge(files: Sequence[RewardFile], contract: RewardContract) -> Outcome:
    """The outcome of a verifier that ended in time. files: one entry for each of `REWARD_FILES`, in that order."""
    present = [file.name for file in files if file.state != "missing"]
    metadata: dict[str, Any] = {"reward_files": present}
    for file in files:
        if file.state in ("not_regular", "too_large"):
            reason = "reward_file_not_regular" if file.state == "not_regular" else "reward_file_too_large"
            return Outcome.infra(reason, "invalid", reason=reason, metadata={**metadata, "reward_problem": file.name})
    found = [file for file in files if file.state == "regular"]
    if len(contract.primaries) > 1 and len(found) > 1:
        return Outcome.infra(
            "verifier_ambiguous_reward_files", "invalid", reason="verifier_ambiguous_reward_files", metadata=metadata
        )
    try:
        if not found:
            raise RewardFault("reward_file_missing", f"neither {' nor '.join(REWARD_FILES)} is there")
        report = read_report(found[0])
    except RewardFault as fault:
        metadata["reward_problem"] = fault.problem
        return Outcome.infra("verifier_no_reward", "error", reason=fault.reason, metadata=metadata)
    return _apply(report, contract, metadata)


def zero(reason: str, contract: RewardContract, metadata: Mapping[str, Any]) -> Outcome:
    """A zero that platoon gives and no grader gave."""
    primary = contract.default_primary
    return Outcome("scored", {primary: 0.0}, primary, reason=reason, metadata={**metadata, "platoon_zero": True})


def read_report(file: RewardFile) -> Report:
    """What a regular reward file says. Raises RewardFault."""
    text = file.text
    if not text.strip():
        raise RewardFault("reward_file_empty", f"{file.name} is empty")
    if file.name.endswith(".txt"):
        return Report(file.name, {DEFAULT_PRIMARY: _plain_number(file.name, text)})
    return _json_report(file.name, text)


def _apply(report: Report, contract: RewardContract, metadata: Mapping[str, Any]) -> Outcome:
    metadata = {**metadata, "reported": dict(report.rewards)}
    if report.invalid:
        kind = report.failure_kind or "verifier_declared"
        return Outcome.infra(kind, "invalid", reason=kind, metadata=metadata)
    listed = [name for name in contract.primaries if name in report.rewards]
    if not listed:
        return Outcome.infra("verifier_no_primary", "error", reason="verifier_no_primary", metadata=metadata)
    for reason, problem in _violations(report.rewards, listed, contract):
        return Outcome.infra(reason, "invalid", reason=reason, metadata={**metadata, "reward_problem": problem})
    return Outcome("scored", dict(report.rewards), listed[0], metadata=metadata)


def _violations(rewards: Mapping[str, float], listed: Sequence[str], contract: RewardContract) -> Iterator[tuple[str, str]]:
    if len(listed) > 1:
        yield "verifier_ambiguous_primary", ", ".join(listed)
    if contract.components is not None and (unexpected := sorted(set(rewards) - contract.components)):
        yield "verifier_unexpected_keys", ", ".join(unexpected[:5])
    if contract.range is not None and not contract.range[0] <= rewards[listed[0]] <= contract.range[1]:
        yield "verifier_out_of_range", f"{rewards[listed[0]]!r} is not in {list(contract.range)}"


def _json_report(name: str, text: str) -> Report:
    try:
        value = parse_json(text, parse_constant=_refuse_constant)
    except _NotFinite as error:
        raise _malformed(name, f"is not finite: {error}") from None
    except ValueError as error:
        raise _malformed(name, f"is no JSON: {str(error)[:200]}") from None
    if not isinstance(value, dict):
        raise _malformed(name, f"holds a JSON {_kind(value)}, not an object")
    names = [key for key in value if key not in RESERVED_KEYS]
    if len(names) > MAX_COMPONENTS:
        raise _malformed(name, f"holds {len(names)} numbers, more than {MAX_COMPONENTS}")
    for key in names:
        if not NAME.fullmatch(key):
            raise _malformed(name, f"names a reward {key[:80]!a}: a name is {NAME_RULE}")
    rewards = {key: _number(name, key, value[key]) for key in names}
    declared = _number(name, "invalid", value["invalid"]) if "invalid" in value else 0.0
    return Report(name, rewards, declared >= 0.5, _failure_kind(name, value.get("failure_kind")))


def _failure_kind(name: str, kind: Any) -> str | None:
    """What a file calls its failure; None where it says nothing or an empty text."""
    if kind is None or kind == "":
        return None
    if not isinstance(kind, str):
        raise _malformed(name, f"failure_kind is a JSON {_kind(kind)}, not a string")
    if not NAME.fullmatch(kind):
        raise _malformed(name, f"failure_kind is {kind[:80]!a}: it must be {NAME_RULE}")
    return kind


def _plain_number(name: str, text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        raise _malformed(name, f"is no number: {text.strip()[:80]!a}") from None
    if not math.isfinite(number):
        raise _malformed(name, f"is not finite: {text.strip()[:80]}")
    if abs(number) > MAX_MAGNITUDE:
        raise _malformed(name, f"is {number!r}, beyond {MAX_MAGNITUDE:g}")
    return number


def _number(name: str, key: str, value: Any) -> float:
    """A JSON number or boolean as a finite float."""
    if not isinstance(value, bool | int | float):
        raise _malformed(name, f"{key!r} is a JSON {_kind(value)}, not a number")
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    if not math.isfinite(number):
        raise _malformed(name, f"{key!r} is not finite")
    if abs(number) > MAX_MAGNITUDE:
        raise _malformed(name, f"{key!r} is {number!r}, beyond {MAX_MAGNITUDE:g}")
    return number


class _NotFinite(Exception):
    """A constant that JSON does not have."""


def _refuse_constant(text: str) -> NoReturn:
    raise _NotFinite(text)


def _malformed(name: str, problem: str) -> RewardFault:
    return RewardFault("reward_file_malformed", f"{name} {problem}" if not problem.startswith("'") else f"{name}: {problem}")


def _kind(value: Any) -> str:
    kinds = {bool: "boolean", int: "number", float: "number", str: "string", list: "array", dict: "object", type(None): "null"}
    return kinds[type(value)]


def _names(value: Any, key: str) -> tuple[str, ...]:
    names = (value,) if isinstance(value, str) else tuple(value) if isinstance(value, list | tuple) else ()
    if not names or not all(isinstance(name, str) and name for name in names) or len(set(names)) < len(names):
        raise ConfigError(Problem("must be the name of a reward, or a list of different names", key=key))
    if refused := next((name for name in names if not NAME.fullmatch(name)), None):
        raise ConfigError(Problem(f"{refused[:80]!a} is no name of a reward", key=key, advice=f"a name is {NAME_RULE}"))
    if reserved := RESERVED_KEYS.intersection(names):
        raise ConfigError(Problem(f"{min(reserved)} is not a reward: reward files use it to void a measurement", key=key))
    return names


def _range(value: Any) -> tuple[float, float] | None:
    if value is None:
        return None
    numbers = tuple(value) if isinstance(value, list | tuple) else ()
    if len(numbers) != 2 or not all(isinstance(item, int | float) and not isinstance(item, bool) for item in numbers):
        raise ConfigError(Problem("must be two numbers, the lowest and the highest reward", key="reward.range"))
    low, high = float(numbers[0]), float(numbers[1])
    if not low <= high:
        raise ConfigError(Problem(f"must be two numbers in order, got {low!r} and {high!r}", key="reward.range"))
    return low, high
