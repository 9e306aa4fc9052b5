"""Names are UTF-8 whatever the locale of who runs a command: the same files lock to the same bytes."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from platoon import exits

pytestmark = pytest.mark.process

CONFIG = """
environments:
- {name: e, service: harbor, harness: platoon-bash, service_kwargs: {dataset: data, lock: e.lock.json, provider: process}}
"""
FILES = {"task.toml": "", "instruction.md": "löse es", "tests/test.sh": "true", "environment/ünï/cödé.txt": "x"}
START = "import sys; sys.path.insert(0, {!r}); from platoon.cli.main import main; main()"
C_LOCALE = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
ROOT = str(Path(__file__).resolve().parents[2])


@pytest.fixture
def latin(tmp_path: Path) -> dict[str, str]:
    """The variables of a Latin-1 locale."""
    folder = tmp_path / "locales/en_US.ISO-8859-1"
    folder.parent.mkdir()
    command = [shutil.which("localedef") or "true", "-i", "en_US", "-f", "ISO-8859-1", str(folder)]
    if subprocess.run(command, check=False, capture_output=True, timeout=60).returncode or not folder.is_dir():
        pytest.skip("this machine makes no locales")
    return {"LOCPATH": str(folder.parent), "LC_ALL": folder.name}


def write(root: Path) -> None:
    for name, text in FILES.items():
        path = root / "data/kä" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    (root / "site.yaml").write_text("cache: cache\n")
    (root / "e.yaml").write_text(CONFIG)


def locked(root: Path, variables: dict[str, str], *start: str) -> bytes:
    env = {**os.environ, "PYTHONPATH": ROOT, "PLATOON_SITE": str(root / "site.yaml"), **variables}
    for command in (["hash", "data/kä"], ["fetch", "e.yaml"], ["lock", "--check", "e.yaml"]):
        done = subprocess.run(
            [sys.executable, *start, "harbor", *command], timeout=60, cwd=root, env=env, capture_output=True, check=False
        )
        assert done.returncode == exits.DONE, done.stderr
    return (root / "e.lock.json").read_bytes()


@pytest.mark.parametrize(
    "start", [("-m", "platoon"), ("-X", "utf8=0", "-m", "platoon"), ("-I", "-c", START.format(ROOT))], ids=["-m", "-X", "-I"]
)
def test_a_locale_without_an_encoding(tmp_path: Path, start: tuple[str, ...]) -> None:
    write(tmp_path)
    text = locked(tmp_path, C_LOCALE, *start)
    assert '"kä"'.encode() in text
    assert "ünï/cödé.txt".encode() in text


@pytest.mark.parametrize("argv", [["-"], ["/dev/stdin"], ["-", "harbor"]])
def test_a_program_from_a_pipe_is_refused(tmp_path: Path, argv: list[str]) -> None:
    argv = [sys.executable, *argv, "--help"]
    env = {**os.environ, "PYTHONPATH": ROOT}
    text = START.format(ROOT).encode()
    done = subprocess.run(argv, input=text, timeout=60, cwd=tmp_path, env={**env, **C_LOCALE}, capture_output=True, check=False)
    assert (done.returncode, done.stdout) == (exits.CONFIG, b"")
    assert done.stderr.endswith(b"cannot be started again as UTF-8 (set PYTHONUTF8=1)\n")
    done = subprocess.run(
        argv, input=text, timeout=60, cwd=tmp_path, env={**env, "PYTHONUTF8": "1"}, capture_output=True, check=True
    )
    assert done.stdout.startswith(b"Usage: ")


def test_a_locale_of_another_encoding(tmp_path: Path, latin: dict[str, str]) -> None:
    write(tmp_path)
    assert '"kä"'.encode() in locked(tmp_path, latin, "-m", "platoon")
