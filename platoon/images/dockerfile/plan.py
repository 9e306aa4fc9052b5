"""The build plan of one Dockerfile: a prefix to build, deferred steps, the configuration the suffix sets, and the build key."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from platoon.artifacts.digests import hex_of, sha256_bytes
from platoon.artifacts.reading import read_regular
from platoon.config.text import clip
from platoon.images.dockerfile.context import Context
from platoon.images.dockerfile.copies import Sources, add_sources, read_copy, step_sources
from platoon.images.dockerfile.dockerignore import compile_ignore
from platoon.images.dockerfile.errors import DockerfileError
from platoon.images.dockerfile.mounts import binds_context, mounts
from platoon.images.dockerfile.parse import Dockerfile, Instruction, parse_dockerfile
from platoon.images.dockerfile.settings import BadInstructionError, image_settings
from platoon.images.dockerfile.stages import SCRATCH, Stage, read_stages, stage_names, stage_number
from platoon.images.dockerfile.suffix import Suffix, split_suffix
from platoon.images.dockerfile.words import BadWordError
from platoon.images.image_reference import reference_fault

BUILD_KEY_RULE = "platoon-buildkey-v1"
# Of a file that gives one instruction several here-documents, whose bodies that rule would join without a mark between them.
HEREDOCS_RULE = "platoon-buildkey-v1-heredocs"
IGNORE_FILE = ".dockerignore"
IGNORE_LIMIT_BYTES = 256 * 1024
IGNORE_TRIES_LIMIT = 10_000_000


@dataclass(frozen=True)
class ImagePlan:
    """What an image is built from and what a session still does.

    key: `sha256:<hex>` of the build. base: references of the prefix's FROMs, global ARG defaults expanded, in order.
    deferred: steps a session applies, JSON lists. suffix_user: the last deferred USER. config: what the suffix sets in the image's
    configuration. args: build arguments, target: the stage to build, dockerfile: its name when it is not `Dockerfile`.
    notes: why the walk from the end stopped, one a line. empty_directories: of the context, which a build makes first: COPY names
    them as directories, and a task keeps files alone. inputs: files of the context (relative to it) that COPY and ADD take, all
    that they may take where that is not known. uploads: those of them that the deferred steps take.
    """

    key: str
    base: tuple[str, ...] = ()
    deferred: tuple[tuple[str, ...], ...] = ()
    suffix_user: str | None = None
    config: Mapping[str, Any] = field(default_factory=dict)
    args: Mapping[str, str] = field(default_factory=dict)
    target: str | None = None
    dockerfile: str | None = None
    notes: tuple[str, ...] = ()
    empty_directories: tuple[str, ...] = ()
    inputs: tuple[str, ...] = ()
    uploads: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """The plan as a lock's row holds it, without `kind`, which depends on the other rows (`shared` or `per_task`)."""
        optional: dict[str, Any] = {
            "suffix_user": self.suffix_user,
            "config": dict(self.config),
            "args": dict(self.args),
            "target": self.target,
            "dockerfile": self.dockerfile,
            "notes": list(self.notes),
            "empty_directories": list(self.empty_directories),
        }
        plan: dict[str, Any] = {"key": self.key, "base": list(self.base), "deferred": [list(step) for step in self.deferred]}
        return {**plan, **{name: value for name, value in optional.items() if value}}


def plan_image(
    context: Path,
    text: str,
    *,
    root: Path | None = None,
    whole: bool = False,
    args: Mapping[str, str] | None = None,
    target: str | None = None,
    dockerfile: str = "Dockerfile",
    executable: Callable[[Path], bool] | None = None,
) -> ImagePlan:
    """The plan of a Dockerfile's text over its context directory.

    root: the task, which no link of the context may leave; the context when unset. whole: nothing is deferred (images of sidecars).
    args: build arguments by name; they and `target` enter the key only when set. dockerfile: its name, for errors and for the
    ignore file beside it. executable: whether a file counts as a program in the key; its mode says so when unset.
    Raises DockerfileError for text that cannot be planned, OSError where the context cannot be read.
    """
    given = dict(args or {})
    parsed = parse_dockerfile(text, file=dockerfile)
    stages = read_stages(parsed, given, target, dockerfile)
    files = Context(context, root, executable)
    ignore_file = next((name for name in (f"{dockerfile}.dockerignore", IGNORE_FILE) if files.kind(name) == "file"), None)
    last = stages[-1]
    suffix = Suffix(len(last.instructions), (), ())
    if not whole:
        suffix = split_suffix(last, parsed.escape, files, ignored=ignore_file is not None)
    sources, binds = _sources(stages, suffix.start, parsed, files, dockerfile)
    taken = sources.files(files)
    # Each source once: thousands of steps may take one large directory.
    uploaded = {source for step in suffix.steps if step[0] == "COPY" for source in step_sources(step)}
    uploads = {file for source in uploaded for file in files.below(source)}
    ignore_text, ignore_hex = (None, None) if ignore_file is None else _read_ignore(context / ignore_file)
    ignored = None if ignore_text is None else compile_ignore(ignore_text)
    prefix = _prefix(parsed, stages, suffix.start)
    payload: dict[str, Any] = {
        "rule": HEREDOCS_RULE if any(item.has_several_heredocs for item in prefix) else BUILD_KEY_RULE,
        "directives": list(parsed.directives),
        "prefix": [instruction.text for instruction in prefix],
        "context": files.entries(files.files if sources.covers_all or binds or ignored is not None else taken),
        "dockerignore": ignore_hex,
    }
    payload |= {name: value for name, value in (("args", given), ("target", target)) if value}
    users = [step[1] for step in suffix.steps if step[0] == "USER"]
    return ImagePlan(
        key=build_key(payload),
        base=_bases(stages),
        deferred=suffix.steps,
        suffix_user=users[-1] if users else None,
        config=_settings(stages, 0 if whole else suffix.start, parsed.escape, dockerfile, chain=whole),
        args=given,
        target=target,
        dockerfile=None if dockerfile == "Dockerfile" else dockerfile,
        notes=suffix.notes,
        empty_directories=tuple(sorted(files.empty)),
        inputs=_inputs({*taken, *uploads}, ignored, 0 if ignore_text is None else ignore_text.count("\n") + 1),
        uploads=tuple(sorted(uploads)),
    )


