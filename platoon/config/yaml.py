"""Reads YAML 1.2 as plain JSON values, within bounds.

Assumes nothing of the file. Guarantees that what it returns is a tree of dict (string keys), list, str, int, finite float, bool and
None; everything else is refused with the file and, where the parser knows it, the line. Repeated keys and merge keys (`<<`, which
YAML 1.2 dropped and which can double at each use) are refused. Aliases share; what they would expand to is bounded, so that a small
file cannot become a large value.

    read_yaml(Path("rl.yaml"))  ->  {"train": {"model_name": "local/small"}}
"""

from __future__ import annotations

import io
import math
import re
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.constructor import ConstructorError, SafeConstructor
from ruamel.yaml.error import MarkedYAMLError, YAMLError
from ruamel.yaml.reader import ReaderError
from ruamel.yaml.resolver import VersionedResolver

from platoon.config.files import read_text
from platoon.errors import ConfigError, Problem

SIZE_LIMIT_BYTES = 1024 * 1024
NODE_LIMIT = 100_000
DEPTH_LIMIT = 64
INTEGER_LIMIT = 2**63
# What the library raises of a text that is no YAML: its own errors, and Python's of versions, escapes and dates that cannot be.
PARSER_ERRORS = (YAMLError, ValueError, TypeError, AttributeError, AssertionError, OverflowError)

# What needs no parser, which is most of what stands in overrides: words that YAML 1.2 reads as text, and whole numbers.
_WORD = re.compile(r"(?!(?:null|true|false)$)[a-z][A-Za-z0-9_./-]*")
_WHOLE = re.compile(r"-?(?:0|[1-9][0-9]{0,17})")

# The core schema: what else stands unquoted is text.
_INTEGER = re.compile(r"[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+", re.ASCII)
_FLOAT = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)", re.ASCII)
_BASES = {"0o": 8, "0x": 16}
_TAG = "tag:yaml.org,2002:"
_SCHEMA = (
    ("null", "~nN", "~|null|Null|NULL"),
    ("bool", "tTfF", "true|True|TRUE|false|False|FALSE"),
    ("int", "+-0123456789", _INTEGER.pattern),
    ("float", "+-.0123456789", _FLOAT.pattern),
    ("merge", "<", "<<"),
)
# By the first character, as the library looks them up; the merge key is known so that it is refused.
_SCALARS = {
    first: [(f"{_TAG}{kind}", re.compile(rf"(?:{pattern})\Z")) for kind, firsts, pattern in _SCHEMA if first in firsts]
    for first in "~nNtTfF<+-.0123456789"
} | {"": [(f"{_TAG}null", re.compile(r"\Z"))]}


def read_yaml(path: Path, *, shown_as: str = "") -> Any:
    """The value of a YAML file, None when it is empty. Raises ConfigError for what the module says it refuses."""
    shown = shown_as or str(path)
    return parse_yaml(read_text(path, limit_bytes=SIZE_LIMIT_BYTES, shown_as=shown), shown)


def parse_yaml(text: str, shown_as: str) -> Any:
    """The value of YAML text; `shown_as` names the text in errors."""
    if _WORD.fullmatch(text):
        return text
    if _WHOLE.fullmatch(text):
        return int(text)
    try:
        value = _parser().load(io.StringIO(text))
    except RecursionError:
        raise ConfigError(Problem(f"is nested deeper than {DEPTH_LIMIT} levels", file=shown_as)) from None
    except PARSER_ERRORS as error:
        why, line = parser_fault(error, text)
        twice = re.match(r"found duplicate key(?: \"(.*?)\")?", why)
        sentence = f"the key {twice[1]!r} is given twice in one mapping" if twice else f"is not YAML 1.2: {why[:200]}"
        raise ConfigError(Problem(sentence, file=shown_as if line is None else f"{shown_as}:{line}")) from None
    check_value(value, shown_as)
    return value


def parser_fault(error: Exception, text: str) -> tuple[str, int | None]:
    """What is wrong with a text, and the line where the library tells it, of one of `PARSER_ERRORS`."""
    if isinstance(error, ReaderError):
        return f"the character U+{error.character:04X} is none of YAML", text.count("\n", 0, error.position) + 1
    if isinstance(error, MarkedYAMLError):
        mark = error.problem_mark or error.context_mark
        return " ".join(str(error.problem or error.context).split()), None if mark is None else mark.line + 1
    return " ".join(str(error).split()), None


