"""Canonical JSON: one value, one sequence of bytes.

UTF-8, keys sorted by code point, one space of indentation so that files differ well, LF at the end, no escapes of non-ASCII text.
NaN and infinities are refused, and so is a key that is no string: both have no JSON form that reads back as written.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from platoon.artifacts.digests import sha256_bytes
from platoon.artifacts.reading import parse_json, read_regular
from platoon.errors import ConfigError, Problem


def canonical_bytes(value: Any) -> bytes:
    """The canonical form of a JSON value, ended by LF. Raises ValueError or TypeError for what JSON cannot hold."""
    _refuse_other_keys(value)
    text = json.dumps(value, sort_keys=True, ensure_ascii=False, allow_nan=False, indent=1, separators=(",", ": "))
    return text.encode("utf-8") + b"\n"


def canonical_digest(value: Any) -> str:
    """`sha256:<hex>` of the canonical form."""
    return sha256_bytes(canonical_bytes(value))


def read_json(path: Path, what: str, advice: str = "") -> Any:
    """The value of a JSON file, or a ConfigError that names the file, `what` it should have been and what to do next."""
    try:
        return parse_json(read_regular(path))
    except FileNotFoundError:
        raise ConfigError(Problem(f"no such {what}", file=str(path), advice=advice)) from None
    except OSError as error:
        raise ConfigError(Problem(f"not a readable {what}: {error.strerror}", file=str(path), advice=advice)) from error
    except ValueError as error:
        raise ConfigError(Problem(f"not a readable {what}: {error}", file=str(path), advice=advice)) from error


def _refuse_other_keys(value: Any) -> None:
    if isinstance(value, dict):
        for key, item in value.items():
            if not isinstance(key, str):
                raise TypeError(f"canonical JSON has string keys only, got {key!r}")
            _refuse_other_keys(item)
    elif isinstance(value, list | tuple):
        for item in value:
            _refuse_other_keys(item)
