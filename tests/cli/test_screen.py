"""Standard streams that are closed, full, left by their reader or of a poor encoding change no exit code and lose no work."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from platoon import exits
from tests.envs.harbor.fakes.repositories import Repository

pytestmark = pytest.mark.process

CONFIG = "environments: [{name: e, service: harbor, harness: platoon-bash, service_kwargs: {dataset: data, provider: process}}]\n"


def run_shell(place: Path, command: str, **variables: str) -> subprocess.CompletedProcess[str]:
    Repository(place / "data").task("a")
    Repository(place / "data").task("b", {"instruction.md": None})
    Repository(place / "data").task("kä-日本-😀")
    (place / "c.yaml").write_text(CONFIG)
    (place / "site.yaml").write_text("cache: cache\n")
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2]), "PLATOON_SITE": "site.yaml", **variables}
    argv = ["bash", "-c", command]
    return subprocess.run(argv, check=False, cwd=place, env=environment, capture_output=True, text=True, timeout=120)


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
    run = run_shell(tmp_path, f"exec {sys.executable} -m platoon {command} {streams}")
    assert (run.returncode, run.stderr) == (code, "")
    if command == "harbor fetch c.yaml":
        # What would have gone to a closed stream went into no file that took its number.
        assert list(tmp_path.glob("cache/harbor/locks/*.lock.json"))
        assert not [path for path in tmp_path.glob("cache/**/*.lock") if path.read_bytes()]


@pytest.mark.parametrize(
    ("command", "code"),
    [
        ("harbor fetch c.yaml", exits.DONE),
        ("harbor fetch c.yaml 2>&1", exits.DONE),
        ("harbor hash data/a data/b", exits.DONE),
        ("harbor plan data/a", exits.DONE),
        ("harbor plan data/a --json", exits.DONE),
        ("harbor plan data/b", exits.FAILED),
        ("harbor plan --help", exits.DONE),
        ("harbor plan gone 2>&1", exits.CONFIG),
        ("harbor plan data/a --unknown 2>&1", exits.USAGE),
    ],
)
def test_a_reader_that_left_changes_no_exit_code(tmp_path: Path, command: str, code: int) -> None:
    run = run_shell(tmp_path, f"exec {{fd}}> >(true); wait $!; exec >&$fd; {sys.executable} -m platoon {command}")
    assert run.returncode == code, run.stderr
    assert "Traceback" not in run.stderr and "roken pipe" not in run.stderr
    assert "fetch" not in command or list(tmp_path.glob("cache/harbor/locks/*.lock.json"))


def test_results_that_do_not_fit_are_a_failure(tmp_path: Path) -> None:
    run = run_shell(tmp_path, f"{sys.executable} -m platoon harbor plan data/a >/dev/full")
    assert (run.returncode, run.stderr) == (exits.FAILED, "platoon: the system: No space left on device\n")


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "utf-8"])
@pytest.mark.parametrize(
    "command",
    [
        "harbor plan data/kä-日本-😀",
        "harbor hash data/kä-日本-😀 data/a",
        "show 日本",
        "harbor plan 日本",
    ],
)
def test_what_an_encoding_lacks_is_spelt_out(tmp_path: Path, command: str, encoding: str) -> None:
    run = run_shell(tmp_path, f"{sys.executable} -m platoon {command} >out 2>err", PYTHONIOENCODING=encoding)
    told = (tmp_path / "out").read_bytes() + (tmp_path / "err").read_bytes()
    assert run.returncode == (exits.CONFIG if command.endswith(" 日本") else exits.DONE), told
    assert ("日本" if encoding == "utf-8" else r"\u65e5\u672c") in told.decode(encoding)


@pytest.mark.parametrize("encoding", ["ascii", "latin-1"])
@pytest.mark.parametrize("command", ["harbor plan data/kä-日本-😀 --json", "harbor hash data/kä-日本-😀 --json"])
def test_json_is_json_in_every_encoding(tmp_path: Path, command: str, encoding: str) -> None:
    run = run_shell(tmp_path, f"{sys.executable} -m platoon {command} 2>/dev/null", PYTHONIOENCODING=encoding)
    assert "kä-日本-😀" in str(json.loads(run.stdout))
