"""A compose file's YAML as a tree, bounded and without surprises.

Assumes nothing of the text. YAML 1.2 as compose reads it: anchors, aliases and merge keys (`<<`) are resolved, repeated keys are
refused, and so are tags, dates, keys that are no text, several documents, and files that expand beyond the limits below. Aliases
share their value, so a bomb costs what its text costs. A plain number keeps its text beside its value, since compose turns `017`
into 15 where a string is meant.
"""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, TypeAlias

from ruamel.yaml import YAML
from ruamel.yaml.events import (
    AliasEvent,
    DocumentStartEvent,
    MappingEndEvent,
    MappingStartEvent,
    ScalarEvent,
    SequenceEndEvent,
    SequenceStartEvent,
)

from platoon.config.yaml import PARSER_ERRORS, parser_fault
from platoon.envs.harbor.compose.errors import ComposeError

SIZE_LIMIT_BYTES = 256 * 1024
NODE_LIMIT = 20_000
TEXT_LIMIT = 4 * 1024 * 1024
DEPTH_LIMIT = 64
INTEGER_LIMIT = 2**64
MERGE = "<<"

_VERSION = (1, 1)
_PREFIX = "tag:yaml.org,2002:"
_NULLS = frozenset({"", "~", "null", "Null", "NULL"})
_BOOLEANS = {"true": True, "True": True, "TRUE": True, "false": False, "False": False, "FALSE": False}
_INTEGER = re.compile(r"[-+]?(?:0[bB][01_]+|0[oO][0-7_]+|0[xX][0-9a-fA-F_]+|[0-9][0-9_]*)")
_FLOAT = re.compile(r"[-+]?(?:\.[0-9]+|[0-9][0-9_]*(?:\.[0-9_]*)?)(?:[eE][-+]?[0-9]+)?")
_SPECIAL = re.compile(r"[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)")
# A file may write them as escapes alone: no program is handed a NUL, and no UTF-8 has half a surrogate pair.
_UNWRITABLE = re.compile("[\0\ud800-\udfff]")
_DATE = re.compile(r"[0-9]{4}-[0-9]{1,2}-[0-9]{1,2}(?:[Tt ][0-9:.]+(?:Z|[-+][0-9:]+)?)?")


@dataclass(frozen=True)
class Number:
    """A plain number: its value, and its text as written."""

    value: int | float
    text: str

    @property
    def decimal(self) -> str:
        """The text compose makes of it where a string is meant."""
        return str(self.value) if isinstance(self.value, int) else _go_text(self.value)


Tree: TypeAlias = "bool | str | Number | list[Any] | dict[str, Any] | None"

# Tags of plain values beside text, and what they fit.
_FITS: Mapping[str, Callable[[Tree], bool]] = {
    f"{_PREFIX}null": lambda value: value is None,
    f"{_PREFIX}bool": lambda value: isinstance(value, bool),
    f"{_PREFIX}int": lambda value: isinstance(value, Number) and isinstance(value.value, int),
    f"{_PREFIX}float": lambda value: isinstance(value, Number),
}


def parse_document(data: bytes, shown_as: str) -> Tree:
    """The tree of a file, an empty mapping where it holds no document. Raises ComposeError naming file and line."""
    if len(data) > SIZE_LIMIT_BYTES:
        raise ComposeError(f"has more than {SIZE_LIMIT_BYTES} bytes", shown_as)
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ComposeError(f"is not UTF-8 (byte {error.start})", shown_as) from None
    builder = _Builder(shown_as)
    try:
        for event in YAML(typ="safe", pure=True).parse(io.StringIO(text)):
            builder.take(event)
    except (*PARSER_ERRORS, RecursionError) as error:
        why, line = parser_fault(error, text)
        raise ComposeError(f"is not YAML: {why[:150]}", shown_as if line is None else f"{shown_as}:{line}") from None
    return builder.value if builder.documents else {}


@dataclass
class _Open:
    """A collection under construction. key: the key that waits for its value. merges: mappings to lay below, first wins."""

    line: int
    anchor: str | None
    keys: bool
    items: dict[str, Any] = field(default_factory=dict)
    values: list[Any] = field(default_factory=list)
    key: str | None = None
    merges: list[dict[str, Any]] = field(default_factory=list)
    merging: bool = False
    merged: bool = False

    @property
    def wants_key(self) -> bool:
        return self.keys and self.key is None and not self.merging


