"""What a person or another program may have left at a path: read within bounds, or one error; never a wait, never a traceback."""

from __future__ import annotations

import errno
import json
import os
import re
import stat
import tomllib
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import platoon
from platoon import _native
from platoon.artifacts import reading
from platoon.artifacts.canonical import canonical_bytes, read_json
from platoon.artifacts.digests import git_blob_sha1, sha256_file, tree_files
from platoon.artifacts.publish import publish_bytes
from platoon.artifacts.reading import DEPTH_LIMIT, TOML_PARTS_LIMIT, open_regular, parse_json, parse_toml, read_part, read_regular
from platoon.artifacts.row_log import append_json_line, read_json_lines
from platoon.config.yaml import read_yaml
from platoon.errors import ConfigError
from platoon.host.console import Console
from platoon.images.owners import owners_of

pytestmark = pytest.mark.unit


def make_socket(path: Path) -> None:
    # Unlike bind, takes a path of any length.
    os.mknod(path, stat.S_IFSOCK | 0o600)


IRREGULAR: dict[str, Callable[[Path], object]] = {
    "fifo": os.mkfifo,
    "socket": make_socket,
    "directory": Path.mkdir,
    "device": lambda path: path.symlink_to("/dev/zero"),
}
RULE = "is not a regular file|Is a directory"


@pytest.mark.parametrize("kind", IRREGULAR)
@pytest.mark.parametrize("flags", [os.O_RDONLY, os.O_RDWR | os.O_CREAT, os.O_WRONLY | os.O_APPEND])
def test_only_regular_files_are_opened(flags: int, kind: str, tmp_path: Path) -> None:
    IRREGULAR[kind](tmp_path / "x")
    before = len(list(Path("/proc/self/fd").iterdir()))
    with pytest.raises(OSError, match=RULE) as refusal:
        open_regular(tmp_path / "x", flags)
    assert refusal.value.filename is not None and len(list(Path("/proc/self/fd").iterdir())) == before


# A regular file that opens, and whose first byte nobody can read.
FAILING = Path("/proc/self/mem")


@pytest.mark.parametrize(
    "read",
    [
        read_regular,
        lambda path: read_part(path, 2),
        sha256_file,
        git_blob_sha1,
        lambda path: tree_files(path.parent, [path.name]),
        _native.saved_files,
        lambda path: _native.layer_owners([(path, None, None, None, None)]),
        lambda path: owners_of([path]),
    ],
)
def test_a_read_that_fails_names_its_file(read: Callable[[Path], object]) -> None:
    with pytest.raises(OSError) as failure:
        read(FAILING)
    assert (failure.value.errno, Path(str(failure.value.filename))) == (errno.EIO, FAILING)
    for refuse in (lambda: read_yaml(FAILING), lambda: read_json(FAILING, "plan")):
        with pytest.raises(ConfigError, match=f"{FAILING}: .*Input/output error"):
            refuse()


