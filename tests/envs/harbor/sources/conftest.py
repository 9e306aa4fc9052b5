"""A cache, tools that tell what they did, and a shorthand for fetching an entry."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from platoon.envs.harbor.fetch import Fetched, fetch
from platoon.envs.harbor.options import HarborOptions
from platoon.envs.harbor.publish import HarborCache
from platoon.envs.harbor.sources.protocol import FetchTools
from tests.envs.harbor.fakes.repositories import Repository


@dataclass
class Fetching:
    """Fetches entries of a configuration in `base`. said: every line that stays."""

    base: Path
    cache: HarborCache
    said: list[str] = field(default_factory=list)
    environment: dict[str, str] = field(default_factory=lambda: dict(os.environ))
    more: dict[str, Any] = field(default_factory=dict)

    @property
    def tools(self) -> FetchTools:
        return FetchTools(
            self.cache,
            say=self.said.append,
            environment=self.environment,
            sleep=lambda seconds: None,
            jitter=lambda: 0.0,
            **self.more,
        )

    def __call__(self, options: Mapping[str, Any], *, update: bool = False, repair: bool = False) -> Fetched:
        tools = replace(self.tools, repair=repair)
        return fetch(HarborOptions.parse(options), self.base, self.cache, update=update, tools=tools)


def objects(fetching: Fetching) -> set[str]:
    """Ids of all blobs that the only store has."""
    (store,) = (fetching.cache.root / "git").iterdir()
    repository = Repository(store)
    listed = repository.git("cat-file", "--batch-check", "--batch-all-objects")
    return {line.split()[0] for line in listed.splitlines() if line.split()[1] == "blob"}


@pytest.fixture
def fetching(tmp_path: Path) -> Fetching:
    base = tmp_path / "config"
    base.mkdir()
    return Fetching(base, HarborCache(tmp_path / "cache" / "harbor"))


@pytest.fixture
def make_repository(tmp_path: Path) -> Callable[..., Repository]:
    """Makes a repository below the test's directory."""

    def make(name: str = "repository", **more: Any) -> Repository:
        return Repository.make(tmp_path / name, **more)

    return make


@pytest.fixture
def git_calls(tmp_path: Path, fetching: Fetching) -> Callable[[], list[str]]:
    """Notes every git command that fetching runs, without the settings it always has."""
    log = tmp_path / "git-calls"
    wrapper = tmp_path / "bin" / "git"
    wrapper.parent.mkdir()
    real = next(Path(folder, "git") for folder in os.environ["PATH"].split(":") if Path(folder, "git").exists())
    wrapper.write_text(f'#!/bin/sh\nprintf "%s\\n" "$*" >> {log}\nexec {real} "$@"\n')
    wrapper.chmod(0o755)
    fetching.environment["PATH"] = f"{wrapper.parent}:{fetching.environment['PATH']}"

    def calls() -> list[str]:
        if not log.exists():
            return []
        found = []
        for line in log.read_text().splitlines():
            words = line.split(" ")
            while words[:1] == ["-c"]:
                words = words[2:]
            found.append(" ".join(words))
        log.unlink()
        return found

    return calls
