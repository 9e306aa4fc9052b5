"""The stages of a Dockerfile: their bases, names and scopes, up to the stage that is built."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from platoon.config.text import clip
from platoon.images.dockerfile.checks import check_instruction, check_stage_name
from platoon.images.dockerfile.errors import DockerfileError
from platoon.images.dockerfile.parse import Dockerfile, Instruction, fields, split_flags
from platoon.images.dockerfile.scope import CHANGING, PLATFORM_ARGS, Budget, Scope, apply, global_arguments
from platoon.images.dockerfile.words import BadWordError, expand
from platoon.images.image_reference import PLATFORM, is_our_platform, reference_fault

SCRATCH = "scratch"
NUMBER_LIMIT = 9
STAGE_LIMIT = 1000


@dataclass
class Stage:
    """One FROM and what follows it. parent: index of the stage it is built from, or None. base: else the reference, expanded.

    platform: what FROM asks for, None where it asks for nothing that is known.
    after: the scope at the stage's end, or as far as it was read; before: for each instruction, the scope it sees.
    """

    index: int
    opening: Instruction
    name: str | None
    base: str | None
    parent: int | None
    after: Scope
    platform: str | None = None
    instructions: list[Instruction] = field(default_factory=list)
    before: list[Scope] = field(default_factory=list)


def read_stages(dockerfile: Dockerfile, given: Mapping[str, str], target: str | None, file: str) -> list[Stage]:
    """The stages up to the target, or all. Raises DockerfileError."""
    escape = dockerfile.escape
    budget = Budget()
    globals_ = global_arguments(dockerfile.instructions, escape, given, file, budget)
    stages: list[Stage] = []
    for instruction in dockerfile.instructions:
        try:
            if instruction.keyword == "FROM":
                if stages and _is_target(stages[-1], target):
                    break
                if len(stages) == STAGE_LIMIT:
                    raise BadWordError(f"has more than {STAGE_LIMIT} stages")
                stages.append(_open_stage(instruction, stages, escape, globals_, budget))
            elif stages:
                check_instruction(instruction, escape)
                stage = stages[-1]
                stage.instructions.append(instruction)
                stage.before.append(stage.after)
                if instruction.keyword in CHANGING:
                    stage.after = stage.after.child()
                    apply(instruction, stage.after, escape, given, globals_)
        except BadWordError as error:
            raise DockerfileError(str(error), instruction.line, file=file) from None
    if not stages:
        raise DockerfileError("has no FROM", file=file)
    if target is not None and not _is_target(stages[-1], target):
        raise DockerfileError(f"has no stage {target}", file=file)
    _check_platforms(stages, file)
    return stages


def _check_platforms(stages: list[Stage], file: str) -> None:
    """What is built is of the one platform that tasks run on; a stage that only gives it files may be of any."""
    stage = stages[-1]
    while True:
        if stage.platform is not None and not is_our_platform(stage.platform):
            raise DockerfileError(f"FROM --platform={stage.platform[:40]}: images are {PLATFORM}", stage.opening.line, file=file)
        if stage.parent is None:
            return
        stage = stages[stage.parent]


def stage_names(dockerfile: Dockerfile, file: str) -> list[str]:
    """The name of each FROM in lower case, those behind the target too; "" where it has none. Raises DockerfileError."""
    names = []
    for instruction in dockerfile.instructions:
        if instruction.keyword == "FROM":
            try:
                words = fields(split_flags(instruction)[1])
            except BadWordError as error:
                raise DockerfileError(str(error), instruction.line, file=file) from None
            names.append(words[2].lower() if len(words) == 3 else "")
    return names


def stage_number(name: str) -> int | None:
    """The number that a stage is named by, None for a name. Raises BadWordError for one that no stage has."""
    if not (name.isascii() and name.isdecimal()):
        return None
    if len(name) > NUMBER_LIMIT:
        raise BadWordError(f"{clip(name, 40)} is the number of no stage")
    return int(name)


def _is_target(stage: Stage, target: str | None) -> bool:
    return target is not None and (stage.name == target.lower() or target == str(stage.index))


def _open_stage(
    instruction: Instruction, stages: list[Stage], escape: str, globals_: Mapping[str, str | None], budget: Budget
) -> Stage:
    flags, rest = split_flags(instruction)
    words = fields(rest)
    if len(words) not in (1, 3) or (len(words) == 3 and words[1].lower() != "as"):
        raise BadWordError("FROM has the form FROM image [AS name]")
    name = words[2].lower() if len(words) == 3 else None
    if name is not None:
        check_stage_name(name)
    unset: list[str] = []

    def lookup(variable: str) -> tuple[bool, str | None]:
        if variable in globals_ or variable in PLATFORM_ARGS:
            return True, globals_.get(variable)
        unset.append(variable)
        return False, ""

    base = expand(words[0], escape, lookup)
    if base is None:
        raise BadWordError(f"FROM {clip(words[0])} depends on the machine that builds")
    if not base or (unset and not base.strip(":@/")):
        raise BadWordError(f"FROM {clip(words[0])} names no image ({', '.join(unset) or 'the variable'} has no default)")
    # In its own letters: BuildKit takes `FROM Base` for an image.
    parent = next((stage.index for stage in reversed(stages) if stage.name == base), None)
    if parent is not None and any(item.keyword == "ONBUILD" for item in stages[parent].instructions):
        raise BadWordError(f"FROM {clip(base)} runs the ONBUILD instructions of that stage, which no plan has (write them here)")
    if parent is None and (fault := reference_fault(base)) is not None:
        raise BadWordError(f"FROM: {fault}")
    platform = expand(flags["platform"], escape, lookup) if "platform" in flags else None
    start = stages[parent].after if parent is not None else Scope(budget, sealed=base.lower() == SCRATCH)
    return Stage(len(stages), instruction, name, None if parent is not None else base, parent, start, platform)
