"""The gateway over HTTP: one server a process, scoped to a rollout by its path.

A server per rollout would cost a socket, a runner and their start and stop each time; here a rollout's address is
`http://127.0.0.1:<port>/r/<rollout id>`, and under that path the keys of other rollouts are refused as on a port of its own. It
binds to loopback, and on demand to a Unix socket in a directory of mode 0700. A client that goes away cancels its call.

Routes below a rollout's address: `GET /healthz` (no key), and with a key (`Authorization: Bearer`, `x-api-key`, or `/s/<key>` in
the path, which wins) `POST /v1/chat/completions` and `GET /v1/models`.
"""

from __future__ import annotations

import asyncio
import json
import secrets
import shutil
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Any

from aiohttp import web

from platoon.core.call_kinds import CALL_KIND_HEADER, CallKind
from platoon.gateway.agents import AgentRecord
from platoon.gateway.bodies import ASIDE_BYTES, body_limit_bytes, json_object, read_body
from platoon.gateway.calls import PreparedCall, run_call
from platoon.gateway.dialects import openai_chat
from platoon.gateway.errors import UnknownAgentError
from platoon.gateway.requests import ChatRequest, ChatResponse
from platoon.gateway.service import ModelGateway
from platoon.host.scratch import private_dir
from platoon.host.tasks import see_through

KEEPALIVE_S = 10.0
STOP_GRACE_S = 1.0
RELEASE_TIMEOUT_S = 10.0
SOCKET_PATH_LIMIT_BYTES = 107
STREAM_HEADERS = {"Content-Type": "text/event-stream", "Cache-Control": "no-cache", "X-Accel-Buffering": "no"}


class GatewayServer:
    """Used from the gateway's loop. `start` and `stop` are idempotent; `acquire` and `GatewayServer.release` count its users."""

    def __init__(self, gateway: ModelGateway) -> None:
        self.gateway = gateway
        self.port = 0
        self.socket_path: Path | None = None
        self.users = 0
        self._runner: web.AppRunner | None = None
        self._lock = asyncio.Lock()

    async def start(self, *, unix_socket: bool = False) -> None:
        """Binds to loopback, and to a Unix socket when asked; more calls add only what is missing."""
        async with self._lock:
            if self._runner is None:
                runner = web.AppRunner(self._app(), access_log=None, handler_cancellation=True, shutdown_timeout=STOP_GRACE_S)
                await runner.setup()
                self._runner = runner
                site = web.TCPSite(runner, "127.0.0.1", 0)
                await site.start()
                self.port = runner.addresses[0][1]
            if unix_socket and self.socket_path is None:
                path = _socket_path()
                self.socket_path = path
                await web.UnixSite(self._runner, str(path)).start()

    async def stop(self) -> None:
        await self._stop(unless_used=False)

    async def release(self) -> None:
        """One user less; the last one ends the server, so that who forgets to close a gateway leaves no socket behind."""
        self.users -= 1
        await see_through(self._stop(unless_used=True), RELEASE_TIMEOUT_S)

    async def _stop(self, *, unless_used: bool) -> None:
        async with self._lock:
            if unless_used and self.users:
                return
            runner, self._runner = self._runner, None
            path, self.socket_path = self.socket_path, None
            if runner is not None:
                await runner.cleanup()
            if path is not None:
                shutil.rmtree(path.parent, ignore_errors=True)

    def rollout_path(self, rollout_id: str) -> str:
        """The path of a rollout, to be put after whatever origin reaches this server."""
        return f"/r/{rollout_id}"

    def base_url(self, rollout_id: str) -> str:
        """Where the rollout's agents reach their models from this host, without `/v1` and without a slash at the end."""
        return f"http://127.0.0.1:{self.port}{self.rollout_path(rollout_id)}"

    def _app(self) -> web.Application:
        app = web.Application()
        app.router.add_get("/r/{rollout}/healthz", self._health)
        for prefix in ("/r/{rollout}", "/r/{rollout}/s/{secret}"):
            app.router.add_post(f"{prefix}/v1/chat/completions", self._chat)
            app.router.add_get(f"{prefix}/v1/models", self._models)
        return app

    async def _health(self, request: web.Request) -> web.Response:
        return web.json_response({"status": "ok", "model": self._default_model()})

    async def _models(self, request: web.Request) -> web.Response:
        try:
            agent = self._agent(request)
        except Exception as error:  # because every failure is told in the dialect's own form
            return _error(error)
        model = self.gateway.runtime(agent).spec.model_name
        entry = {"id": model, "object": "model", "created": 0, "owned_by": "platoon"}
        return web.json_response({"object": "list", "data": [entry]})

    async def _chat(self, request: web.Request) -> web.StreamResponse:
        try:
            agent = self._agent(request)
            kind: Any = request.headers.get(CALL_KIND_HEADER, "policy")
            body, asked = await _chat_request(request, self.gateway.runtime(agent).spec.context_window_length, kind)
            call = await self.gateway.begin_call(agent, asked)
            if body.get("stream"):
                return await self._stream(request, call, body)
            reply = call if isinstance(call, ChatResponse) else await run_call(call)
        except web.HTTPException:
            raise
        except Exception as error:  # because every failure is told in the dialect's own form
            return _error(error)
        text = json.dumps(openai_chat.write_response(reply), ensure_ascii=False)
        return web.Response(text=text, content_type="application/json", headers={"x-platoon-call-id": reply.call_id})

    async def _stream(self, request: web.Request, call: PreparedCall | ChatResponse, body: dict[str, Any]) -> web.StreamResponse:
        options = body.get("stream_options")
        include_usage = isinstance(options, dict) and bool(options.get("include_usage"))
        response = web.StreamResponse(headers=STREAM_HEADERS)
        task = asyncio.ensure_future(_answer(call))
        try:
            await response.prepare(request)
            while not task.done():
                await asyncio.wait([task], timeout=KEEPALIVE_S)
                if not task.done():
                    await response.write(b": keepalive\n\n")
            try:
                events = list(openai_chat.write_events(task.result(), include_usage))
            except Exception as error:  # because the stream has begun: the failure is an event of it
                events = [openai_chat.event(openai_chat.write_error(error)), "data: [DONE]\n\n"]
            await response.write("".join(events).encode())
            await response.write_eof()
        finally:
            if not task.done():
                task.cancel()
                await asyncio.wait([task])
            if isinstance(call, PreparedCall):
                # A task cancelled before it began never ran the call's own clean-up.
                call.ticket.give_back()
        return response

    def _agent(self, request: web.Request) -> AgentRecord:
        secret = request.match_info.get("secret") or _header_key(request)
        if not secret:
            raise UnknownAgentError("no key was given")
        return self.gateway.authenticate(secret, request.match_info["rollout"])

    def _default_model(self) -> str | None:
        return next((runtime.spec.model_name for runtime in self.gateway.policies.values()), None)


