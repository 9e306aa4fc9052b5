"""Which images the tasks of a run need: keys, how each is had, and which must be built or pinned first. Pure.

A key is the build key of an image to build, `ref:<reference>` for one a registry serves, or `none` for tasks that name no image.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

RULE = "platoon-plan-v1"
NO_IMAGE = "none"
# Runs tasks on the host itself, whatever image they name.
PROCESS = "process"

Role = Literal["environment", "verifier", "service"]


@dataclass(frozen=True)
class ImageNeed:
    """One task's need. image: the plan of a lock's row (`kind`, and `key` or `ref`)."""

    provider: str
    task: str
    role: Role
    image: Mapping[str, Any]

    @property
    def key(self) -> str:
        return image_key(self.image)


def image_key(image: Mapping[str, Any]) -> str:
    """The key of an image by its plan."""
    if (key := image.get("key")) is not None:
        return str(key)
    ref = image.get("ref")
    return f"ref:{ref}" if ref is not None else NO_IMAGE


def plan_images(needs: Iterable[ImageNeed]) -> dict[str, Any]:
    """The plan, canonical: `providers` by name with their `images`; `build` and `pins` are the keys with work to do."""
    providers: dict[str, dict[str, dict[str, Any]]] = {}
    for need in sorted(needs, key=lambda need: (need.provider, need.key, need.task, need.role)):
        images = providers.setdefault(need.provider, {})
        entry = images.setdefault(need.key, {"kind": _kind(need), "roles": [], "tasks": 0, "example": need.task})
        entry["tasks"] += 1
        if need.role not in entry["roles"]:
            entry["roles"].append(need.role)
    build = {key for images in providers.values() for key, entry in images.items() if entry["kind"] == "build"}
    return {
        "rule": RULE,
        "providers": {name: {"images": images} for name, images in providers.items()},
        "build": sorted(build),
        "pins": [],
    }


def _kind(need: ImageNeed) -> str:
    if need.provider == PROCESS:
        return "local"
    if "key" in need.image:
        return "build"
    return "reference" if "ref" in need.image else "none"
