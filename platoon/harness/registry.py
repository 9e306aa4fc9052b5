"""Harness references: `name[@version]`, the path of a spec that ends in `.toml`, or `module:function`.

Names of the package are reserved to it. A name is resolved without importing anything but what it names.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from platoon import registry
from platoon.config.model import nearest
from platoon.config.text import quoted
from platoon.errors import ConfigError, Problem
from platoon.harness.api import AgentContext, AgentResult
from platoon.harness.spec import HarnessSpec, load_spec

AgentFn = Callable[[AgentContext], Awaitable[AgentResult]]
NAME = re.compile(r"[a-z0-9]+(?:[._-][a-z0-9]+)*")
VERSION = re.compile(r"[A-Za-z0-9]+(?:[._+-][A-Za-z0-9]+)*")
TAG = "__platoon_harness__"
RESERVED = frozenset({"mini-swe-agent", "openhands", "single", "gym"})
BUILT_IN: dict[str, str] = {
    "platoon-bash@1": "builtin/platoon_bash/harness.toml",
    "platoon-noop@1": "platoon.harness.builtin.noop:noop",
    "platoon-oracle@1": "platoon.harness.builtin.oracle:oracle",
}


@dataclass(frozen=True)
class FunctionHarness:
    """A decorated function. executes_model_code: what the model writes runs in this process."""

    name: str
    version: str
    function: AgentFn
    runtime: str = "inline"
    executes_model_code: bool = False

    @property
    def reference(self) -> str:
        return f"{self.name}@{self.version}"


def harness(
    name: str, *, version: str = "1", runtime: str = "inline", executes_model_code: bool = False
) -> Callable[[AgentFn], AgentFn]:
    """Tags an `async def fn(ctx) -> AgentResult` as a harness and returns it unchanged.

    Raises ValueError for a name it may not bear.
    """
    if not NAME.fullmatch(name) or name.endswith(".toml") or not VERSION.fullmatch(version):
        raise ValueError(f"{name}@{version} is no harness name: lower-case words joined by '.', '_' or '-', and a version")
    if runtime != "inline":
        raise ValueError(f"runtime {runtime!r} is not `inline`")

    def tag(function: AgentFn) -> AgentFn:
        inside = (getattr(function, "__module__", "") or "").split(".")[0] == "platoon"
        if not inside and (name in RESERVED or name.split("-", maxsplit=1)[0] == "platoon"):
            raise ValueError(f"harness name {name!r} is reserved")
        setattr(function, TAG, FunctionHarness(name, version, function, runtime, executes_model_code))
        return function

    return tag


def get_harness(reference: str) -> FunctionHarness | HarnessSpec:
    """Resolves a reference. Raises ConfigError for one that names nothing, or a spec that is not valid."""
    if ":" in reference:
        return _import(reference)
    if reference.endswith(".toml"):
        return load_spec(Path(reference))
    name, _, version = reference.partition("@")
    found = [key for key in BUILT_IN if key.partition("@")[0] == name and (not version or _matches(key.partition("@")[2], version))]
    if len(found) != 1:
        near = nearest(reference, [*BUILT_IN, *(key.partition("@")[0] for key in BUILT_IN)])
        advice = near if near.startswith("did") else f"there is: {', '.join(sorted(BUILT_IN))}"
        raise ConfigError(Problem(f"{quoted(reference)} names no harness", key="harness", advice=advice))
    target = BUILT_IN[found[0]]
    return _import(target) if ":" in target else _built_in_spec(target)


def spec_content(reference: str) -> dict[str, Any] | None:
    """What the spec says whose path is named; None for a name, which has a version, and for code. Raises ConfigError."""
    if ":" in reference or not reference.endswith(".toml"):
        return None
    return load_spec(Path(reference)).content()


@cache
def _built_in_spec(path: str) -> HarnessSpec:
    return load_spec(Path(__file__).parent / path)


def _matches(have: str, asked: str) -> bool:
    return have == asked or have.startswith(f"{asked}.")


def _import(reference: str) -> FunctionHarness:
    found = registry.load("harness", reference, key="harness")
    tagged = found if isinstance(found, FunctionHarness) else getattr(found, TAG, None)
    if not isinstance(tagged, FunctionHarness):
        raise ConfigError(Problem(f"{reference!r} is no harness", key="harness", advice="decorate it with @platoon.harness(name)"))
    return tagged
