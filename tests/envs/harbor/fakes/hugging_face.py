"""A fake of the calls of `huggingface_hub` that fetching uses, over local directories; set in the place of the library's own.

It answers with the library's own classes and errors. What it does not do: authentication, its own retries, partial downloads.
"""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx
import pytest
from huggingface_hub import errors
from huggingface_hub.hf_api import RepoFile, RepoFolder

LFS_FROM_BYTES = 100


def http_error(kind: type[errors.HfHubHTTPError], status: int, headers: dict[str, str] | None = None) -> errors.HfHubHTTPError:
    request = httpx.Request("GET", "https://hub.example/?token=hidden")
    return kind(f"{status} for https://user:hidden@hub.example", response=httpx.Response(status, headers=headers, request=request))


@dataclass
class FakeHuggingFace:
    """repositories: name and commit to a directory. revisions: name and revision to a commit. calls: each as a tuple.

    before: called with the name of a call and its path, to raise in its place. damage: path to bytes that are served instead, once.
    """

    repositories: dict[tuple[str, str], Path] = field(default_factory=dict)
    revisions: dict[tuple[str, str | None], str] = field(default_factory=dict)
    calls: list[tuple[str, ...]] = field(default_factory=list)
    before: Callable[[str, str], None] = lambda call, path: None
    damage: dict[str, bytes] = field(default_factory=dict)

    def install(self, monkeypatch: pytest.MonkeyPatch) -> None:
        calls = {name: getattr(self, name) for name in ("repo_info", "list_repo_tree", "get_paths_info")}
        monkeypatch.setattr("huggingface_hub.HfApi", lambda: SimpleNamespace(**calls))
        monkeypatch.setattr("huggingface_hub.hf_hub_download", self.hf_hub_download)

    def repo_info(self, repo_id: str, *, revision: str | None, repo_type: str) -> Any:
        self._called("info", repo_id, str(revision))
        if (repo_id, revision) not in self.revisions:
            raise http_error(errors.RevisionNotFoundError, 404)
        return SimpleNamespace(sha=self.revisions[repo_id, revision])

    def list_repo_tree(
        self, repo_id: str, path_in_repo: str | None, *, recursive: bool, revision: str, repo_type: str
    ) -> Iterator[RepoFile | RepoFolder]:
        assert recursive and repo_type == "dataset"
        self._called("tree", path_in_repo or "", revision)
        root = self._root(repo_id, revision)
        if not (root / (path_in_repo or "")).is_dir():
            raise http_error(errors.RemoteEntryNotFoundError, 404)
        for path in sorted((root / (path_in_repo or "")).rglob("*")):
            relative = str(path.relative_to(root))
            if path.is_dir():
                yield RepoFolder(path=relative, oid="0" * 40)
                continue
            yield _listed(path, relative)

    def get_paths_info(self, repo_id: str, paths: list[str], *, revision: str, repo_type: str) -> list[RepoFile | RepoFolder]:
        assert repo_type == "dataset"
        root = self._root(repo_id, revision)
        for path in paths:
            self._called("info", path, revision)
        return [_listed(root / path, path) for path in paths if (root / path).is_file()]

    def hf_hub_download(
        self, repo_id: str, filename: str, *, revision: str, repo_type: str, cache_dir: Path, force_download: bool
    ) -> str:
        self._called("download", filename, "anew" if force_download else "")
        source = self._root(repo_id, revision) / filename
        if not source.is_file():
            raise http_error(errors.RemoteEntryNotFoundError, 404)
        target = cache_dir / revision / filename
        if force_download or not target.exists():
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(source, target)
            if filename in self.damage:
                target.write_bytes(self.damage.pop(filename))
        return str(target)

    def _called(self, call: str, path: str, more: str) -> None:
        self.calls.append((call, path, more))
        self.before(call, path)

    def _root(self, repository: str, revision: str) -> Path:
        if (repository, revision) not in self.repositories:
            raise http_error(errors.RepositoryNotFoundError, 404)
        return self.repositories[repository, revision]


def _listed(file: Path, path: str) -> RepoFile:
    with file.open("rb") as opened:
        oid = hashlib.sha1(f"blob {file.stat().st_size}\0".encode())
        sha256 = hashlib.sha256()
        while data := opened.read(1 << 20):
            oid.update(data)
            sha256.update(data)
    size = file.stat().st_size
    lfs = {"oid": sha256.hexdigest(), "size": size, "pointerSize": 1}
    return RepoFile(path=path, size=size, oid=oid.hexdigest(), lfs=lfs if size >= LFS_FROM_BYTES else None)
