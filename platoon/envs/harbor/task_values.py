"""Kinds of values of `task.toml`: what each may be, and what it becomes.

What Harbor takes is taken, and what it refuses is refused, but for this: a value is of its key's type (no number in quotes), limits
and times are finite and not negative, digits are of ASCII, and what would fail when a sandbox starts is refused here already (an
image that is no reference, a user that is none, a workdir that is relative, names and paths with control characters).
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Sequence
from typing import Annotated, Any, Literal, TypeVar

from pydantic import AfterValidator, BeforeValidator, Field
from pydantic_core import PydanticCustomError

from platoon.config.model import problems_error
from platoon.config.text import show
from platoon.errors import Problem
from platoon.images.image_reference import reference_fault

HIGHEST_ID = 2**31 - 1
MOST_COUNT = 2**31 - 1
# MiB whose bytes fit 64 bits.
MEBIBYTES_LIMIT = 2**43
STEP_NAME_LIMIT_BYTES = 255
USER_CHARACTERS = 64

T = TypeVar("T")

_USER = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,62}\$?(?::[A-Za-z0-9_][A-Za-z0-9_.-]{0,62})?")
_PACKAGE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*/[A-Za-z0-9][A-Za-z0-9._-]*")
_TOPOLOGY = re.compile(r"[1-9][0-9]*(?:x[1-9][0-9]*)+")
_LABEL = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?")
# Directories that Windows cannot make, whatever follows a dot.
_DEVICE = re.compile(r"CON|PRN|AUX|NUL|CONIN\$|CONOUT\$|(?:COM|LPT)[1-9¹²³]", re.IGNORECASE | re.ASCII)
_MEBIBYTES = {"k": 1 / 1024, "m": 1, "g": 1024}


def wrong(rule: str, key: str = "") -> PydanticCustomError:
    """What a validator raises where the rule tells the value, or is of a key of its table rather than of the whole table."""
    return problems_error([Problem(rule, key=key)])


def size_mb(key: str, text: str) -> int:
    """MiB of `2G`, `512 m`, `.5g`. Raises PydanticCustomError naming the key."""
    size = text.strip()
    unit = _MEBIBYTES.get(size[-1:].lower()) if size.isascii() else None
    try:
        number = float(size[:-1])
    except ValueError:
        number = -1
    if unit is None or not 0 <= number < MEBIBYTES_LIMIT:
        raise wrong(f'must be a size such as "2G", got {show(text)}', key)
    return int(number * unit)


def check_hosts(mode: str | None, hosts: Sequence[str] | None, *, without_mode: bool) -> None:
    """Raises PydanticCustomError for hosts beside another mode than `allowlist`. without_mode: an empty list may stand alone."""
    if hosts is not None and mode != "allowlist" and (hosts or (mode is None and not without_mode)):
        raise wrong(f"needs network_mode allowlist, got {show(hosts)}", "allowed_hosts")


def _whole(value: Any) -> Any:
    """4096.0 is a whole number."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _none_if_empty(value: Any) -> Any:
    return None if value == "" else value


def _stripped(value: Any) -> Any:
    return value.strip() if isinstance(value, str) else value


def _is_image(reference: str) -> str:
    if (fault := reference_fault(reference)) is not None:
        raise wrong(fault)
    return reference


def _is_user(user: str | int) -> str | int:
    numbers = [int(part) for part in str(user).split(":") if part.isascii() and part.isdecimal() and len(part) < USER_CHARACTERS]
    if not _USER.fullmatch(str(user)[: 2 * USER_CHARACTERS]) or any(number > HIGHEST_ID for number in numbers):
        raise ValueError(f"must be a user's name or a number up to {HIGHEST_ID}, with :group where wanted")
    return user


def _is_workdir(path: str) -> str:
    if not path.startswith("/") or not path.isprintable():
        raise ValueError("must be an absolute path on one line")
    return path


def _is_environment(env: dict[str, str]) -> dict[str, str]:
    if bad := sorted(name for name in env if not name or "=" in name or not name.isprintable()):
        raise wrong(f"a variable has a name on one line without '=', got {show(bad[0][:40])}")
    return env


