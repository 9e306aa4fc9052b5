"""One directory of tasks, put where each of the six kinds of source finds it, whatever it holds that the kind can carry."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from platoon.artifacts.digests import DataError, UnsupportedError, content_hash, sha256_bytes
from platoon.errors import PlatoonError
from tests.envs.harbor.fakes.harbor_cli import FakeHub
from tests.envs.harbor.fakes.hugging_face import FakeHuggingFace
from tests.envs.harbor.fakes.repositories import Repository
from tests.envs.harbor.sources.conftest import Fetching

KINDS = ("directory", "git", "hf", "hub", "registry", "adapter")
COMMIT = "a" * 40
# Copies what lies beside it to where it is told, links as links.
ADAPTER = """
import shutil, sys
shutil.copytree("tasks", sys.argv[sys.argv.index("--output-dir") + 1], symlinks=True, dirs_exist_ok=True)
"""


@dataclass(frozen=True)
class Six:
    """tree: the directory of tasks. Each kind is published after it was written."""

    tree: Path
    base: Path
    fetching: Fetching
    monkeypatch: pytest.MonkeyPatch

    def options(self, kind: str) -> dict[str, Any]:
        """What an entry says to have these tasks from this kind of source."""
        publish: Callable[[], dict[str, Any]] = getattr(self, f"_{kind}")
        return publish()

    def name(self, kind: str, task: str) -> str:
        """What the source calls a task."""
        return f"org/{task}" if kind == "hub" else task

    def refusal(self, kind: str) -> str:
        """What a fetch says, after which neither a lock nor anything in staging is left."""
        with pytest.raises(PlatoonError) as caught:
            self.fetching(self.options(kind))
        cache = self.fetching.cache
        assert not (cache.root / "locks").exists()
        assert not list(cache.staging.iterdir() if cache.staging.is_dir() else ())
        text = str(caught.value)
        assert all(line.isprintable() for line in text.splitlines()), text
        assert "/.tmp/" not in text, text
        return text

    def _directory(self) -> dict[str, Any]:
        return {"dataset": os.path.relpath(self.tree, self.fetching.base)}

    def _repository(self, name: str) -> Repository:
        repository = Repository.make(self.base / name)
        shutil.copytree(self.tree, repository.path / "tasks", symlinks=True)
        return repository

    def _git(self) -> dict[str, Any]:
        repository = self._repository("git")
        return {"dataset": f"git+{repository.url}@{repository.commit()}#tasks"}

    def _registry(self) -> dict[str, Any]:
        repository = self._repository("registered")
        commit = repository.commit()
        tasks = [
            {"name": path.name, "path": f"tasks/{path.name}", "git_url": repository.url, "git_commit_id": commit}
            for path in sorted(self.tree.iterdir())
            if path.is_dir()
        ]
        (self.fetching.base / "registry.json").write_text(json.dumps([{"name": "bench", "version": "1", "tasks": tasks}]))
        return {"dataset": "harbor://bench@1", "registry": "registry.json"}

    def _adapter(self) -> dict[str, Any]:
        repository = self._repository("adapter")
        (repository.path / "main.py").write_text(ADAPTER)
        return {"adapter": {"repo": repository.url, "commit": repository.commit(), "command": ["python3", "main.py"]}}

    def _hf(self) -> dict[str, Any]:
        FakeHuggingFace({("org/name", COMMIT): self.tree}).install(self.monkeypatch)
        return {"dataset": f"hf://org/name@{COMMIT}"}

    def _hub(self) -> dict[str, Any]:
        hub = FakeHub.make(self.base / "hub")
        self.fetching.environment["PLATOON_HARBOR_CLI"] = hub.command
        digests = {}
        for path in sorted(self.tree.iterdir()):
            if path.is_dir():
                digests[f"org/{path.name}"] = _publish(hub, path)
        dataset = hub.publish_dataset("org/bench", digests)
        return {"dataset": f"harbor://org/bench@{dataset}"}


def _publish(hub: FakeHub, task: Path) -> str:
    """Its digest; one of the Hub's own making for a tree that no Hub would hash."""
    try:
        digest = content_hash(task)
    except (DataError, UnsupportedError, OSError):
        digest = sha256_bytes(os.fsencode(task))
    shutil.copytree(task, hub.home / "tasks" / digest.removeprefix("sha256:"), symlinks=True)
    return digest