class _Builder:
    """From parser events to a tree. Sizes are counted with aliases expanded, before anything is copied."""

    def __init__(self, shown_as: str) -> None:
        self.value: Tree = None
        self._shown_as = shown_as
        self._open: list[_Open] = []
        self._anchors: dict[str, Tree] = {}
        self._sizes: dict[int, tuple[int, int]] = {}
        self._nodes = self._characters = self.documents = 0

    def take(self, event: Any) -> None:
        line = event.start_mark.line + 1 if event.start_mark is not None else 0
        if isinstance(event, DocumentStartEvent):
            self.documents += 1
            if self.documents > 1:
                raise self._error("holds more than one document", line)
            if event.version is not None and tuple(event.version) != _VERSION:
                raise self._error("has a %YAML directive, which compose takes of 1.1 alone (leave it out)", line)
        elif isinstance(event, ScalarEvent):
            self._scalar(event, line)
        elif isinstance(event, AliasEvent):
            self._alias(str(event.anchor), line)
        elif isinstance(event, MappingStartEvent | SequenceStartEvent):
            is_mapping = isinstance(event, MappingStartEvent)
            if event.tag not in (None, f"{_PREFIX}{'map' if is_mapping else 'seq'}"):
                what = "a mapping" if is_mapping else "a list"
                raise self._error(f"the tag {_shown_tag(event.tag)} is not planned of {what}", line)
            if self._open and self._open[-1].wants_key:
                raise self._error("a key is text, got a mapping or a list", line)
            if len(self._open) >= DEPTH_LIMIT:
                raise self._error(f"is nested deeper than {DEPTH_LIMIT} levels", line)
            self._open.append(_Open(line, event.anchor, is_mapping))
        elif isinstance(event, MappingEndEvent | SequenceEndEvent):
            self._close()

    def _scalar(self, event: Any, line: int) -> None:
        plain = event.style is None or event.style == ""
        holder = self._open[-1] if self._open else None
        if holder is not None and holder.wants_key:
            if plain and event.tag in (None, "!") and event.value == MERGE:
                if holder.merged:
                    raise self._error(f"the key {MERGE!r} is given twice (a list merges several)", line)
                holder.merging = holder.merged = True
                return
            value = self._resolved(event, plain, line)
            if not isinstance(value, str):
                raise self._error(f"a key is text, got {event.value[:40]!r} (quote it)", line)
            if value in holder.items:
                raise self._error(f"the key {value[:60]!r} is given twice", line)
            self._count(1, len(value), line)
            holder.items[value] = None
            holder.key = value
            if event.anchor is not None:
                self._anchors[str(event.anchor)] = value
            return
        self._put(self._resolved(event, plain, line), event.anchor, line, (1, len(event.value)))

    def _resolved(self, event: Any, plain: bool, line: int) -> Tree:
        text: str = event.value
        tag = event.tag
        if (bad := _UNWRITABLE.search(text)) is not None:
            raise self._error("holds a NUL character" if bad[0] == "\0" else "holds half a surrogate pair", line)
        if tag is not None and tag not in ("!", f"{_PREFIX}str"):
            fits = _FITS.get(tag)
            if fits is None:
                raise self._error(f"the tag {_shown_tag(tag)} is not planned of a scalar", line)
            value = self._read(text, line)
            if not fits(value):
                raise self._error(f"{text[:40]!r} is no value of the tag {_shown_tag(tag)}", line)
            return value
        return text if tag is not None or not plain else self._read(text, line)

    def _read(self, text: str, line: int) -> Tree:
        try:
            return _plain(text)
        except ComposeError as error:
            raise self._error(error.why, line) from None

    def _alias(self, anchor: str, line: int) -> None:
        if anchor not in self._anchors:
            raise self._error(f"the alias *{anchor[:40]} refers to no anchor before it, or to what holds it", line)
        value = self._anchors[anchor]
        holder = self._open[-1] if self._open else None
        if holder is not None and holder.wants_key:
            raise self._error("an alias is no key", line)
        self._put(value, None, line, self._sizes.get(id(value), (1, len(value) if isinstance(value, str) else 0)))

    def _close(self) -> None:
        done = self._open.pop()
        if not done.keys:
            self._put(done.values, done.anchor, done.line, None)
            return
        for merged in done.merges:
            for key, value in merged.items():
                if key not in done.items:
                    done.items[key] = value
        self._put(done.items, done.anchor, done.line, None)

    def _put(self, value: Tree, anchor: str | None, line: int, size: tuple[int, int] | None) -> None:
        if size is None:
            # Counted by its parts already; what it expands to is kept for aliases to it.
            children = list(value.values() if isinstance(value, dict) else value if isinstance(value, list) else ())
            sizes = [self._sizes.get(id(child), (1, len(child) if isinstance(child, str) else 0)) for child in children]
            self._sizes[id(value)] = (1 + sum(nodes for nodes, _ in sizes), sum(characters for _, characters in sizes))
            self._count(1, 0, line)
        else:
            self._count(*size, line)
        if anchor is not None:
            self._anchors[str(anchor)] = value
        holder = self._open[-1] if self._open else None
        if holder is None:
            self.value = value
        elif not holder.keys:
            holder.values.append(value)
        elif holder.merging:
            holder.merging = False
            holder.merges.extend(self._mappings(value, line))
            for merged in holder.merges[-100:]:
                nodes, characters = self._sizes.get(id(merged), (len(merged), 0))
                self._count(nodes, characters, line)
        elif holder.key is not None:
            holder.items[holder.key] = value
            holder.key = None

    def _mappings(self, value: Tree, line: int) -> Iterator[dict[str, Any]]:
        for item in value if isinstance(value, list) else [value]:
            if not isinstance(item, dict):
                raise self._error("a merge key (<<) takes mappings", line)
            yield item

    def _count(self, nodes: int, characters: int, line: int) -> None:
        self._nodes += nodes
        self._characters += characters
        if self._nodes > NODE_LIMIT:
            raise self._error(f"holds more than {NODE_LIMIT} values once its aliases are expanded", line)
        if self._characters > TEXT_LIMIT:
            raise self._error(f"holds more than {TEXT_LIMIT} characters once its aliases are expanded", line)

    def _error(self, why: str, line: int) -> ComposeError:
        return ComposeError(why, f"{self._shown_as}:{line}")