def check_value(value: Any, shown_as: str) -> None:
    """Raises ConfigError unless `value` is a bounded tree of JSON values; aliases count as often as they are used."""
    count = 0
    ancestors: set[int] = set()
    # Each entry is a node to enter, or the id of a container to leave.
    pending: list[tuple[Any, tuple[str, ...], bool]] = [(value, (), False)]
    while pending:
        node, path, leaving = pending.pop()
        if leaving:
            ancestors.discard(id(node))
            continue
        count += 1
        key = ".".join(path)
        if count > NODE_LIMIT:
            raise ConfigError(Problem(f"holds more than {NODE_LIMIT} values once its aliases are expanded", file=shown_as))
        if not isinstance(node, dict | list):
            _check_scalar(node, key, shown_as)
            continue
        if id(node) in ancestors:
            raise ConfigError(Problem("an alias refers to what holds it", key=key, file=shown_as))
        if len(path) >= DEPTH_LIMIT:
            raise ConfigError(Problem(f"is nested deeper than {DEPTH_LIMIT} levels", key=".".join(path[:3]), file=shown_as))
        ancestors.add(id(node))
        pending.append((node, path, True))
        for name, child in node.items() if isinstance(node, dict) else enumerate(node):
            if isinstance(node, dict) and not isinstance(name, str):
                raise ConfigError(Problem(f"a key is a string, got {name!r}", key=key, file=shown_as, advice="quote it"))
            pending.append((child, (*path, str(name)), False))


def _check_scalar(node: Any, key: str, shown_as: str) -> None:
    if isinstance(node, float) and not math.isfinite(node):
        raise ConfigError(Problem(f"a number is finite, got {node}", key=key, file=shown_as))
    if isinstance(node, int) and not -INTEGER_LIMIT <= node < INTEGER_LIMIT:
        raise ConfigError(Problem("a whole number fits 64 bits", key=key, file=shown_as))
    if isinstance(node, str):
        if any(0xD800 <= ord(character) <= 0xDFFF for character in node):
            raise ConfigError(Problem("text is Unicode without surrogates", key=key, file=shown_as))
    elif node is not None and not isinstance(node, int | float):
        kind = type(node).__name__
        raise ConfigError(Problem(f"a {kind} is no configuration value", key=key, file=shown_as, advice="quote it to make it text"))


class _Resolver(VersionedResolver):  # type: ignore[misc]  # because the library has no types
    """Reads plain scalars by the core schema of YAML 1.2, whatever version a file says it is of; the library's own takes more."""

    @property
    def versioned_resolver(self) -> dict[str, list[tuple[str, re.Pattern[str]]]]:
        return _SCALARS


class _Constructor(SafeConstructor):  # type: ignore[misc]  # because the library has no types
    """Builds plain values; a merge key ends it before anything is copied."""

    def construct_whole_number(self, node: Any) -> int:
        text = str(self.construct_scalar(node))
        if not _INTEGER.fullmatch(text):
            raise ConstructorError(None, None, f"{text[:40]!r} is no whole number", node.start_mark)
        base = _BASES.get(text[:2], 10)
        return int(text if base == 10 else text[2:], base)

    def construct_number(self, node: Any) -> float:
        text = str(self.construct_scalar(node))
        if not _FLOAT.fullmatch(text) and not _INTEGER.fullmatch(text):
            raise ConstructorError(None, None, f"{text[:40]!r} is no number", node.start_mark)
        return float(text.replace(".", "") if text[-1].isalpha() else text)

    def flatten_mapping(self, node: Any) -> Any:
        for key, _ in node.value:
            if key.tag == "tag:yaml.org,2002:merge":
                raise ConstructorError(None, None, "merge keys (<<) are no part of YAML 1.2 (use extends)", key.start_mark)
        return super().flatten_mapping(node)


_Constructor.add_constructor(f"{_TAG}int", _Constructor.construct_whole_number)
_Constructor.add_constructor(f"{_TAG}float", _Constructor.construct_number)


def _parser() -> YAML:
    parser = YAML(typ="safe", pure=True)
    parser.Resolver = _Resolver
    parser.Constructor = _Constructor
    parser.allow_duplicate_keys = False
    return parser