def _inputs(files: Set[str], ignored: Callable[[str], bool] | None, patterns: int) -> tuple[str, ...]:
    """The files that a build sees, in order; all where that would take too long to tell: each pattern is held against each."""
    if ignored is None or patterns * sum(file.count("/") + 1 for file in files) > IGNORE_TRIES_LIMIT:
        return tuple(sorted(files))
    return tuple(sorted(file for file in files if not ignored(file)))


def _read_ignore(path: Path) -> tuple[str, str]:
    """The text of an ignore file and the SHA-256 of its bytes, hex."""
    try:
        data = read_regular(path, IGNORE_LIMIT_BYTES)
    except OSError as error:
        raise DockerfileError(f"cannot be read: {error.strerror}", file=path.name) from None
    try:
        return data.decode("utf-8-sig"), hex_of(sha256_bytes(data))
    except UnicodeDecodeError as error:
        raise DockerfileError(f"is not UTF-8 (byte {error.start})", file=path.name) from None


def build_key(payload: Mapping[str, Any]) -> str:
    """`sha256:<hex>` of a payload: sorted keys, no blanks, ASCII."""
    text = json.dumps(payload, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return sha256_bytes(text.encode("ascii"))


def _prefix(parsed: Dockerfile, stages: Sequence[Stage], suffix_start: int) -> list[Instruction]:
    """Every instruction up to the suffix of the stage that is built, global ARGs included."""
    first = next(index for index, item in enumerate(parsed.instructions) if item.keyword == "FROM")
    found = list(parsed.instructions[:first])
    for stage in stages:
        kept = stage.instructions[:suffix_start] if stage is stages[-1] else stage.instructions
        found += [stage.opening, *kept]
    return found


def _bases(stages: Sequence[Stage]) -> tuple[str, ...]:
    bases = [stage.base for stage in stages if stage.base is not None and stage.base.lower() != SCRATCH]
    return tuple(dict.fromkeys(bases))


def _sources(stages: Sequence[Stage], suffix_start: int, parsed: Dockerfile, files: Context, name: str) -> tuple[Sources, bool]:
    """What the prefix copies of the context, and whether a RUN of it binds the context besides."""
    sources, binds = Sources(), False
    names = stage_names(parsed, name)
    for stage in stages:
        count = suffix_start if stage is stages[-1] else len(stage.instructions)
        for instruction, scope in zip(stage.instructions[:count], stage.before[:count], strict=True):
            try:
                if instruction.keyword in ("COPY", "ADD"):
                    copy = read_copy(instruction, parsed.escape)
                    if copy.from_stage is not None:
                        _check_from(copy.from_stage, stage.index, names)
                    add_sources(copy, scope, parsed.escape, files, sources)
                elif instruction.keyword == "RUN":
                    binds |= _check_mounts(instruction, names[stage.index :])
            except BadWordError as error:
                raise DockerfileError(str(error), instruction.line, file=name) from None
    return sources, binds


def _check_from(source: str, index: int, names: Sequence[str]) -> None:
    """Refuses a stage that does not stand before its use, as BuildKit does, to which a name is the last stage's that has it."""
    number = stage_number(source)
    if (number is not None and number >= index) or source.lower() in names[index:]:
        raise BadWordError(f"--from={source} names no earlier stage")
    if number is None and source.lower() not in names and (fault := reference_fault(source)) is not None:
        raise BadWordError(f"--from: {fault}")


def _check_mounts(instruction: Instruction, later: Sequence[str]) -> bool:
    """Whether a RUN binds files of the context. Refuses mounts of a later stage."""
    found = list(mounts(instruction))
    for source in (mount.get("from", "") for mount in found):
        if source and source.lower() in later:
            raise BadWordError(f"--mount: from={clip(source, 40)} names no earlier stage")
    return any(map(binds_context, found))


def _settings(stages: Sequence[Stage], start: int, escape: str, name: str, *, chain: bool) -> dict[str, Any]:
    """What the instructions from `start` of the last stage set; with `chain`, those of the stages it is built from before them."""
    lineage = [stages[-1]]
    while chain and (parent := lineage[0].parent) is not None:
        lineage.insert(0, stages[parent])
    settings: dict[str, Any] = {}
    for stage in lineage:
        pairs = list(zip(stage.instructions, stage.before, strict=True))
        cut = start if stage is stages[-1] else 0
        try:
            settings |= image_settings(pairs[:cut], pairs[cut:], escape)
        except BadInstructionError as error:
            raise DockerfileError(str(error), error.line, file=name) from None
    return settings
