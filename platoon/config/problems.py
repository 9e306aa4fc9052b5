"""From pydantic's errors to `errors.Problem`: dotted key, value, the rule in words, the nearest known key for an unknown one."""

from __future__ import annotations

import re
import types
import typing
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails

from platoon.config.model import PROBLEMS_ERROR, did_you_mean, nearest
from platoon.config.text import counted, printable, show
from platoon.errors import Problem

# Error types of pydantic whose own message does not speak of configuration.
_RULES: Mapping[str, str] = {
    "missing": "is required",
    "int_type": "must be a whole number",
    "int_from_float": "must be a whole number",
    "int_parsing": "must be a whole number",
    "float_type": "must be a number",
    "float_parsing": "must be a number",
    "finite_number": "must be a finite number",
    "bool_type": "must be true or false",
    "bool_parsing": "must be true or false",
    "string_type": "must be text",
    "dict_type": "must be a mapping",
    "list_type": "must be a list",
    "tuple_type": "must be a list",
    "model_type": "must be a mapping",
    "none_required": "must be null",
    "path_type": "must be a path",
}
_BOUNDS: Mapping[str, tuple[str, str]] = {
    "greater_than": ("must be above", "gt"),
    "greater_than_equal": ("must be at least", "ge"),
    "less_than": ("must be below", "lt"),
    "less_than_equal": ("must be at most", "le"),
    "multiple_of": ("must be a multiple of", "multiple_of"),
}

_LENGTHS: Mapping[str, tuple[str, str, str]] = {
    "too_short": ("must be a list of at least {}", "min_length", "item"),
    "too_long": ("must be a list of at most {}", "max_length", "item"),
    "string_too_short": ("must be text of at least {}", "min_length", "character"),
    "string_too_long": ("must be text of at most {}", "max_length", "character"),
}

FileOf = Callable[[tuple[str, ...]], str]


def from_validation_error(error: ValidationError, model: type[Any], values: Any, file_of: FileOf) -> list[Problem]:
    """Every problem of one validation, in order of place.

    Of a union the alternatives that the value is nearest to are told; those that it is of another type than are one problem.
    """
    rules: dict[tuple[str, ...], list[str]] = {}
    found: list[Problem | tuple[tuple[str, ...], str]] = []
    for item in _nearest_branches(error.errors(include_url=False), model, values):
        kind, context = item["type"], item.get("ctx", {})
        path = _place(item["loc"], values, kind)
        if kind == PROBLEMS_ERROR:
            found.extend(_placed(problem, path, file_of) for problem in context["problems"])
        elif kind == "extra_forbidden":
            problem = _unknown_key(model, path, file_of)
            if problem not in found:
                found.append(problem)
        else:
            if path not in rules:
                found.append((path, "" if kind == "missing" else f", got {show(item['input'])}"))
            rule = _rule(kind, item["msg"], context)
            if rule not in rules.setdefault(path, []):
                rules[path].append(rule)
    return [
        item
        if isinstance(item, Problem)
        else Problem(" or ".join(rules[item[0]]) + item[1], key=".".join(item[0]), file=file_of(item[0]))
        for item in found
    ]


def _unknown_key(model: type[Any], path: tuple[str, ...], file_of: FileOf) -> Problem:
    forms = [_fields(found).keys() for found in _at(model, path[:-1]) if _is_model(found)]
    if any(path[-1] in names for names in forms):
        others = sorted({name for names in forms if path[-1] not in names for name in names})
        return Problem(
            f"does not go with {', '.join(others)}", key=".".join(path), file=file_of(path), advice="give one or the other"
        )
    return Problem("unknown key", key=".".join(path), file=file_of(path), advice=nearest(path[-1], known_keys(model, path[:-1])))


def _nearest_branches(errors: Sequence[ErrorDetails], model: type[Any], values: Any) -> list[ErrorDetails]:
    """The errors without those of a union's alternatives that the value is further from than from another.

    A value that mixes alternatives, each of which refuses a key of another, is told by the first.
    """
    branches: dict[tuple[str, ...], dict[str, list[ErrorDetails]]] = {}
    for item in errors:
        place, branch = _branch(item["loc"], values, item["type"])
        branches.setdefault(place, {}).setdefault(branch, []).append(item)
    left_out: set[int] = set()
    for place, found in branches.items():
        named = {branch: items for branch, items in found.items() if branch}
        distances = {branch: _distance(place, branch, items, model, values) for branch, items in named.items()}
        least = min(distances.values(), default=None)
        near = [branch for branch in named if distances[branch] == least]
        if all(_refuses_key_of_another(named[branch], model, values) for branch in near):
            near = near[:1]
        left_out |= {id(item) for branch, items in named.items() if branch not in near for item in items}
    return [item for item in errors if id(item) not in left_out]


def _refuses_key_of_another(items: Sequence[ErrorDetails], model: type[Any], values: Any) -> bool:
    paths = (_place(item["loc"], values, item["type"]) for item in items if item["type"] == "extra_forbidden")
    return any(path[-1] in known_keys(model, path[:-1]) for path in paths)