@pytest.mark.parametrize("kind", IRREGULAR)
def test_readers_and_writers_of_documents_name_what_is_no_file(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "x"
    IRREGULAR[kind](path)
    with pytest.raises(ConfigError, match=f"{path}: not a readable plan: is not a regular file"):
        read_json(path, "plan")
    with pytest.raises(ConfigError, match=f"{path}: cannot be read: is not a regular file"):
        read_json_lines(path)
    with pytest.raises(OSError, match=RULE):
        append_json_line(path, {})
    with pytest.raises(OSError, match=RULE), Console().also_to(path):
        pass
    with pytest.raises(OSError, match="is no regular file, and is not replaced"):
        publish_bytes(path, b"x")


def test_a_file_is_read_up_to_its_bound(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(b"12345")
    assert read_regular(tmp_path / "x", 5) == read_regular(tmp_path / "x", None) == b"12345"
    with pytest.raises(OSError, match="has more than 4 bytes"):
        read_regular(tmp_path / "x", 4)


FAULTS = {
    "deep_list": (b"[" * 100_000, "is nested deeper than"),
    "deep_object": (b'{"a":' * 100_000 + b"1" + b"}" * 100_000, "is nested deeper than"),
    "one_too_deep": (b"[" * (DEPTH_LIMIT + 1) + b"]" * (DEPTH_LIMIT + 1), "is nested deeper than"),
    "surrogate": (rb'{"a": ["\ud800"]}', r"holds \\ud800 alone"),
    "surrogate_key": (rb'{"\uDfff": 1}', r"holds \\udfff alone"),
    "not_utf8": (b'{"a": "\xff"}', r"is not UTF-8 \(byte 7\)"),
    "utf16": ('{"a": 1}'.encode("utf-16"), "is not UTF-8"),
    "empty": (b"", "Expecting value"),
    "digits": (b"1" * 10_000, r"holds a number of more than 4300 digits \(at line 1\)"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_document_at_fault_is_one_error_with_file_and_advice(fault: str, tmp_path: Path) -> None:
    data, rule = FAULTS[fault]
    with pytest.raises(ValueError, match=rule):
        parse_json(data)
    (tmp_path / "x").write_bytes(data)
    with pytest.raises(ConfigError, match=rule) as refusal:
        read_json(tmp_path / "x", "plan", "make it again")
    assert str(refusal.value).startswith(f"{tmp_path / 'x'}: not a readable plan: ")
    assert str(refusal.value).endswith("(make it again)")
    (tmp_path / "x").write_bytes(data + b"\n{}\n")
    if data:
        with pytest.raises(ConfigError, match=rf"x:1: is no JSON: .*{rule}"):
            read_json_lines(tmp_path / "x")


@pytest.mark.parametrize(
    ("text", "key"),
    [('{"a": 1, "a": 1}', "'a'"), ('[{"b": {"é\\n": 1, "é\\u000a": 2}}]', r"'é\\n'"), (r'{"\ud800":1,"\ud800":2}', r"'\\ud800'")],
)
def test_a_key_twice_is_refused_where_people_write(text: str, key: str) -> None:
    parse_json(text.replace("ud800", "u0041"))
    with pytest.raises(ValueError, match=f"the key {key} is given twice"):
        parse_json(text, unique_keys=True)


@pytest.mark.parametrize(
    "value", [{"a": "\U0001f600"}, {"a": "é\\ud800"}, [[[]]] * 1000, json.loads("[" * DEPTH_LIMIT + "]" * DEPTH_LIMIT)]
)
def test_what_is_read_can_be_written(value: object) -> None:
    for text in (json.dumps(value).encode(), json.dumps(value, ensure_ascii=False)):
        assert parse_json(text) == value
    assert parse_json(canonical_bytes(value)) == value


@pytest.mark.parametrize("text", ["a = " + "[" * 5000, "a = " + "{a = " * 5000, ".".join("a" * 1000) + " = 1"])
def test_deep_toml_is_one_error(text: str) -> None:
    with pytest.raises(ValueError, match=r"nested deeper|too deep|maximum"):
        parse_toml(text)


DEEP = ".".join("a" * DEPTH_LIMIT)
# Texts of few bytes on which the parser would take memory or time by their square, or thousands of bytes for each.
COSTLY_TOML = {
    "dotted_key": ".".join("a" * 20_000) + " = 1",
    "dotted_key_without_value": ".".join("a" * 20_000),
    "spaced_key": " \t. ".join("a" * 1000) + " = 1",
    "quoted_key": ".".join(['"a.b"', "'#'"] * 1000) + " = 1",
    "header": "[" + ".".join("a" * 1000) + "]",
    "header_of_an_array": "[[ " + ".".join("a" * 1000) + " ]]",
    "key_of_an_inline_table": "x = {" + ".".join("a" * 1000) + " = 1}",
    "key_after_strings": 'x = \'\'\'["\'\'\'\ny = """\\"""""""\n' + ".".join("a" * 1000) + " = 1",
    "key_after_a_comment": '# it\'s """\r\n' + ".".join("a" * 1000) + " = 1",
    "many_dotted_keys": "".join(f"k{number}.{DEEP[:-4]} = 1\n" for number in range(200)),
    "dotted_keys_below_a_deep_header": f"[{DEEP}]\n" + "".join(f"k{number}.b.c.d = 1\n" for number in range(6000)),
    "many_headers": "".join(f"[k{number}.{DEEP[:120]}]\n" for number in range(500)),
    "many_headers_of_arrays": "[[a]]\n" * (TOML_PARTS_LIMIT + 1),
    "many_tables": "x = [" + "{a.b.c = {}}," * 7000 + "]",
    "many_keys": "".join(f"k{number} = []\n" for number in range(TOML_PARTS_LIMIT + 1)),
}


@pytest.mark.parametrize("kind", COSTLY_TOML)
def test_costly_toml_is_refused_before_it_is_parsed(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr("tomllib.loads")
    with pytest.raises(ValueError, match=r"nested deeper than 200 levels|keys of more than 20000 parts"):
        parse_toml(COSTLY_TOML[kind])


@pytest.mark.parametrize("number", ["0x" + "f" * 4000, "0b" + "1" * 20_000, "[{a = 0o" + "7" * 5000 + "}]", "1" * 5000])
def test_numbers_that_cannot_be_written(number: str) -> None:
    with pytest.raises(ValueError, match="4300 digits"):
        parse_toml(f"x = {number}")


@pytest.mark.parametrize(
    "text",
    [
        f"{DEEP} = 1",
        "".join(f"k{number} = 1.5\n" for number in range(TOML_PARTS_LIMIT)),
        "x = [" + "1.5,\n" * 30_000 + "]",
        'x = "' + "a.b = [" * 30_000 + '"',
        "x = '''" + "\na.b = [" * 30_000 + "'''",
        "# " + "a.b = [" * 30_000,
        "x = 0x" + "f" * 3000,
    ],
)
def test_large_toml_is_read(text: str) -> None:
    assert parse_toml(text) == tomllib.loads(text)


QUOTES = ["'", '"', "'''", '"""']
PIECES = ["a", "b.c", "a.b.c.d", "x = ", "1", ".", " ", "=", "[", "]", "{", "}", ",", "\n", "\r\n", "\\", "#", *QUOTES]


def _noting(parse_key: Callable[..., Any], seen: list[Any]) -> Callable[..., Any]:
    def noting(*given: Any) -> Any:
        seen.append(found := parse_key(*given))
        return found

    return noting


@settings(max_examples=300, deadline=None)
@given(st.lists(st.sampled_from(PIECES), max_size=14).map("".join))
def test_no_key_is_parsed_that_was_not_counted(text: str) -> None:
    """The text before parsing is read as the parser reads it: whatever key that sees was seen before."""
    seen = []
    with pytest.MonkeyPatch.context() as patch:
        parse_key = tomllib._parser.parse_key  # type: ignore[attr-defined]
        patch.setattr("tomllib._parser.parse_key", _noting(parse_key, seen))
        patch.setattr(reading, "DEPTH_LIMIT", 3)
        with suppress(ValueError):
            parse_toml(text)
        # A document of fewer brackets, dots and equals signs than the limit has no key beyond it either.
        assert all(len(key) <= 3 for _, key in seen), text
        patch.setattr(reading, "DEPTH_LIMIT", 1)
        patch.setattr(reading, "TOML_PARTS_LIMIT", 0)
        seen.clear()
        with suppress(ValueError):
            parse_toml(text)
        plain = text.replace("\r\n", "\n")
        assert not [key for position, key in seen if plain[position : position + 1] == "="], text


# Modules that parse texts of their own making, or stand outside the package when they run, or bound the parser otherwise.
OWN_PARSERS = {
    "artifacts/reading.py",
    "envs/harbor/substitution.py",
    "gateway/bodies.py",
    "harness/builtin/platoon_bash/platoon_bash.py",
    "local/bases.py",
    "local/launcher.py",
    "local/server.py",
    "rows/codec.py",
    "sampling/renderers/cookbook.py",
    "train/run_directory/identity.py",
}


def test_documents_are_parsed_in_one_place() -> None:
    root = Path(platoon.__file__).parent
    parsers = re.compile(r"\bjson\.loads?\(|\btomllib\.loads?\(")
    found = {str(path.relative_to(root)) for path in root.rglob("*.py") if parsers.search(path.read_text())}
    assert found == OWN_PARSERS
