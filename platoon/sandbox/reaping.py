"""Ends what dead owners left: the sandboxes of one run directory, found by their label.

Called as a run starts and as it ends, and by `platoon sandbox reap`. A run keeps in its directory a list of what it has running
(`labels.mirror_to`); with it the providers are known, and without it the process provider's own root is looked through.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from platoon.artifacts.reading import parse_json, read_regular
from platoon.sandbox import labels
from platoon.sandbox.base import SandboxProvider
from platoon.sandbox.registry import get_provider

RECORDS_FILE = "sandboxes.json"
MAX_RECORDS_BYTES = 16 << 20
REAP_TIMEOUT_S = 120.0


async def reap_run(
    run_dir: Path, provider: str | SandboxProvider = "process", options: Mapping[str, Any] | None = None
) -> labels.Reaped:
    """Ends the sandboxes that bear the run's label and whose owner is gone or this process.

    Looks where the run's own records say, and at `provider`. Returns once their processes are gone, or after 10 s with a warning.
    Raises ConfigError for a provider that is none.
    """
    built = get_provider(provider, **(options or {})) if isinstance(provider, str) else provider
    own = {"provider": labels.provider_reference(built), "options": built.options, "labels": labels.run_labels(run_dir)}
    return await labels.reap_records([*run_records(run_dir), own], REAP_TIMEOUT_S)


async def reap_all(records: Sequence[Mapping[str, Any]], timeout_s: float = REAP_TIMEOUT_S) -> tuple[str, ...]:
    """Ends the sandboxes of records; why something may be left, for a later try. Never raises for a sandbox.

    timeout_s: of one look at one provider.
    """
    left: dict[str, None] = {}
    for record in records:
        found = await labels.reap_record(record, timeout_s)
        # What was found counts as gone when the next look finds nothing.
        if not found.failure and found.count:
            again = await labels.reap_record(record, timeout_s)
            found = replace(again, failure=again.failure or (f"{again.count} sandboxes still run" if again.count else ""))
        if found.failure:
            left[found.failure] = None
    return tuple(left)


def run_records(run_dir: Path) -> list[dict[str, Any]]:
    """What a run's starts had running when they died, under the run's own label.

    The records' labels are not believed: a copied run directory names another run's sandboxes.
    """
    return [{**record, "labels": labels.run_labels(run_dir)} for record in read_records(run_dir / RECORDS_FILE)]


def read_records(path: Path) -> list[dict[str, Any]]:
    """The distinct providers of a mirror file as records without labels; [] for a file that is missing or no mirror."""
    value: Any = None
    with suppress(OSError, ValueError):
        value = parse_json(read_regular(path, MAX_RECORDS_BYTES))
    distinct: dict[str, dict[str, Any]] = {}
    for record in value if isinstance(value, list) else []:
        if isinstance(record, dict) and isinstance(record.get("provider"), str) and isinstance(record.get("options"), dict):
            kept = {"provider": record["provider"], "options": record["options"]}
            distinct[json.dumps(kept, sort_keys=True)] = kept
    return list(distinct.values())
