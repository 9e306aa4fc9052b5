"""Bodies of requests: how much of one is read, and how it becomes JSON without holding up the other agents of the process.

The limit follows the context window: text that fits a window of T tokens is some 4 T bytes, JSON escapes included some 24 T, so
`BYTES_A_TOKEN` leaves room for requests that are a little too long to be told so in tokens, which is what makes a client condense.
"""

from __future__ import annotations

import json
from json import decoder, scanner
from typing import Any

from aiohttp import web

from platoon.gateway.errors import InvalidRequestError, RequestTooLargeError

BYTES_A_TOKEN = 64
LEAST_LIMIT_BYTES = 4 * 2**20
MOST_LIMIT_BYTES = 32 * 2**20
# Beyond this a body is decoded in a thread.
ASIDE_BYTES = 64 * 1024


def body_limit_bytes(window_T: int | None) -> int:
    """What a body may hold. window_T: tokens of the policy's context window, None where it is unknown."""
    if window_T is None:
        return MOST_LIMIT_BYTES
    return min(max(LEAST_LIMIT_BYTES, BYTES_A_TOKEN * window_T), MOST_LIMIT_BYTES)


async def read_body(request: web.Request, limit_bytes: int) -> bytes:
    """The whole body, never more than `limit_bytes` of it in memory.

    Raises RequestTooLargeError, before a byte is read where the client states the length.
    """
    if (request.content_length or 0) > limit_bytes:
        raise _too_large(f"{request.content_length} bytes", limit_bytes)
    parts: list[bytes] = []
    size_bytes = 0
    async for part in request.content.iter_any():
        size_bytes += len(part)
        if size_bytes > limit_bytes:
            raise _too_large("more", limit_bytes)
        parts.append(part)
    return b"".join(parts)


def _too_large(told: str, limit_bytes: int) -> RequestTooLargeError:
    return RequestTooLargeError(f"the body holds {told}: at most {limit_bytes} bytes are read, shorten the messages")


def json_object(data: bytes) -> dict[str, Any]:
    """The object that a body is. Raises InvalidRequestError."""
    try:
        body = json.loads(data, cls=_YieldingDecoder if len(data) > ASIDE_BYTES else None)
    except (ValueError, RecursionError) as error:
        raise InvalidRequestError(f"the body is no JSON: {error}") from None
    if not isinstance(body, dict):
        raise InvalidRequestError("the body must be a JSON object")
    return body


class _YieldingDecoder(json.JSONDecoder):
    """Decodes in Python but for texts: the compiled scanner holds the interpreter's lock from the first byte to the last."""

    def __init__(self) -> None:
        super().__init__()
        # The stubs of the standard library leave out its decoder in Python.
        self.parse_object = decoder.JSONObject  # type: ignore[attr-defined]
        self.parse_array = decoder.JSONArray  # type: ignore[attr-defined]
        self.scan_once = scanner.py_make_scanner(self)  # type: ignore[attr-defined]
