"""The Harbor CLI itself takes the command lines that fetching makes. No network is needed, but Python 3.12 and 400 MB: by hand."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from platoon.envs.harbor.sources.harbor_cli import VARIABLE, HarborCli
from tests.envs.harbor.sources.conftest import Fetching

DIGEST = "sha256:" + "a" * 64


pytestmark = pytest.mark.harbor


@pytest.fixture
def asked(tmp_path: Path, fetching: Fetching) -> Callable[[], list[tuple[str, str]]]:
    """Each command line that the CLI was asked to explain instead of to carry out, after its exit code."""
    log, script = tmp_path / "calls", tmp_path / "harbor"
    # The parser refuses what it does not know before --help ends it.
    script.write_text(f'#!/bin/sh\nharbor "$@" --help >/dev/null 2>&1\necho "$? $*" >> {log}\necho "{{}}"\n')
    script.chmod(0o755)
    fetching.environment[VARIABLE] = str(script)
    return lambda: [(code, line) for code, _, line in (text.partition(" ") for text in log.read_text().splitlines())]


def test_it_takes_our_command_lines(asked: Callable[[], list[tuple[str, str]]], fetching: Fetching, tmp_path: Path) -> None:
    cli = HarborCli.of(fetching.tools)
    cli.show("org/name@latest")
    cli.show(f"org/name@{DIGEST}", "--tasks", "--files")
    asyncio.run(cli.download(f"org/name@{DIGEST}", tmp_path / "out"))
    cli.show("org/name@1", "--nothing-it-knows")
    assert [code for code, _ in asked()] == ["0", "0", "0", "2"]
    assert [line.split()[:2] for _, line in asked()[1:3]] == [["version", "show"], ["download", f"org/name@{DIGEST}"]]
