"""Local git repositories, served over `file://` as a git server would: with filters, and commits by their ids."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

TASK_FILES: Mapping[str, str] = {
    "task.toml": 'schema_version = "1.4"\n',
    "instruction.md": "Do it.\n",
    "environment/data.csv": "a,b\n1,2\n",
    "tests/test.sh": "#!/bin/bash\necho 1 > /logs/verifier/reward.txt\n",
}
IDENTITY = ("-c", "user.name=n", "-c", "user.email=n@example", "-c", "commit.gpgsign=false", "-c", "protocol.file.allow=always")


@dataclass(frozen=True)
class Repository:
    """A repository with a work tree. url: its `file://` address."""

    path: Path

    @classmethod
    def make(cls, path: Path, *, object_format: str = "sha1") -> Repository:
        path.mkdir(parents=True)
        repository = cls(path)
        repository.git("init", "-q", "-b", "main", f"--object-format={object_format}")
        repository.git("config", "uploadpack.allowFilter", "true")
        repository.git("config", "uploadpack.allowAnySHA1InWant", "true")
        return repository

    @property
    def url(self) -> str:
        return f"file://{self.path}"

    def git(self, *arguments: str, stdin: bytes | None = None, date: str | None = None) -> str:
        """Standard output of git. date: of what it commits, instead of now."""
        env = {key: value for key, value in os.environ.items() if not key.startswith("GIT_")}
        env |= {"GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_NOSYSTEM": "1"}
        env |= {} if date is None else {"GIT_AUTHOR_DATE": date, "GIT_COMMITTER_DATE": date}
        result = subprocess.run(
            ["git", *IDENTITY, *arguments], cwd=self.path, env=env, input=stdin, capture_output=True, check=True
        )
        return result.stdout.decode().strip()

    def task(self, name: str, files: Mapping[str, str | None] | None = None) -> Path:
        """Writes a task directory; a file given as None is left out."""
        for path, text in {**TASK_FILES, **(files or {})}.items():
            if text is not None:
                target = self.path / name / path
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_text(text, encoding="utf-8")
        return self.path / name

    def tree(self, *entries: tuple[str, bytes, str]) -> str:
        """The id of a tree of modes, names and ids, which may be such as git's own commands would not write."""
        data = b"".join(mode.encode() + b" " + name + b"\0" + bytes.fromhex(oid) for mode, name, oid in entries)
        return self.git("hash-object", "-t", "tree", "-w", "--literally", "--stdin", stdin=data)

    def commit_tree(self, tree: str) -> str:
        """Makes a commit of a tree the head of `main`."""
        commit = self.git("commit-tree", "-m", "x", tree)
        self.git("update-ref", "refs/heads/main", commit)
        return commit

    def commit(self, message: str = "change", date: str | None = None) -> str:
        """Commits the whole work tree and gives the commit."""
        self.git("add", "-A", "-f")
        self.git("commit", "-q", "--allow-empty", "-m", message, date=date)
        return self.git("rev-parse", "HEAD")
