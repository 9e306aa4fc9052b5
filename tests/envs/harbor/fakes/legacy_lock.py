"""Locks as release 0.4 wrote them."""

from __future__ import annotations

import json
from pathlib import Path

from platoon.artifacts.digests import content_hash
from platoon.envs.harbor.answers import inputs_digest
from platoon.envs.harbor.options import HarborOptions
from platoon.envs.harbor.publish import HarborCache


def write_legacy(cache: HarborCache, resolved: str, wanted: HarborOptions, root: Path, refused: dict[str, str | None]) -> Path:
    """A lock of what an entry wants, at a commit, of tasks below `root`. refused: task to its refusal."""
    inputs = inputs_digest(wanted, [], legacy=True)
    rows = []
    for name, why in refused.items():
        digest = content_hash(root / name)
        row = {
            "name": name,
            "digest": digest,
            "path": f"tasks/{digest.removeprefix('sha256:')}",
            "source_path": name,
            "index": {},
            "flags": {"verifier": "shared", "artifacts": 0, "stack": "single" if name == "plain" else "sidecars", "gpus": 0},
            "image": {"kind": "none", "upload_environment": True},
            "overlays": [],
            "refused": why,
            "input_files": {},
        }
        rows.append(row)
    value = {
        "version": 1,
        "dataset": wanted.dataset,
        "resolved": resolved,
        "fetched_with": "huggingface_hub==0.30",
        "hash_rule": "harbor-packager-v1",
        "build_key_rule": "platoon-buildkey-v1",
        "overlay": None,
        "inputs": inputs,
        "selection": {"tasks": {}, "select": {}, "selected": len(rows), "of": len(rows)},
        "modes": "restored from names",
        "created_at": "2026-01-01T00:00:00+01:00",
        "tasks": rows,
    }
    path = cache.lock_by_name(inputs[:16])
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(value))
    return path