async def acquire(gateway: ModelGateway, *, unix_socket: bool = False) -> GatewayServer:
    """The gateway's one server, started for its first user; each user calls `release` once."""
    if not isinstance(gateway.http, GatewayServer):
        gateway.http = GatewayServer(gateway)
    server = gateway.http
    server.users += 1
    try:
        await server.start(unix_socket=unix_socket)
    except BaseException:
        await server.release()
        raise
    return server


async def _answer(call: PreparedCall | ChatResponse) -> ChatResponse:
    return call if isinstance(call, ChatResponse) else await run_call(call)


def _header_key(request: web.Request) -> str | None:
    scheme, _, key = request.headers.get("Authorization", "").partition(" ")
    return key.strip() if scheme.lower() == "bearer" else request.headers.get("x-api-key")


async def _chat_request(request: web.Request, window_T: int | None, kind: CallKind) -> tuple[dict[str, Any], ChatRequest]:
    """The decoded body and what it asks. Raises RequestTooLargeError or InvalidRequestError."""
    data = await read_body(request, body_limit_bytes(window_T))

    def parsed() -> tuple[dict[str, Any], ChatRequest]:
        body = json_object(data)
        return body, openai_chat.parse_request(body, kind)

    return await asyncio.to_thread(parsed) if len(data) > ASIDE_BYTES else parsed()


def _error(error: Exception) -> web.Response:
    return web.json_response(openai_chat.write_error(error), status=openai_chat.error_status(error))


def _socket_path() -> Path:
    """`pgw-<uid>/<12 hex>/gw.sock` in node scratch, in the system's temporary directory where that is too long an address."""
    for parent in (None, Path(tempfile.gettempdir())):
        directory = private_dir("pgw", parent) / secrets.token_hex(6)
        if len(str(directory / "gw.sock").encode()) <= SOCKET_PATH_LIMIT_BYTES:
            with suppress(FileExistsError):
                directory.mkdir(mode=0o700)
            return directory / "gw.sock"
    raise OSError("no place for a socket has a short enough path (set PLATOON_NODE_SCRATCH to one)")