def _is_system(name: str) -> str:
    if name.lower() not in ("linux", "windows"):
        raise ValueError("must be linux or windows")
    return name


def _is_package(name: str) -> str:
    if not _PACKAGE.fullmatch(name) or ".." in name:
        raise ValueError("must be org/name of letters, digits, '.', '_' and '-'")
    return name


def _is_topology(text: str) -> str:
    if not _TOPOLOGY.fullmatch(text.strip()):
        raise ValueError("must be such as 2x4 or 2x2x1")
    return text.strip()


def _is_step(name: str) -> str:
    is_plain = name.isprintable() and name.strip() and not any(character in name for character in '/\\<>:"|?*')
    is_device = _DEVICE.fullmatch(name.partition(".")[0].rstrip(" "))
    if not is_plain or is_device or name[-1] in " ." or len(name.encode()) > STEP_NAME_LIMIT_BYTES:
        raise ValueError(f"must be a portable directory name of at most {STEP_NAME_LIMIT_BYTES} bytes")
    return name


def _is_source(path: str) -> str:
    if not path or "\0" in path or ".." in path.split("/"):
        raise ValueError("must be a path without '..'")
    return path


def _is_destination(path: str) -> str:
    parts = [part for part in path.split("/") if part not in ("", ".")]
    if path.startswith("/") or not parts or ".." in parts or "\\" in path:
        raise ValueError("must be a relative path without '..' and backslash")
    if path.rstrip("/") == "manifest.json":
        raise ValueError("must not be manifest.json, which Harbor writes")
    return path


def _is_host(text: str) -> str:
    """A host's name, `*.` before one, an address or a network; in lower case, addresses and networks shortened."""
    host = text.strip().lower().rstrip(".")
    name = host.removeprefix("*.")
    if "/" in host or ":" in host:
        found = _address(host)
    else:
        is_name = all(_LABEL.fullmatch(label) for label in name.split("."))
        found = host if is_name and (name == host or _address(name) is None) else None
    if found is None:
        raise ValueError("must be a host such as example.com or *.example.com, an address or a network")
    return found


def _address(text: str) -> str | None:
    if "%" in text:
        return None
    try:
        return (ipaddress.ip_network(text) if "/" in text else ipaddress.ip_address(text)).compressed
    except ValueError:
        return None


# One wrong item is told: a file of a megabyte may hold half a million.
Items = Annotated[list[T], Field(fail_fast=True)]
NetworkMode = Literal["public", "allowlist", "no-network"]
Seconds = Annotated[float, Field(ge=0)]
Mebibytes = Annotated[int, Field(ge=0, lt=MEBIBYTES_LIMIT), BeforeValidator(_whole)]
Count = Annotated[int, Field(ge=0, le=MOST_COUNT), BeforeValidator(_whole)]
ServiceName = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]*$"), BeforeValidator(_stripped)]
OperatingSystem = Annotated[str, AfterValidator(_is_system)]
PackageName = Annotated[str, AfterValidator(_is_package)]
StepName = Annotated[str, AfterValidator(_is_step)]
Topology = Annotated[str, AfterValidator(_is_topology)]
Source = Annotated[str, AfterValidator(_is_source)]
Hosts = Items[Annotated[str, AfterValidator(_is_host)]]
Env = Annotated[dict[str, str], AfterValidator(_is_environment)]
# An empty text is none of these.
Image = Annotated[Annotated[str, AfterValidator(_is_image)] | None, BeforeValidator(_none_if_empty)]
User = Annotated[Annotated[str | int, BeforeValidator(_whole), AfterValidator(_is_user)] | None, BeforeValidator(_none_if_empty)]
Workdir = Annotated[Annotated[str, AfterValidator(_is_workdir)] | None, BeforeValidator(_none_if_empty)]
Destination = Annotated[Annotated[str, AfterValidator(_is_destination)] | None, BeforeValidator(_none_if_empty)]
