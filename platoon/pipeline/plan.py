"""From locked datasets to the image plan of a run: reads the locks, hands plain needs to `images.plan`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from platoon.envs.harbor.lock import HarborLock
from platoon.envs.harbor.publish import HarborCache
from platoon.errors import ConfigError, NotPreparedError, Problem
from platoon.images.plan import ImageNeed, plan_images
from platoon.pipeline.providers import check_providers, provider_of
from platoon.pipeline.resolve import ResolvedConfig
from platoon.site import Site


def make_plan(resolved: ResolvedConfig, datasets: Mapping[str, Any], site: Site) -> dict[str, Any]:
    """The value of `plan.json`. Raises ConfigError for a provider that is none, NotPreparedError for a lock not in the cache."""
    check_providers(resolved.harbor_entries())
    return plan_images(_needs(resolved, datasets, HarborCache(site.harbor_cache)))


def locked(entry: Mapping[str, Any], cache: HarborCache) -> HarborLock:
    """The lock an entry of `datasets.lock.json` names. Raises NotPreparedError."""
    digest = entry["lock_digest"]
    path = cache.lock_by_digest(digest)
    try:
        lock = HarborLock.read(path)
    except ConfigError as error:
        advice = "run platoon prepare, or name the site whose cache holds the dataset"
        first = error.problems[0]
        rule = f"the lock of {entry['environment']} {cache.told}: {replace(first, file='', advice='')}"
        raise NotPreparedError(Problem(rule, file=first.file, advice=advice)) from None
    if lock.digest != digest:
        raise NotPreparedError(Problem("is not the lock its name says", file=str(path), advice="run platoon prepare"))
    return lock


def _needs(resolved: ResolvedConfig, datasets: Mapping[str, Any], cache: HarborCache) -> Iterator[ImageNeed]:
    by_label = {entry["environment"]: entry for entry in datasets["harbor"]}
    for _, label, entry in resolved.harbor_entries():
        found = by_label.get(label)
        if found is None:
            raise NotPreparedError(Problem(f"environment {label} is not locked", advice="run platoon lock again"))
        if "lock_digest" not in found:
            continue
        provider = provider_of(entry)
        excluded = set(entry.get("exclude_tasks", ()))
        for row in locked(found, cache).tasks:
            if row.runnable and row.name not in excluded:
                yield ImageNeed(provider, row.name, "environment", row.image)
                if row.verifier_image is not None:
                    yield ImageNeed(provider, row.name, "verifier", row.verifier_image)
