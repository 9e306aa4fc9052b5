"""Which variables an instruction sees, and their values as far as a plan can know them.

As BuildKit scopes them: an ARG before the first FROM is seen in a stage only where the stage declares it again; ARG and ENV carry
to stages built FROM it; ENV wins over ARG; the values of one ENV see the state before it. What the base may set is unknown (None).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from platoon.config.text import clip
from platoon.images.dockerfile.errors import DockerfileError
from platoon.images.dockerfile.parse import Instruction
from platoon.images.dockerfile.words import FIELD_BREAK, BadWordError, expand, split_words, unquote

# Of one Dockerfile: every value is kept, each may be made of the ones before it, and each change of a stage keeps its variables.
EXPANDED_LIMIT = 4 * 1024 * 1024
KEPT_LIMIT = 2_000_000
CHANGING = frozenset({"ARG", "ENV"})
# Set by the builder for the platform it builds on, once a stage declares them.
PLATFORM_ARGS = frozenset(f"{side}{what}" for side in ("BUILD", "TARGET") for what in ("PLATFORM", "OS", "ARCH", "VARIANT"))


@dataclass
class Budget:
    """What the variables of one Dockerfile may still come to. characters: of what they expand to. kept: over all its scopes."""

    characters: int = EXPANDED_LIMIT
    kept: int = KEPT_LIMIT


@dataclass
class Scope:
    """State of one stage at one of its instructions. sealed: nothing comes from a base image (FROM scratch).

    budget: shared by all scopes of a Dockerfile. arguments: declared ARGs with a value; written: their values as the Dockerfile
    writes them, for deferred steps.
    """

    budget: Budget = field(default_factory=Budget)
    sealed: bool = False
    arguments: dict[str, str | None] = field(default_factory=dict)
    written: dict[str, str] = field(default_factory=dict)
    environment: dict[str, str | None] = field(default_factory=dict)

    def child(self) -> Scope:
        """A copy to enter more into. Raises BadWordError when that becomes too much."""
        self.budget.kept -= len(self.arguments) + len(self.written) + len(self.environment)
        if self.budget.kept < 0:
            raise BadWordError("has too many variables, changed by too many instructions")
        return Scope(self.budget, self.sealed, dict(self.arguments), dict(self.written), dict(self.environment))

    def expand(self, word: str, escape: str) -> str | None:
        """A word with what is known filled in, None when it depends on what is not. Raises BadWordError."""
        value = expand(word, escape, self.lookup)
        if "$" in word:
            self.budget.characters -= len(value or "")
        if self.budget.characters < 0:
            raise BadWordError(f"variables become more than {EXPANDED_LIMIT} characters in all")
        return value

    def lookup(self, name: str) -> tuple[bool, str | None]:
        """Whether a variable is set, and its value; an unknown one counts as set to None."""
        for known in (self.environment, self.arguments):
            if name in known:
                return True, known[name]
        return (False, "") if self.sealed else (True, None)


def argument_pairs(instruction: Instruction, escape: str) -> list[tuple[str, str | None]]:
    """Names and values (as written, None without one) of an ARG."""
    pairs = []
    for word in split_words(instruction.arguments, escape):
        name, equals, value = word.partition("=")
        if not name:
            raise BadWordError("ARG needs a name before =")
        pairs.append((unquote(name, escape), value if equals else None))
    return pairs


def environment_pairs(instruction: Instruction, escape: str) -> list[tuple[str, str]]:
    """Names and values (as written) of an ENV or LABEL: `A=1 B=2`, or the old form `A the rest of the line`."""
    keyword = instruction.keyword
    words = list(split_words(instruction.arguments, escape))
    if "=" not in words[0]:
        name, *rest = FIELD_BREAK.split(instruction.arguments, 1)
        if not rest:
            raise BadWordError(f"{keyword} {clip(name, 40)} needs a value")
        return [(unquote(name, escape), rest[0])]
    pairs = []
    for word in words:
        name, equals, value = word.partition("=")
        if not equals or not name:
            raise BadWordError(f"{keyword} has name=value pairs, got {clip(word, 40)}")
        pairs.append((unquote(name, escape), value))
    return pairs


def apply(
    instruction: Instruction, scope: Scope, escape: str, given: Mapping[str, str], globals_: Mapping[str, str | None]
) -> None:
    """Enters an ARG or ENV into the scope; any other instruction changes nothing. given: build arguments."""
    if instruction.keyword == "ARG":
        for name, value in argument_pairs(instruction, escape):
            if name in given:
                scope.arguments[name], scope.written[name] = given[name], given[name]
            elif value is not None:
                scope.arguments[name], scope.written[name] = scope.expand(value, escape), value
            elif name in globals_:
                scope.arguments[name] = inherited = globals_[name]
                if inherited is not None:
                    scope.written[name] = inherited
    elif instruction.keyword == "ENV":
        pairs = environment_pairs(instruction, escape)
        scope.environment |= {name: scope.expand(value, escape) for name, value in pairs}


def global_arguments(
    instructions: tuple[Instruction, ...], escape: str, given: Mapping[str, str], file: str, budget: Budget
) -> dict[str, str | None]:
    """The ARGs before the first FROM that have a value."""
    scope = Scope(budget, sealed=True, arguments=dict.fromkeys(PLATFORM_ARGS))
    for instruction in instructions:
        if instruction.keyword == "FROM":
            break
        if instruction.keyword != "ARG":
            raise DockerfileError(f"begins with FROM, or ARG before it, got {instruction.keyword}", instruction.line, file=file)
        try:
            apply(instruction, scope, escape, given, {})
        except BadWordError as error:
            raise DockerfileError(str(error), instruction.line, file=file) from None
    return scope.arguments
