"""What the keys of a model mean: the text below each field, as pages and schemas show it.

Read from the source when it is asked for. Pydantic would read it as each class is made, which costs the workflow a twentieth of its
start and helps no run.
"""

from __future__ import annotations

import ast
import inspect
from functools import cache
from itertools import pairwise
from types import ModuleType

from pydantic import BaseModel


def meanings(model: type[BaseModel]) -> dict[str, str]:
    """Field -> meaning, of inherited fields too; a field without a text is left out."""
    found: dict[str, str] = {}
    for part in reversed(model.__mro__):
        if issubclass(part, BaseModel) and part is not BaseModel and (module := inspect.getmodule(part)) is not None:
            found.update(_texts(module).get(part.__qualname__, {}))
    return found


@cache
def _texts(module: ModuleType) -> dict[str, dict[str, str]]:
    """The texts of every class at the top of a module."""
    classes = (node for node in ast.parse(inspect.getsource(module)).body if isinstance(node, ast.ClassDef))
    return {node.name: dict(_below_fields(node)) for node in classes}


def _below_fields(node: ast.ClassDef) -> list[tuple[str, str]]:
    return [
        (field.target.id, inspect.cleandoc(text.value.value))
        for field, text in pairwise(node.body)
        if isinstance(field, ast.AnnAssign)
        and isinstance(field.target, ast.Name)
        and isinstance(text, ast.Expr)
        and isinstance(text.value, ast.Constant)
        and isinstance(text.value.value, str)
    ]
