"""From a plan to where each image is. Pure: what was built or pinned comes in as entries.

For the process provider every key is `local`: it runs commands on the host and starts no image.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from platoon.config.text import counted
from platoon.errors import ConfigError, NotPreparedError, Problem
from platoon.images.plan import NO_IMAGE
from platoon.images.plan import RULE as PLAN_RULE

RULE = "platoon-image-map-v1"
LOCAL = {"image": "local", "builder": "alias", "sha256": None}


def image_map(plan: Mapping[str, Any], built: Mapping[str, Mapping[str, Any]] | None = None) -> dict[str, Any]:
    """The map of a plan. built: key to entry of what was built. Raises NotPreparedError naming keys that nothing gives."""
    if plan.get("rule") != PLAN_RULE:
        raise ConfigError(Problem(f"is no plan of rule {PLAN_RULE}", advice="run platoon plan again"))
    providers: dict[str, Any] = {}
    missing: list[str] = []
    for provider, planned in plan["providers"].items():
        images: dict[str, Any] = {}
        for key, wanted in planned["images"].items():
            if (entry := _entry(key, wanted, built or {})) is not None:
                images[key] = entry
            else:
                missing.append(key)
        providers[provider] = {"images": images}
    if missing:
        raise NotPreparedError(
            Problem(f"no image for {counted(len(missing), 'key')}, {missing[0]} first", advice="run platoon prepare")
        )
    return {"rule": RULE, "version": 1, "providers": providers}


def image_of(mapped: Mapping[str, Any], provider: str, key: str) -> Mapping[str, Any]:
    """The entry of a key. Raises NotPreparedError when the map lacks it."""
    entry: Mapping[str, Any] | None = mapped.get("providers", {}).get(provider, {}).get("images", {}).get(key)
    if entry is None:
        raise NotPreparedError(Problem(f"the image map has no {key} for provider {provider}", advice="run platoon prepare"))
    return entry


def _entry(key: str, wanted: Mapping[str, Any], built: Mapping[str, Mapping[str, Any]]) -> dict[str, Any] | None:
    if wanted["kind"] == "local":
        return dict(LOCAL)
    if wanted["kind"] == "reference":
        return {"image": f"docker://{key.removeprefix('ref:')}", "builder": "pull", "sha256": None}
    if key in built:
        return dict(built[key])
    return {"image": None, "builder": "none", "sha256": None} if key == NO_IMAGE else None
