"""The build plan of one Dockerfile: a prefix to build, deferred steps, the configuration the suffix sets, and the build key."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from platoon.errors import PlatoonError

BUILD_KEY_RULE = "platoon-buildkey-v1"


class DockerfileError(PlatoonError):
    """A Dockerfile that cannot be planned. line: 1-based line of the file, or None. why: one sentence."""

    def __init__(self, why: str, line: int | None = None, *, file: str = "Dockerfile") -> None:
        self.why, self.line, self.file = why, line, file
        super().__init__(f"{file}:{line}: {why}" if line is not None else f"{file}: {why}")


@dataclass(frozen=True)
class ImagePlan:
    """What an image is built from and what a session still does.

    key: `sha256:<hex>` of the build. base: references of the prefix's FROMs, global ARG defaults expanded, in order.
    deferred: steps a session applies, JSON lists. suffix_user: the last deferred USER. config: what the suffix sets in the image's
    configuration. args: build arguments, target: the stage to build, dockerfile: its name when it is not `Dockerfile`.
    notes: why the walk from the end stopped, one a line. prefix_files, deferred_files: the files of the context (paths relative to
    it) that the build reads and that the deferred COPY and ADD steps upload; `prefix_files` is None when the build may read all.
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
    prefix_files: tuple[str, ...] | None = ()
    deferred_files: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """The plan as a lock's row holds it, without `kind`, which depends on the other rows (`shared` or `per_task`)."""
        raise NotImplementedError


def plan_image(
    context: Path,
    text: str,
    *,
    whole: bool = False,
    args: Mapping[str, str] | None = None,
    target: str | None = None,
    dockerfile: str = "Dockerfile",
) -> ImagePlan:
    """The plan of a Dockerfile's text over its context directory.

    whole: nothing is deferred (images of sidecars). args: build arguments by name; they, `target` and another `dockerfile` name enter
    the key only when set. Raises DockerfileError for text that cannot be planned, OSError where the context cannot be read.
    """
    raise NotImplementedError