def _plain(text: str) -> Tree:
    if text in _NULLS:
        return None
    if text in _BOOLEANS:
        return _BOOLEANS[text]
    if text[0] in "-+.0123456789":
        # What no 64 bits hold is a float, as compose reads it.
        if _INTEGER.fullmatch(text) and (value := _integer(text)) is not None and -INTEGER_LIMIT // 2 <= value < INTEGER_LIMIT:
            return Number(value, text)
        if _FLOAT.fullmatch(text):
            number = float(text.replace("_", ""))
            return Number(number, text) if abs(number) != float("inf") else text
        if _SPECIAL.fullmatch(text):
            raise ComposeError(f"{text} is no number here (quote it)")
        if _DATE.fullmatch(text):
            raise ComposeError(f"{text[:40]} is read as a date (quote it)")
    return text


def _integer(text: str) -> int | None:
    digits = text.replace("_", "")
    sign, body = (-1, digits[1:]) if digits[0] == "-" else (1, digits.lstrip("+"))
    if len(body) > 100:
        return None
    try:
        if body[:2].lower() in ("0x", "0o", "0b"):
            return sign * int(body, 0)
        # A leading zero is octal where the digits allow it, as compose reads it.
        return sign * (int(body, 8) if len(body) > 1 and body[0] == "0" and not set("89") & set(body) else int(body, 10))
    except ValueError:
        return None


def _go_text(value: float) -> str:
    """The shortest text of a finite float as Go prints it: an exponent below -4 or from 6 on is written."""
    sign = "-" if repr(value).startswith("-") else ""
    _, digits, exponent = Decimal(repr(abs(value))).normalize().as_tuple()
    power = int(exponent)
    text = "".join(map(str, digits))
    point = len(text) + power
    if value == 0:
        return f"{sign}0"
    if not -4 <= point - 1 < 6:
        fraction = f".{text[1:]}" if len(text) > 1 else ""
        return f"{sign}{text[0]}{fraction}e{'-' if point < 1 else '+'}{abs(point - 1):02d}"
    if point <= 0:
        return f"{sign}0.{'0' * -point}{text}"
    return f"{sign}{text}{'0' * (point - len(text))}" if point >= len(text) else f"{sign}{text[:point]}.{text[point:]}"


def _shown_tag(tag: str) -> str:
    return tag.replace(_PREFIX, "!!")[:40]
