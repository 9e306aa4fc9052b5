"""What the documents of an image have in common, whatever it was saved as: how they are read, and what its configuration says."""

from __future__ import annotations

import platform
from typing import Annotated, Any, TypeVar

from pydantic import BaseModel, ConfigDict, FailFast, TypeAdapter, ValidationError

from platoon.artifacts.reading import parse_json
from platoon.config.problems import from_validation_error
from platoon.config.text import printable
from platoon.errors import ConfigError, Problem

# As OCI names them, by what the kernel says of the machine.
ARCHITECTURES = {
    "x86_64": "amd64",
    "aarch64": "arm64",
    "armv7l": "arm",
    "i686": "386",
    "loongarch64": "loong64",
}

Model = TypeVar("Model")
Item = TypeVar("Item")


class _FirstFault(FailFast):
    # An alternative of a union is hashed.
    __hash__ = object.__hash__


# Of a list that a program wrote the first item at fault is told: it may have millions.
Items = Annotated[list[Item], _FirstFault()]


class Document(BaseModel):
    """Keys that are not known here are passed over."""

    model_config = ConfigDict(frozen=True, strict=True, extra="ignore")


class Platform(Document):
    os: str = ""
    architecture: str = ""
    variant: str = ""

    def __str__(self) -> str:
        return "/".join(part for part in (self.os, self.architecture, self.variant) if part)


class RootFs(Document):
    diff_ids: Items[str]


class ImageConfig(Platform):
    """The configuration of an image: the machine it is for, and the digests of its layers' tars."""

    rootfs: RootFs


def this_platform() -> str:
    """`linux/<architecture>` of this machine, as OCI names it."""
    machine = platform.machine()
    return f"linux/{ARCHITECTURES.get(machine, machine)}"


def fits(found: Platform, wanted: str) -> bool:
    """wanted: `os/architecture[/variant]`."""
    system, _, rest = wanted.partition("/")
    architecture, _, variant = rest.partition("/")
    return (found.os, found.architecture) == (system, architecture) and variant in ("", found.variant)


def parse(model: type[Model], data: bytes, shown: str) -> Model:
    """A JSON document of type `model`. Raises ConfigError with its faults, in the file `shown`."""
    try:
        value: Any = parse_json(data)
    except ValueError as error:
        raise ConfigError(Problem(f"is no JSON: {printable(str(error))}", file=shown)) from error
    try:
        return TypeAdapter(model).validate_python(value)
    except ValidationError as error:
        raise ConfigError(from_validation_error(error, model, value, lambda path: shown)) from None
