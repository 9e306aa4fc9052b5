"""Types of single values that several sections share."""

from __future__ import annotations

import ipaddress
import re
from typing import Annotated

from pydantic import AfterValidator, Field

from platoon.config.model import nearest, problems_error
from platoon.config.text import show
from platoon.errors import Problem
from platoon.registry import MOST_CHARACTERS

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

# As long as a name of anything else that a configuration chooses.
RendererName = Annotated[str, Field(min_length=1, max_length=MOST_CHARACTERS)]

EMBEDDED_SERVICE = "local"
MOST_PORT = 65535
MOST_HOST_CHARACTERS = 253
_LABEL = r"[A-Za-z0-9_](?:[A-Za-z0-9_-]{0,61}[A-Za-z0-9_])?"
# Names of other scripts are written as xn--; a query or a fragment would swallow the path of a call.
ADDRESS = re.compile(
    rf"https?://(?P<host>\[[0-9A-Fa-f:.]+\]|{_LABEL}(?:\.{_LABEL})*)(?::(?P<port>[0-9]{{1,9}}))?(?:/[A-Za-z0-9._~!$&'()*+,;=:%/-]*)?"
)


def address_problem(text: str) -> Problem | None:
    """Why a text is no address of a training service; None for one that is. What could be a password is not repeated."""
    if text == EMBEDDED_SERVICE:
        return None
    if "@" in text:
        return Problem("must hold no user and no password", advice="the key of the service goes into TINKER_API_KEY")
    found = ADDRESS.fullmatch(text)
    if found is None or not _is_host(found["host"]):
        advice = nearest(text, [EMBEDDED_SERVICE]) if "/" not in text else ""
        rule = f"must be `{EMBEDDED_SERVICE}` or an address that begins with http:// or https://, got {show(text)}"
        return Problem(rule, advice=advice if advice.startswith("did") else "")
    if found["port"] is not None and not 1 <= int(found["port"]) <= MOST_PORT:
        return Problem(f"its port must be 1 to {MOST_PORT}, got {found['port']}")
    return None


def _is_host(host: str) -> bool:
    try:
        if host.startswith("["):
            ipaddress.IPv6Address(host[1:-1])
        elif not host.strip("0123456789."):
            ipaddress.IPv4Address(host)
    except ValueError:
        return False
    return len(host) <= MOST_HOST_CHARACTERS


def _service_address(text: str) -> str:
    if (problem := address_problem(text)) is not None:
        raise problems_error([problem])
    return text


# Where a training service is.
ServiceAddressText = Annotated[str, AfterValidator(_service_address)]

MAIN = "main"
