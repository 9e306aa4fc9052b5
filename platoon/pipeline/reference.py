"""What is generated from the models: JSON schemas for editors and the workflow, and the reference page of all keys."""

from __future__ import annotations

import json
import typing
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from pydantic import BaseModel
from pydantic.fields import FieldInfo
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue

from platoon.config.meanings import meanings
from platoon.config.model import ConfigModel
from platoon.envs.harbor.options import HarborOptions
from platoon.eval.config_defs import EvaluationConfig
from platoon.pipeline.compose_page import PAGE as COMPOSE_PAGE
from platoon.pipeline.compose_page import compose_page
from platoon.pipeline.recipe import Recipe
from platoon.site import SiteFile
from platoon.train.config_defs.run import RunConfig

DIALECT = "https://json-schema.org/draft/2020-12/schema"
SCHEMAS = "workflow/schemas"
PAGE = "docs/reference/config.md"

# Name -> (model, heading of the page, what it is).
MODELS: Mapping[str, tuple[type[ConfigModel], str, str]] = {
    "recipe": (Recipe, "Recipe", "`recipe.yaml`: runs, what they start from, and evaluations."),
    "train": (RunConfig, "Training", "A training configuration: the file a run of a recipe names."),
    "evaluation": (EvaluationConfig, "Evaluation", "An evaluation: the file an evaluation of a recipe names."),
    "harbor": (HarborOptions, "Harbor environments", "`service_kwargs` of an environment with `service: harbor`."),
    "site": (SiteFile, "Site", "The site file: where this machine keeps what runs share. Paths are relative to the file."),
}

INTRODUCTION = """# Configuration keys

This page is generated from the models that check configurations (`make docs`).

A file is YAML 1.2. `extends:` names one file or a list to lay below it: mappings merge, everything else replaces, and so do
free-form mappings (`*_kwargs`, `*_options`, `loss_fn_config`, `extra`). On a command line `a.b=value` and `a.0.b=value` set a key
and `a.b+=item` adds to a list. Paths are relative to the file that names them. Every problem of all files is reported at once
(exit 78).
"""


def generated() -> dict[str, str]:
    """Every generated file: path below the checkout to text."""
    files = {f"{SCHEMAS}/{name}.schema.json": _schema(model) for name, (model, _, _) in MODELS.items()}
    return {**files, PAGE: _page(), COMPOSE_PAGE: compose_page()}


def write(root: Path) -> list[str]:
    """Writes what differs below a checkout; the paths written."""
    changed = []
    for name, text in generated().items():
        path = root / name
        if not path.is_file() or path.read_text(encoding="utf-8") != text:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
            changed.append(name)
    return changed


class _Schemas(GenerateJsonSchema):
    """With the meaning of each key. A key that takes its default alone is judged by a function; the schema says nothing of it."""

    def model_schema(self, schema: Any) -> JsonSchemaValue:
        value = super().model_schema(schema)
        for name, text in meanings(schema["cls"]).items():
            if (key := schema["cls"].model_fields[name].alias or name) in value["properties"]:
                value["properties"][key]["description"] = text
        return value

    def function_plain_schema(self, schema: Any) -> JsonSchemaValue:
        return {}


def _schema(model: type[ConfigModel]) -> str:
    value = {"$schema": DIALECT, **model.model_json_schema(by_alias=True, schema_generator=_Schemas)}
    if "properties" in value:
        value["properties"]["extends"] = {"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}]}
    return json.dumps(value, indent=1, sort_keys=True, ensure_ascii=False) + "\n"


def _page() -> str:
    parts = [INTRODUCTION]
    for model, heading, text in MODELS.values():
        parts.append(f"## {heading}\n\n{text}\n\n| key | type | default | meaning |\n| --- | --- | --- | --- |")
        parts[-1] += "".join(f"\n| `{key}` | {kind} | {default} | {meaning} |" for key, kind, default, meaning in _rows(model, ""))
    return "\n\n".join(part.strip() for part in parts) + "\n"


def _rows(model: type[BaseModel], prefix: str) -> Iterator[tuple[str, str, str, str]]:
    texts = meanings(model)
    for name, field in model.model_fields.items():
        if field.exclude:
            continue
        key = f"{prefix}{field.alias or name}"
        inner, suffix = _inner_model(field.annotation)
        meaning = _cell(texts.get(name, ""))
        if inner is None:
            yield key, _cell(_type(field.annotation)), _default(field), meaning
        else:
            kind = {"": "section", ".N": "list of sections", ".NAME": "sections by name"}[suffix]
            yield key, kind, _default(field) if suffix or field.is_required() else "", meaning or _cell(_summary(inner))
            yield from _rows(inner, f"{key}{suffix}.")


def _inner_model(annotation: Any) -> tuple[type[BaseModel] | None, str]:
    """The one section an annotation holds, and how its keys are reached."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation, ""
    origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
    suffix = ".NAME" if origin is dict else ".N" if origin in (list, tuple) else ""
    found = [(inner, f"{suffix}{more}") for argument in arguments for inner, more in [_inner_model(argument)] if inner is not None]
    return found[0] if len(found) == 1 else (None, "")


def _type(annotation: Any) -> str:
    origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is typing.Annotated:
        return _type(arguments[0])
    if origin is typing.Literal:
        return " or ".join(f"`{item}`" if isinstance(item, str) else f"`{json.dumps(item)}`" for item in arguments)
    if origin in (list, tuple):
        return f"list of {_type(arguments[0])}"
    if origin is dict:
        return "mapping" if arguments[1] is Any else f"mapping to {_type(arguments[1])}"
    if arguments:
        return " or ".join(dict.fromkeys(_type(argument) for argument in arguments))
    words = {str: "text", int: "whole number", float: "number", bool: "`true` or `false`", type(None): "null", Any: "anything"}
    return words.get(annotation, getattr(annotation, "__name__", "section"))


def _default(field: FieldInfo) -> str:
    if field.is_required():
        return "required"
    value = field.get_default(call_default_factory=True)
    if isinstance(value, BaseModel):
        return ""
    return _cell(f"`{json.dumps(value, ensure_ascii=False)}`")


def _summary(model: type[BaseModel]) -> str:
    return (model.__doc__ or "").strip().split("\n", 1)[0]


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")
