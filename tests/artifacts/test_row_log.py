"""Row logs: what a crash tears is never read, never in the way of the next row, and nothing else is ever lost."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from platoon.artifacts.row_log import BLOCK_BYTES, append_json_line, read_json_lines
from platoon.errors import ConfigError
from tests.properties import examples

pytestmark = pytest.mark.unit


def values(path: Path) -> list[object]:
    return [line.value for line in read_json_lines(path)]


def test_a_log_that_is_not_there_has_no_lines(tmp_path: Path) -> None:
    assert read_json_lines(tmp_path / "rows.jsonl") == []


def test_a_row_cut_anywhere_is_left_out_and_never_merges_with_the_next(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    last = json.dumps({"step": 2, "text": "größe"}, ensure_ascii=False).encode()
    for end in range(len(last) + 1):
        path.write_bytes(b'{"step":1}\n' + last[:end])
        whole = [{"step": 1}, *([{"step": 2, "text": "größe"}] if end == len(last) else [])]
        assert values(path) == whole
        append_json_line(path, {"step": 3})
        assert values(path) == [*whole, {"step": 3}]
        assert path.read_bytes().endswith(b'\n{"step":3}\n')


@pytest.mark.parametrize(
    "torn", [b"\0\0\0\0", b"\0\0\0\n", b'{"a": \n\n', b"[" * 100_000, b"\xff\xfe{", b" \x0c\r", b'{"a": "' + b"x" * BLOCK_BYTES]
)
def test_whatever_a_power_cut_leaves_at_the_end_goes(torn: bytes, tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_bytes(b'{"step":1}\n' + torn)
    assert values(path) == [{"step": 1}]
    append_json_line(path, {"step": 2})
    assert values(path) == [{"step": 1}, {"step": 2}]


def test_a_line_that_is_no_json_before_the_last_is_refused_by_its_number(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_bytes(b'{"step":1}\n\nnonsense\n{"step":2}\n')
    with pytest.raises(ConfigError, match=r"rows\.jsonl:3: is no JSON: .*\(delete the line"):
        read_json_lines(path)


def test_a_place_that_cannot_be_read_is_a_refusal(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot be read: is not a regular file"):
        read_json_lines(tmp_path)


@examples(40)
@given(
    rows=st.lists(st.dictionaries(st.text(), st.text() | st.integers() | st.none(), max_size=3), max_size=6),
    tail=st.binary(max_size=40),
)
def test_what_was_appended_reads_back_whatever_followed_it(
    rows: list[dict[str, object]], tail: bytes, tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.mktemp("log") / "rows.jsonl"
    for row in rows:
        append_json_line(path, row)
    with path.open("ab") as file:
        file.write(tail.replace(b"\n", b""))
    append_json_line(path, {"last": True})
    found = values(path)
    assert found[: len(rows)] == rows and found[-1] == {"last": True}
