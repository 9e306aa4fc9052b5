"""The corpus of compose files: each file begins with lines `#: key: value` that say what a plan must make of it.

refused: what the refusal begins with. kind: of the task. has: places in `{...plan, image: …}` (parts of a path joined by `/`) to
values. task: `[environment]` of its task.toml. files: below `environment/`, None takes the Dockerfile away. listed:
`compose_host_env`. overlay: `[[compose]]` entries. privileges: planned. host: variables of the host. oracle: places of compose's
view (`service.key`) that are not compared, with why. rejected: of a refused file, whether compose rejects it too. rows, cases: what
it proves. plan: the digest of everything that is planned, which `python -m tests.envs.harbor.compose.record` writes.
"""

from __future__ import annotations

import io
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML

from platoon.artifacts.canonical import canonical_digest
from platoon.envs.harbor.compose import PlannedTask, plan_task
from platoon.envs.harbor.overlays import Overlay, read_overlay
from platoon.envs.harbor.task_toml import TaskToml

CORPUS = Path(__file__).with_name("corpus")
MARK = "#: "
KEYS = frozenset(
    (
        *("refused", "rejected", "kind", "has", "plan", "task", "files", "listed", "overlay", "privileges", "host", "oracle"),
        *("rows", "cases", "crlf"),
    )
)


@dataclass(frozen=True)
class Case:
    """One file of the corpus and its expectations. text: the file's, but for the digest of its plan."""

    name: str
    text: str
    header: dict[str, Any]

    @property
    def refused(self) -> str | None:
        found: str | None = self.header.get("refused")
        return found

    def write(self, directory: Path) -> Path:
        """The case as a task directory."""
        text = f"\ufeff{self.text}".replace("\n", "\r\n") if self.header.get("crlf") else self.text
        files = {
            "instruction.md": "Do it.\n",
            "tests/test.sh": "true\n",
            "environment/Dockerfile": "FROM debian:12\n",
            "environment/docker-compose.yaml": text,
            **{f"environment/{name}": content for name, content in self.header.get("files", {}).items()},
        }
        for name, content in files.items():
            if content is not None:
                target = directory / name
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_bytes(content.encode())
        return directory

    @property
    def toml(self) -> TaskToml:
        return TaskToml.model_validate({"environment": self.header.get("task", {})})

    def overlays(self, directory: Path) -> list[Overlay]:
        """The overlay that the header describes, made below a directory."""
        entries, listed = self.header.get("overlay", []), self.header.get("listed", [])
        if not entries and not listed:
            return []
        directory.mkdir(parents=True, exist_ok=True)
        lines = [f"compose_host_env = {_toml(listed)}"]
        for entry in entries:
            lines += ["[[compose]]", *(f"{key} = {_toml(value)}" for key, value in entry.items())]
        (directory / "overlay.toml").write_text("\n".join(lines) + "\n", encoding="utf-8")
        return [read_overlay(directory)]

    def plan(self, tmp: Path) -> PlannedTask:
        """Plans the case. Raises TaskRefused."""
        directory = self.write(tmp / "task")
        return plan_task(
            self.toml, directory, overlays=self.overlays(tmp / "overlay"), privileges=bool(self.header.get("privileges"))
        )


def digest(planned: PlannedTask) -> str:
    """Of everything that is planned, so that no change of a plan goes unseen."""
    plan = planned.plan.to_dict() if planned.plan is not None else None
    beside = {name: getattr(planned, name) for name in ("kind", "image", "gpus", "user", "inputs", "uploads", "warnings")}
    return canonical_digest({**beside, "plan": plan, "unrewritable": [reference.to_dict() for reference in planned.unrewritable]})


def topics() -> list[str]:
    """The folders of the corpus."""
    return sorted(path.name for path in CORPUS.iterdir())


@cache
def cases(topic: str) -> tuple[Case, ...]:
    """Every file of a topic, in order of names."""
    return tuple(_read(path) for path in sorted((CORPUS / topic).glob("*.yaml")))


def _read(path: Path) -> Case:
    text = path.read_text(encoding="utf-8")
    header = "".join(line.removeprefix(MARK) for line in text.splitlines(keepends=True) if line.startswith(MARK))
    found = YAML(typ="safe", pure=True).load(io.StringIO(header))
    assert isinstance(found, dict), f"{path}: no header"
    assert set(found) <= KEYS, f"{path}: {sorted(set(found) - KEYS)}"
    # The digest is over the task's files, of which the case is one.
    own = "".join(line for line in text.splitlines(keepends=True) if not line.startswith(f"{MARK}plan: "))
    return Case(path.relative_to(CORPUS).with_suffix("").as_posix(), own, found)


def _toml(value: Any) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f'"{key}" = {_toml(item)}' for key, item in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(_toml(item) for item in value) + "]"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        escaped = value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
        return f'"{escaped}"'
    return str(value)
