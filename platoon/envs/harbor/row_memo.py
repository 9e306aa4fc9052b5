"""What was found of a task by its content, kept so that a task which is met again is not planned again.

A fact is of a digest, of the settings that decide a row beside it, and of the code that found it: facts of other code are not read.
They are a saving alone: without them, or with some that are damaged, the same rows are made.
"""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Any

import platoon
from platoon._native import build_info
from platoon.artifacts.digests import hex_of, sha256_file
from platoon.artifacts.publish import WRITABLE, replacing
from platoon.artifacts.reading import parse_json, read_regular
from platoon.envs.harbor.publish import HarborCache
from platoon.envs.harbor.sources.places import make_directory
from platoon.host.trees import remove_tree

KEPT_VERSIONS = 3
LIBRARIES = ("pydantic", "ruamel.yaml")
# Whole packages: what a row takes from them is not looked up module by module.
CODE = ("artifacts", "config", "envs/harbor", "images")


@dataclass
class RowMemo:
    """One fetch's view. reads: False when what is kept is not to be trusted; then it is only written."""

    place: Path
    reads: bool = True
    _shards: dict[str, dict[str, bytes]] = field(default_factory=dict)
    _changed: set[str] = field(default_factory=set)

    @classmethod
    def of(cls, cache: HarborCache, *, reads: bool) -> RowMemo:
        return cls(cache.root / "rows" / code_digest()[:32], reads)

    def get(self, digest: str, settings: str) -> Mapping[str, Any] | None:
        """The fact of a task and of settings (any text), None when it is not kept."""
        line = self._shard(digest).get(f"{digest} {settings}")
        if line is None:
            return None
        try:
            value = parse_json(line)
        except ValueError:
            return None
        return value if isinstance(value, dict) else None

    def put(self, digest: str, settings: str, fact: Mapping[str, Any]) -> None:
        """Keeps a fact; JSON values."""
        self._shard(digest)[f"{digest} {settings}"] = json.dumps(fact, separators=(",", ":")).encode()
        self._changed.add(_shard_of(digest))

    def save(self) -> None:
        """Writes what was put. Of two fetches at once one loses what it put, which is found again when it is needed."""
        if not self._changed:
            return
        if not self.place.is_dir():
            make_directory(self.place)
            _drop_oldest(self.place.parent)
        for name in sorted(self._changed):
            with replacing(self.place / name, WRITABLE) as file:
                for key, line in sorted(self._shards[name].items()):
                    file.write(key.encode() + b"\t" + line + b"\n")
        self._changed.clear()

    def _shard(self, digest: str) -> dict[str, bytes]:
        name = _shard_of(digest)
        if name not in self._shards:
            self._shards[name] = dict(_read(self.place / name)) if self.reads else {}
        return self._shards[name]


def code_digest() -> str:
    """64 hex over the code that makes rows: versions of this package, the core and libraries, and the packages that have a part."""
    root = Path(platoon.__file__).parent
    # Not what the core found of this machine: its cores decide how fast it hashes, not what.
    core = {key: value for key, value in build_info().items() if key == "version" or key.endswith("_rule")}
    libraries = {name: version(name) for name in LIBRARIES}
    digest = hashlib.sha256(json.dumps([platoon.__version__, core, libraries, sys.version_info[:3]], sort_keys=True).encode())
    for name in CODE:
        for file in sorted((root / name).rglob("*.py")):
            digest.update(f"\0{file.relative_to(root)}\0{sha256_file(file)}".encode())
    return digest.hexdigest()


def _shard_of(digest: str) -> str:
    return hex_of(digest)[:2]


def _read(path: Path) -> Iterator[tuple[str, bytes]]:
    try:
        data = read_regular(path)
    except OSError:
        return
    for line in data.split(b"\n"):
        key, tab, value = line.partition(b"\t")
        if tab:
            yield key.decode("ascii", "replace"), value


def _drop_oldest(parent: Path) -> None:
    """Leaves the newest few versions of the code their facts."""
    versions = sorted(parent.iterdir(), key=lambda path: path.lstat().st_mtime)
    for path in versions[:-KEPT_VERSIONS]:
        remove_tree(path)
