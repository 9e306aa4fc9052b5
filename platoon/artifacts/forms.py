"""The form that readers of a JSON value count on: every field that is missing or of another type is told, by its key."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, get_args

# Fields to what they hold: a type; the fields of a mapping; in a list, those of each of its rows; "*" for each value of a mapping
# by name. A type with None, and a list, may be absent. Whole numbers are numbers (float) too, truth values neither.
Form = Mapping[str, Any]
NAMES: Mapping[Any, str] = {str: "a text", int: "a whole number", float: "a number", dict: "a mapping", list: "a list"}


def form_faults(value: Mapping[str, Any], form: Form, where: str = "") -> Iterator[tuple[str, str]]:
    """Key and rule of each field that is not as `form` has it. where: the key of `value`, with a dot."""
    for key, wanted in ((key, form["*"]) for key in value) if "*" in form else form.items():
        found: Any = value.get(key)
        kinds = get_args(wanted) or (type(wanted) if isinstance(wanted, dict | list) else wanted,)
        if found is None and (len(kinds) > 1 or isinstance(wanted, list)):
            continue
        types: Any = int | float if kinds[0] is float else kinds[0]
        if not isinstance(found, types) or isinstance(found, bool):
            yield f"{where}{key}", f"must be {NAMES[kinds[0]]}" if key in value else "is missing"
        elif isinstance(wanted, dict):
            yield from form_faults(found, wanted, f"{where}{key}.")
        elif isinstance(wanted, list):
            rows = {str(number): row for number, row in enumerate(found)}
            yield from form_faults(rows, {"*": wanted[0]}, f"{where}{key}.")
