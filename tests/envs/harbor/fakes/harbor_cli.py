"""A fake Harbor CLI: a script that answers `version show` and `download` from a folder, and notes how it was called.

The folder holds `packages.json`: `org/name@ref` to what `version show --json` prints, and the task directories by digest. It knows
the two commands that fetching uses and the shape of their answers, nothing of the real Hub.
"""

from __future__ import annotations

import json
import shutil
import stat
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from platoon.artifacts.digests import content_hash, hex_of, package_digest

SCRIPT = """#!{python} -IS
import json, shutil, sys
from pathlib import Path
home = Path({home!r})
args = sys.argv[1:]
with (home / "calls.jsonl").open("a") as log:
    log.write(json.dumps(args) + "\\n")
if args[:2] == ["version", "show"]:
    packages = json.loads((home / "packages.json").read_text())
    if args[2] not in packages:
        sys.exit("Error: no package " + args[2] + " https://user:hidden@hub.example/x?token=hidden")
    value = packages[args[2]]
    if "--tasks" in args and value["type"] == "task":
        sys.exit("Error: --tasks is for datasets")
    for flag in ("tasks", "files"):
        if "--" + flag not in args:
            value.pop(flag, None)
    print(json.dumps(value))
elif args[:1] == ["download"]:
    print("Downloading...", file=sys.stderr)
    name, _, digest = args[1].partition("@")
    place = home / "tasks" / digest.replace("sha256:", "")
    out = Path(args[args.index("-o") + 1]) / name / digest.replace("sha256:", "")
    if "--cache" not in args or not place.is_dir():
        sys.exit("Error: cannot download " + args[1])
    shutil.copytree(place, out, symlinks=True)
else:
    sys.exit("Error: unknown command")
"""


@dataclass(frozen=True)
class FakeHub:
    """A Hub in a folder. command: what `PLATOON_HARBOR_CLI` is set to."""

    home: Path
    packages: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def make(cls, home: Path, script: str = "harbor") -> FakeHub:
        (home / "tasks").mkdir(parents=True)
        path = home / script
        path.write_text(SCRIPT.format(python=sys.executable, home=str(home)))
        path.chmod(path.stat().st_mode | stat.S_IXUSR)
        return cls(home)

    @property
    def command(self) -> str:
        return f"'{self.home / 'harbor'}'"

    @property
    def calls(self) -> list[list[str]]:
        path = self.home / "calls.jsonl"
        return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []

    def publish_task(self, name: str, directory: Path, *, refs: tuple[str, ...] = ("latest",), revision: int = 1) -> str:
        """Publishes a task package and gives its digest."""
        digest = content_hash(directory)
        place = self.home / "tasks" / hex_of(digest)
        if not place.exists():
            shutil.copytree(directory, place, symlinks=True)
        self._publish(name, "task", digest, refs, revision, {})
        return digest

    def publish_dataset(
        self,
        name: str,
        tasks: Mapping[str, str],
        *,
        refs: tuple[str, ...] = ("latest",),
        revision: int = 1,
        files: Mapping[str, str] | None = None,
        hidden: int = 0,
        **more: Any,
    ) -> str:
        """Publishes a dataset of tasks by name and digest and gives its digest."""
        digest = package_digest(tasks.values(), files)
        rows: list[dict[str, Any]] = [
            {
                "task_version_id": f"v{number}",
                "available": True,
                "task_version": {
                    # As some answers have it: bare.
                    "content_hash": hex_of(task),
                    "package": {"name": full.partition("/")[2], "org": {"name": full.partition("/")[0]}},
                },
            }
            for number, (full, task) in enumerate(tasks.items())
        ]
        rows += [{"task_version_id": f"h{number}", "available": False, "task_version": None} for number in range(hidden)]
        listed = [{"path": path, "content_hash": file, "size_bytes": 1} for path, file in (files or {}).items()]
        self._publish(name, "dataset", digest, refs, revision, {"tasks": rows, "files": listed, **more})
        return digest

    def _publish(self, name: str, kind: str, digest: str, refs: tuple[str, ...], revision: int, more: Mapping[str, Any]) -> None:
        value = {
            "package": name,
            "type": kind,
            "visibility": "public",
            "revision": revision,
            "content_hash": digest,
            "tags": list(refs),
            "yanked_at": None,
            **more,
        }
        for ref in (*refs, str(revision), digest):
            self.packages[f"{name}@{ref}"] = value
        (self.home / "packages.json").write_text(json.dumps(self.packages))
