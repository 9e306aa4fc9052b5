"""Commands whose standard streams are closed or full end with the code they would have ended with."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from platoon import exits
from tests.envs.harbor.fakes.repositories import Repository

pytestmark = pytest.mark.process

CONFIG = "environments: [{name: e, service: harbor, harness: platoon-bash, service_kwargs: {dataset: data, provider: process}}]\n"


@pytest.mark.parametrize("streams", ["2>&-", "2>/dev/full", "<&- >&- 2>&-"])
@pytest.mark.parametrize(
    ("command", "code"),
    [
        ("harbor fetch c.yaml", exits.DONE),
        ("harbor fetch c.yaml --unknown", exits.USAGE),
        ("harbor fetch gone.yaml", exits.CONFIG),
        ("harbor plan data/b", exits.FAILED),
        ("show gone", exits.CONFIG),
    ],
)
def test_a_stream_that_takes_nothing_changes_no_exit_code(tmp_path: Path, command: str, code: int, streams: str) -> None:
    Repository(tmp_path / "data").task("a")
    Repository(tmp_path / "data").task("b", {"instruction.md": None})
    (tmp_path / "c.yaml").write_text(CONFIG)
    (tmp_path / "site.yaml").write_text("cache: cache\n")
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2]), "PLATOON_SITE": "site.yaml"}
    shell = f"exec {sys.executable} -m platoon {command} {streams}"
    run = subprocess.run(shell, check=False, shell=True, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=120)
    assert (run.returncode, run.stderr) == (code, "")
    if command == "harbor fetch c.yaml":
        # What would have gone to a closed stream went into no file that took its number.
        assert list(tmp_path.glob("cache/harbor/locks/*.lock.json"))
        assert not [path for path in tmp_path.glob("cache/**/*.lock") if path.read_bytes()]
