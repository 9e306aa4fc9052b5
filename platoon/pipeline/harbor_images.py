"""Which images the tasks of a configuration's locks, or of one lock, need: what `platoon harbor images plan` prints."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from platoon.envs.harbor.lock import HarborLock, LockRow
from platoon.images.plan import NO_IMAGE, Role, image_key
from platoon.pipeline.harbor_locks import locks_of
from platoon.site import Site


@dataclass(frozen=True)
class NeededImage:
    """key: as in image plans. role: the first that needs it. base: what it is built from, or its own reference. tasks: how many.

    kind: `per_task` or `shared` for what is built, `prebuilt` for what a registry serves, `none` for tasks that name no image.
    """

    key: str
    role: Role
    kind: str
    tasks: int
    base: tuple[str, ...]
    example: str
    environments: tuple[str, ...]

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


def needed_images(path: Path, site: Site, overrides: tuple[str, ...] = ()) -> list[NeededImage]:
    """The images, those of most tasks first. Refused and excluded tasks need none.

    path: a configuration or a lock. Raises ConfigError, NotPreparedError for an entry without a lock.
    """
    found: dict[str, dict[str, Any]] = {}
    for label, lock, excluded in locks_of(path, site, overrides):
        services: dict[str, list[Mapping[str, Any]]] = {}
        for row in lock.tasks:
            if not row.runnable or row.name in excluded:
                continue
            for role, image in _images(lock, row, services):
                entry = found.setdefault(image_key(image), {"role": role, "users": {}, "base": _base(image)})
                entry["users"][label, row.name] = None
    images = [_needed(key, entry) for key, entry in found.items()]
    return sorted(images, key=lambda image: (-image.tasks, image.key))


def _images(
    lock: HarborLock, row: LockRow, services: dict[str, list[Mapping[str, Any]]]
) -> Iterator[tuple[Role, Mapping[str, Any]]]:
    yield "environment", row.image
    if row.verifier_image is not None:
        yield "verifier", row.verifier_image
    if row.compose is not None:
        # Thousands of tasks share a few stack plans.
        digest = str(row.compose.get("plan"))
        if digest not in services:
            plan = lock.stack_plan(row)
            images = [service.to_dict()["image"] for service in plan.services.values()] if plan is not None else []
            services[digest] = [image.get("build", image) for image in images if "from" not in image]
        for image in services[digest]:
            yield "service", image


def _base(image: Mapping[str, Any]) -> tuple[str, ...]:
    return tuple(image.get("base") or ()) if "key" in image else tuple([image["ref"]] if "ref" in image else ())


def _needed(key: str, entry: Mapping[str, Any]) -> NeededImage:
    users = list(entry["users"])
    kind = "none" if key == NO_IMAGE else "prebuilt" if key.startswith("ref:") else "shared" if len(users) > 1 else "per_task"
    return NeededImage(
        key, entry["role"], kind, len(users), entry["base"], users[0][1], tuple(dict.fromkeys(label for label, _ in users))
    )
