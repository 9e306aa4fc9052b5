"""Which texts of a command are paths of the sandbox, and how output reads."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from platoon.sandbox.process.path_map import PathMap

pytestmark = pytest.mark.unit

FS = "/tmp/scratch/process-0123456789ab/fs"
MAP = PathMap(Path(FS), ["/work/dir", "/data"])


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("cat /app/x", f"cat {FS}/app/x"),
        ("cd /app", f"cd {FS}/app"),
        ("cd /app; ls", f"cd {FS}/app; ls"),
        ("cat '/app/x y'", f"cat '{FS}/app/x y'"),
        ('cat "/tests/a"', f'cat "{FS}/tests/a"'),
        ("x=/app:/logs", f"x={FS}/app:{FS}/logs"),
        ("echo hi>/tmp/x", f"echo hi>{FS}/tmp/x"),
        ("ls /work/dir/sub /work/other", f"ls {FS}/work/dir/sub /work/other"),
        ("ls /data", f"ls {FS}/data"),
        ("ls /application /app.d /apps /app-x /app_x", None),
        ("ls ./app ../app ~/app x/app /x/app $HOME/app ${HOME}/app $(pwd)/app", None),
        ("curl http://localhost:8000/app file:///app", None),
        (f"ls {FS}/app {FS}", None),
        ("ls /usr/bin /etc", None),
        ("no paths at all", None),
    ],
)
def test_commands(text: str, expected: str | None):
    assert MAP.command(text) == (text if expected is None else expected)


def test_rewriting_twice_changes_nothing_more():
    once = MAP.command("cat /app/x /tmp/y > /logs/z")
    assert MAP.command(once) == once


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("/app/x", f"{FS}/app/x"),
        ("x", f"{FS}/work/dir/x"),
        (".", f"{FS}/work/dir"),
        ("../../app", f"{FS}/app"),
        ("/", f"{FS}/tmp"),
        ("/app/../etc", "/etc"),
        (f"{FS}/app", f"{FS}/app"),
        ("/etc/passwd", "/etc/passwd"),
    ],
)
def test_paths(path: str, expected: str):
    assert str(MAP.host(path, "/work/dir")) == expected


def test_output_names_the_sandboxs_paths():
    assert MAP.output(f"{FS}/app/x: no; {FS}".encode()) == b"/app/x: no; /"
    assert MAP.output(b"\xff\x00") == b"\xff\x00"


@given(st.text())
def test_any_text_survives_the_way_there_and_back(text: str):
    there = MAP.command(text)
    assert MAP.output(there.encode("utf-8", "surrogatepass")).decode("utf-8", "surrogatepass") == text or FS in text


@given(st.lists(st.sampled_from([FS, f"{FS}/app", "ab", "a", "\n", "é"]), max_size=8), st.data())
def test_what_is_seen_is_what_is_edited(parts: list[str], data: st.DataObject):
    kept = "".join(parts).encode()
    seen = MAP.output(kept)
    start = data.draw(st.integers(0, len(seen)))
    end = data.draw(st.integers(start, len(seen)))
    edited = MAP.edited(kept, start, end, b"new")
    assert MAP.output(edited) == seen[:start] + b"new" + seen[end:]
    assert MAP.edited(kept, start, start, b"") == kept