def _distance(
    place: tuple[str, ...], branch: str, items: Sequence[ErrorDetails], model: type[Any], values: Any
) -> tuple[bool, int, bool]:
    """How far the value at a place is from an alternative: whether it is of another type, how many keys it has too many or too few,
    whether none of those is a slip of the pen.
    """
    is_other, others, unknown = False, 0, set()
    for item in items:
        path = _place(item["loc"], values, item["type"])
        inner = item["type"] == PROBLEMS_ERROR and any(problem.key for problem in item["ctx"]["problems"])
        if len(path) == len(place) and not inner:
            is_other = True
        elif len(path) == len(place) + 1 and item["type"] in ("missing", "extra_forbidden"):
            others += 1
            unknown |= {path[-1]} if item["type"] == "extra_forbidden" else set()
    # An alternative is told by its type, a model with checks as `function-after[_run_checks(), Name]`.
    models = [found for found in _at(model, place) if _is_model(found) and found.__name__ in re.findall(r"\w+", branch)]
    known = {name for found in models for name in _fields(found)}
    return is_other, others, not any(did_you_mean(key, known) for key in unknown)


def _branch(location: tuple[int | str, ...], values: Any, kind: str) -> tuple[tuple[str, ...], str]:
    """The place of the first union on the way to an error, and the name of its alternative; "" where there is none."""
    before: tuple[str, ...] = ()
    for count in range(1, len(location) + 1):
        path = _place(location[:count], values, kind if count == len(location) else "")
        if len(path) == len(before):
            return before, str(location[count - 1])
        before = path
    return before, ""


def _placed(problem: Problem, path: tuple[str, ...], file_of: FileOf) -> Problem:
    full = (*path, *(problem.key.split(".") if problem.key else ()))
    return Problem(problem.rule, key=".".join(full), file=problem.file or file_of(full), advice=problem.advice)


def _rule(kind: str, message: str, context: Mapping[str, Any]) -> str:
    if kind in _RULES:
        return _RULES[kind]
    if kind in _BOUNDS:
        words, bound = _BOUNDS[kind]
        limit = context[bound]
        return f"{words} {int(limit) if limit == int(limit) else limit}"
    if kind in ("literal_error", "enum"):
        return f"must be one of {context['expected'].replace(chr(39), '')}"
    if kind in _LENGTHS:
        words, bound, item = _LENGTHS[kind]
        return words.format(counted(context[bound], item))
    if kind == "string_pattern_mismatch":
        return f"must match {context['pattern']}"
    message = message.removeprefix("Value error, ")
    return message[:1].lower() + message[1:]


def _place(location: tuple[int | str, ...], values: Any, kind: str) -> tuple[str, ...]:
    """The part of pydantic's location that is a path of the input: names of union branches are left out."""
    path: list[str] = []
    node = values
    for position, part in enumerate(location):
        last = position == len(location) - 1
        if isinstance(node, dict) and isinstance(part, str) and (part in node or (last and kind in ("missing", "extra_forbidden"))):
            node = node.get(part)
        elif isinstance(node, list) and isinstance(part, int) and part < len(node):
            node = node[part]
        else:
            continue
        path.append(str(part))
    return tuple(map(printable, path))


def known_keys(model: type[Any], path: Iterable[str]) -> set[str]:
    """The keys a mapping at `path` below `model` may have; empty where that is anybody's choice."""
    return {name for annotation in _at(model, path) if _is_model(annotation) for name in _fields(annotation)}


def _at(model: type[Any], path: Iterable[str]) -> list[Any]:
    """What may stand at a path below a model: its types, the alternatives of unions each by itself."""
    here: list[Any] = [model]
    for part in path:
        here = [child for annotation in here for child in _below(annotation, part)]
    return here


def _below(annotation: Any, part: str) -> Iterator[Any]:
    if _is_model(annotation):
        if (info := _fields(annotation).get(part)) is not None:
            yield from _alternatives(info.annotation)
    else:
        for argument in typing.get_args(annotation)[-1:] or ():
            yield from _alternatives(argument)
        if typing.get_origin(annotation) is tuple:
            for argument in typing.get_args(annotation)[:1]:
                yield from _alternatives(argument)


def _alternatives(annotation: Any) -> Iterator[Any]:
    origin = typing.get_origin(annotation)
    if origin in (typing.Union, types.UnionType):
        for argument in typing.get_args(annotation):
            yield from _alternatives(argument)
    elif origin is typing.Annotated:
        yield from _alternatives(typing.get_args(annotation)[0])
    else:
        yield annotation


def _is_model(annotation: Any) -> bool:
    return isinstance(annotation, type) and issubclass(annotation, BaseModel)


def _fields(model: type[BaseModel]) -> dict[str, FieldInfo]:
    return {info.alias or name: info for name, info in model.model_fields.items()}
