"""Where a Dockerfile is cut: the instructions at its end that a session can apply itself, so that images are shared and small."""

from __future__ import annotations

from dataclasses import dataclass

from platoon.config.credentials import hide_userinfo
from platoon.images.dockerfile.context import Context
from platoon.images.dockerfile.copies import deferred_step, read_copy
from platoon.images.dockerfile.parse import Instruction
from platoon.images.dockerfile.scope import argument_pairs, environment_pairs
from platoon.images.dockerfile.stages import Stage
from platoon.images.dockerfile.words import BadWordError, deferred_text

# Nothing runs after them, so they change the image's configuration alone.
METADATA = frozenset(
    ("LABEL", "EXPOSE", "CMD", "ENTRYPOINT", "HEALTHCHECK", "STOPSIGNAL", "VOLUME", "SHELL", "MAINTAINER", "ONBUILD")
)

Step = tuple[str, ...]


@dataclass(frozen=True)
class Suffix:
    """start: index of the first deferred instruction of the stage. steps: in order. notes: why the walk stopped, one a line."""

    start: int
    steps: tuple[Step, ...]
    notes: tuple[str, ...]


def split_suffix(stage: Stage, escape: str, context: Context, *, ignored: bool) -> Suffix:
    """Walks back from the end of the stage that is built. ignored: the context has a `.dockerignore`, which the build applies."""
    steps: list[list[Step]] = []
    notes: list[str] = []
    start = len(stage.instructions)
    while start:
        instruction = stage.instructions[start - 1]
        try:
            if ignored and instruction.keyword in ("COPY", "ADD"):
                raise BadWordError(f"{instruction.keyword} is done by the build, which reads .dockerignore")
            steps.append(_steps(instruction, stage, start - 1, escape, context))
        except BadWordError as error:
            notes.append(f"line {instruction.line}: {hide_userinfo(str(error))}")
            break
        start -= 1
    declared = stage.before[start] if start < len(stage.instructions) else stage.after
    arguments = [("ARG", name, declared.arguments[name] or "") for name in declared.written if name in declared.arguments]
    known = [step for step in arguments if declared.arguments[step[1]] is not None]
    ordered = [step for group in reversed(steps) for step in group]
    return Suffix(start, tuple([*known, *ordered] if ordered else ()), tuple(notes))


def _steps(instruction: Instruction, stage: Stage, index: int, escape: str, context: Context) -> list[Step]:
    keyword = instruction.keyword
    if keyword in METADATA:
        return []
    if keyword == "ENV":
        return [("ENV", name, deferred_text(value, escape)) for name, value in environment_pairs(instruction, escape)]
    if keyword == "ARG":
        return _argument_steps(instruction, stage, index, escape)
    if keyword == "WORKDIR":
        return [("WORKDIR", deferred_text(instruction.arguments, escape))]
    if keyword == "USER":
        return [("USER", deferred_text(instruction.arguments, escape))]
    if keyword in ("COPY", "ADD"):
        return [deferred_step(read_copy(instruction, escape), escape, context)]
    raise BadWordError(f"{keyword} is done by the build")


def _argument_steps(instruction: Instruction, stage: Stage, index: int, escape: str) -> list[Step]:
    after = stage.before[index + 1] if index + 1 < len(stage.before) else stage.after
    found: list[Step] = []
    for name, _ in argument_pairs(instruction, escape):
        if name in after.written:
            found.append(("ARG", name, deferred_text(after.written[name], escape)))
        elif name in after.arguments:
            raise BadWordError(f"ARG {name} is given by the builder's platform")
    return found
