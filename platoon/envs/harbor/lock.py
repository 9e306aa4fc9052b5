"""The lock of a dataset: which tasks, by content, what each needs, and which are refused and why.

A lock is canonical: the same inputs give the same bytes on every machine. Keys stand in the documented order, head keys one a line,
task rows one a line and sorted by name, so that two locks differ well; no time, machine path or host value is in it. When and with
what it was fetched stands beside it in `<lock>.meta.json`.
"""

from __future__ import annotations

import codecs
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Self

from platoon.artifacts.digests import CONTENT_HASH_RULE as HASH_RULE
from platoon.artifacts.digests import sha256_bytes
from platoon.artifacts.publish import publish_bytes
from platoon.artifacts.reading import parse_json, read_regular
from platoon.config.text import printable, show
from platoon.envs.harbor.compose.stack_plan import RULE as COMPOSE_RULE
from platoon.envs.harbor.compose.stack_plan import StackPlan
from platoon.envs.harbor.holdout import HoldOutRow
from platoon.envs.harbor.lock_form import ADVICE, check_lock
from platoon.errors import ConfigError, Problem

VERSION = 1
HEAD_BYTES = 64
BUILD_KEY_RULE = "platoon-buildkey-v1"

# In the order of the file; plans and tasks follow.
HEAD_KEYS = (
    "version",
    "dataset",
    "resolved",
    "source",
    "fetched_with",
    "hash_rule",
    "build_key_rule",
    "compose_rule",
    "overlay",
    "inputs",
    "selection",
    "modes",
)
_OPTIONAL = frozenset({"origin", "upstream_digest", "verifier_image", "compose", "overlays", "input_files"})
_KNOWN = ("index", "flags", "image", "verifier_image", "compose", "refused", "input_files", "upstream_digest", "origin")
# What a lock of 0.4 has no word for.
_SINCE_05 = frozenset({"source", "compose_rule"})


@dataclass(frozen=True)
class LockRow:
    """One task. path: below the Harbor cache. refused: None, or `<code>: <why>`. input_files: task-relative path to digest.

    upstream_digest: before overlays, None where they changed nothing. origin: repository and commit, for a task of a registry file.
    compose: the digest of its stack plan, and what of the task the host-network fallback could not rewrite. overlays: the names of
    those that matched.
    """

    name: str
    digest: str
    source_path: str
    index: Mapping[str, Any] = field(default_factory=dict)
    flags: Mapping[str, Any] = field(default_factory=dict)
    image: Mapping[str, Any] = field(default_factory=dict)
    verifier_image: Mapping[str, Any] | None = None
    compose: Mapping[str, Any] | None = None
    refused: str | None = None
    input_files: Mapping[str, str] | None = None
    upstream_digest: str | None = None
    origin: Mapping[str, str] | None = None
    overlays: tuple[str, ...] = ()

    @property
    def runnable(self) -> bool:
        return self.refused is None

    @property
    def path(self) -> str:
        return f"tasks/{self.digest.removeprefix('sha256:')}"

    @property
    def image_key(self) -> str | None:
        """The build key of the task's image, None when nothing is built for it."""
        return self.image.get("key")

    @property
    def uploads_environment(self) -> bool:
        """Whether a session copies `environment/` into the working directory: nothing else would bring its files there."""
        return bool(self.image.get("upload_environment"))

    def to_dict(self) -> dict[str, Any]:
        row = {
            "name": self.name,
            "digest": self.digest,
            "path": self.path,
            "source_path": self.source_path,
            "origin": self.origin,
            "upstream_digest": self.upstream_digest,
            "index": self.index,
            "flags": self.flags,
            "image": self.image,
            "verifier_image": self.verifier_image,
            "compose": self.compose,
            "overlays": list(self.overlays) or None,
            "refused": self.refused,
            "input_files": self.input_files,
        }
        return {key: _sorted(value) for key, value in row.items() if not (key in _OPTIONAL and value is None)}

    @classmethod
    def from_dict(cls, value: Mapping[str, Any]) -> Self:
        """The row that `to_dict` wrote, its form checked."""
        known = {key: value[key] for key in _KNOWN if key in value}
        return cls(value["name"], value["digest"], value["source_path"], overlays=tuple(value.get("overlays") or ()), **known)

    def for_holdout(self) -> HoldOutRow:
        return HoldOutRow(self.name, self.index, self.runnable, self.input_files)


