"""Types of single values that several sections share."""

from __future__ import annotations

from typing import Annotated
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field

from platoon.config.model import nearest, problems_error
from platoon.config.text import show
from platoon.errors import Problem

PositiveSeconds = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Finite = Annotated[float, Field(allow_inf_nan=False)]
AtLeastZero = Annotated[float, Field(ge=0, allow_inf_nan=False)]
AtLeastOne = Annotated[int, Field(ge=1)]
Count = Annotated[int, Field(ge=0)]
Fraction = Annotated[float, Field(ge=0, le=1)]
# Policy ids and role names also name files and metric prefixes.
PolicyId = Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]*$")]

# Each is a task of one event loop, or a row of a table in memory.
Concurrency = Annotated[int, Field(ge=1, le=65536)]
# Far above what services offer, and what the embedded one takes.
LoraRank = Annotated[int, Field(ge=1, le=4096)]
MOST_NAME_CHARACTERS = 128


def _directory_name(name: str) -> str:
    whole = name.isprintable() and name == name.strip() and not name.startswith(".") and "/" not in name
    if not (whole and 0 < len(name) <= MOST_NAME_CHARACTERS and len(name.encode()) <= 255):
        rule = "must be a name of 1 to 128 printable characters (255 bytes), without '/', not begun with '.', no blanks around it"
        raise ValueError(rule)
    return name


# Becomes a directory.
DirectoryName = Annotated[str, AfterValidator(_directory_name)]

EMBEDDED_SERVICE = "local"


def _service_address(text: str) -> str:
    try:
        parts = urlsplit(text)
        whole = parts.scheme in ("http", "https") and bool(parts.hostname)
    except ValueError:
        whole = False
    if text != EMBEDDED_SERVICE and not whole:
        advice = nearest(text, [EMBEDDED_SERVICE]) if "/" not in text else ""
        rule = f"must be `{EMBEDDED_SERVICE}` or an address that begins with http:// or https://, got {show(text)}"
        raise problems_error([Problem(rule, advice=advice if advice.startswith("did") else "")])
    return text


# Where a training service is.
ServiceAddressText = Annotated[str, AfterValidator(_service_address)]

MAIN = "main"
