"""What surrounds every request: the key, faults on demand, and errors as JSON with a status."""

from __future__ import annotations

import asyncio
import hmac
import os
import sys
import traceback

from aiohttp import web
from aiohttp.typedefs import Handler, Middleware

from platoon.local.faults import Fault
from platoon.local.refusals import Refusal
from platoon.local.requests import RetrieveFuture
from platoon.local.routes import SERVICE, body_of

FAULT_EXIT_CODE = 70


def require_key(api_key: str | None) -> Middleware:
    """Refuses requests without the key, if there is one."""

    @web.middleware
    async def check(request: web.Request, handler: Handler) -> web.StreamResponse:
        given = request.headers.get("X-API-Key", "")
        if api_key is not None and not hmac.compare_digest(given.encode(), api_key.encode()):
            return web.json_response({"detail": "the API key is missing or wrong"}, status=401)
        return await handler(request)

    return check


@web.middleware
async def errors_as_json(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Refusals by their status, other errors as 500; the process goes on."""
    try:
        return await handler(request)
    except Refusal as refusal:
        return web.json_response({"detail": str(refusal)}, status=refusal.status)
    except (web.HTTPException, asyncio.CancelledError, ConnectionError):
        raise
    except Exception as error:
        traceback.print_exc(file=sys.stderr)
        return web.json_response({"detail": f"{type(error).__name__}: {error}"}, status=500)


@web.middleware
async def inject_faults(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Does what the fault table says of this request."""
    table = request.app[SERVICE].faults
    route = request.path.rstrip("/").rsplit("/", 1)[-1]
    fault = table.take(route, "before")
    if fault is not None and (response := await _happen(request, fault)) is not None:
        return response
    result = await handler(request)
    fault = table.take(route, "after")
    if fault is not None and (response := await _happen(request, fault)) is not None:
        return response
    return result


async def _happen(request: web.Request, fault: Fault) -> web.StreamResponse | None:
    """The answer instead of the real one, or None when the request goes on."""
    if fault.action == "exit":
        sys.stderr.write(f"local service: exit on demand at {request.path}\n")
        sys.stderr.flush()
        os._exit(FAULT_EXIT_CODE)
    if fault.action == "delay":
        await asyncio.sleep(fault.delay_s)
        return None
    if fault.action == "drop":
        if request.transport is not None:
            request.transport.abort()
        raise ConnectionResetError("dropped on demand")
    if fault.action == "lose":
        body = await body_of(request, RetrieveFuture)
        request.app[SERVICE].promises.lose(body.request_id)
        return web.json_response({"detail": "the promise is lost (a fault on demand)"}, status=410)
    headers = {} if fault.retry_after_s is None else {"Retry-After": str(fault.retry_after_s)}
    return web.json_response({"detail": "a fault on demand"}, status=fault.status, headers=headers)


async def post_faults(request: web.Request) -> web.Response:
    """Adds one fault to the table."""
    fault = await _fault_of(request)
    request.app[SERVICE].faults.add(fault)
    return web.json_response({"pending": len(request.app[SERVICE].faults.pending())})


async def delete_faults(request: web.Request) -> web.Response:
    request.app[SERVICE].faults.clear()
    return web.Response(status=204)


async def _fault_of(request: web.Request) -> Fault:
    try:
        return Fault.model_validate_json(await request.read())
    except ValueError as error:
        raise Refusal(f"not a fault: {error}", status=422) from error