@dataclass(frozen=True)
class HarborLock:
    """A whole lock. inputs: digest of what was asked for. tasks: sorted by name. plans: stack plans by their digests.

    compose_rule: None for a lock that release 0.4 wrote, which has no stack plans and no source.
    """

    dataset: str
    resolved: str
    source: Mapping[str, Any]
    fetched_with: str
    inputs: str
    selection: Mapping[str, Any]
    tasks: tuple[LockRow, ...]
    modes: str = "canonical"
    overlay: str | None = None
    plans: Mapping[str, Any] = field(default_factory=dict)
    hash_rule: str = HASH_RULE
    build_key_rule: str = BUILD_KEY_RULE
    compose_rule: str | None = COMPOSE_RULE
    version: int = VERSION

    @property
    def is_legacy(self) -> bool:
        """Whether release 0.4 wrote it."""
        return self.compose_rule is None

    @cached_property
    def by_name(self) -> Mapping[str, LockRow]:
        return {row.name: row for row in self.tasks}

    @property
    def runnable(self) -> tuple[str, ...]:
        """Ids of the tasks that are not refused, in order."""
        return tuple(row.name for row in self.tasks if row.runnable)

    def stack_plan(self, row: LockRow) -> StackPlan | None:
        """What a task's containers are, None for `single` and `trivial`. Raises ConfigError for a plan that is none."""
        if row.compose is None:
            return None
        digest = row.compose["plan"]
        try:
            return StackPlan.from_dict(self.plans[digest])
        except ValueError as error:
            rule = f"the lock's plan {digest} {error}"
            raise ConfigError(Problem(rule, key=f"task {printable(row.name)}", file=self.dataset, advice=ADVICE)) from None

    @cached_property
    def digest(self) -> str:
        """`sha256:<hex>` of the canonical bytes."""
        return sha256_bytes(self.to_bytes())

    def to_bytes(self) -> bytes:
        """The canonical bytes."""
        return self._data

    @cached_property
    def _data(self) -> bytes:
        head = {key: _sorted(getattr(self, key)) for key in HEAD_KEYS if not (self.is_legacy and key in _SINCE_05)}
        lines = [f" {_compact(key)}: {_compact(value)}," for key, value in head.items()]
        plans = [f"  {_compact(key)}: {_compact(_sorted(self.plans[key]))}" for key in sorted(self.plans)]
        lines.append(' "plans": {' + ("\n" + ",\n".join(plans) + "\n }," if plans else "},"))
        rows = [f"  {_compact(row.to_dict())}" for row in sorted(self.tasks, key=lambda row: row.name)]
        lines.append(' "tasks": [' + ("\n" + ",\n".join(rows) + "\n ]" if rows else "]"))
        return ("{\n" + "\n".join(lines) + "\n}\n").encode("utf-8")

    def write(self, path: Path) -> None:
        """Publishes the canonical bytes."""
        publish_bytes(path, self.to_bytes())

    @classmethod
    def read(cls, path: Path) -> Self:
        """The lock of a file. Raises ConfigError for a file that is missing, no lock, or of other rules."""
        try:
            data = read_regular(path)
        except OSError as error:
            raise ConfigError(Problem(f"no lock can be read: {error.strerror}", file=str(path))) from None
        return cls.from_bytes(data, str(path))

    @classmethod
    def from_bytes(cls, data: bytes, shown_as: str) -> Self:
        """The lock of its bytes. Raises ConfigError for anything that no fetch of this release, or of 0.4, writes."""
        try:
            value = parse_json(data, unique_keys=True, finite=True)
        except ValueError as error:
            raise ConfigError(Problem(f"is no lock: {str(error)[:200]}", file=shown_as, advice=ADVICE)) from None
        if not isinstance(value, dict):
            raise ConfigError(Problem("is no lock: it holds no mapping", file=shown_as, advice=ADVICE))
        is_legacy = "compose_rule" not in value
        rules: dict[str, Any] = {"version": VERSION, "hash_rule": HASH_RULE, "build_key_rule": BUILD_KEY_RULE}
        for key, wanted in rules.items() if is_legacy else (*rules.items(), ("compose_rule", COMPOSE_RULE)):
            found = value.get(key)
            if found != wanted or type(found) is not type(wanted):
                raise ConfigError(Problem(f"must be {wanted}, got {show(found)}", key=key, file=shown_as, advice=ADVICE))
        check_lock(value, shown_as)
        head = {key: value[key] for key in HEAD_KEYS if not (is_legacy and key in _SINCE_05)}
        if is_legacy:
            head |= {"source": {}, "compose_rule": None}
        return cls(**head, plans=value.get("plans", {}), tasks=tuple(map(LockRow.from_dict, value["tasks"])))


def is_other_file(path: Path) -> bool:
    """Whether there is a file that is no lock of any release: all begin with their version. An empty one holds nothing to lose."""
    try:
        with path.open("rb") as file:
            head = file.read(HEAD_BYTES).removeprefix(codecs.BOM_UTF8).lstrip()
    except OSError:
        return False
    return head != b"" and not head.removeprefix(b"{").lstrip().startswith(b'"version"')


def tree_digest(rows: Iterable[LockRow]) -> str:
    """`tree:sha256:<hex>` over names and digests: what a local dataset resolved to."""
    text = "".join(f"{row.name}\0{row.digest}\n" for row in sorted(rows, key=lambda row: row.name))
    return f"tree:{sha256_bytes(text.encode())}"


def _compact(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))


def _sorted(value: Any) -> Any:
    """Mappings below the documented keys in order of their own keys, so that no insertion order shows."""
    if isinstance(value, Mapping):
        return {key: _sorted(value[key]) for key in sorted(value)}
    if isinstance(value, list | tuple):
        return [_sorted(item) for item in value]
    return value
