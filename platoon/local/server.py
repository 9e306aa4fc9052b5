"""The server process: an aiohttp application on loopback over one `LocalService`.

Says where it listens on the ready descriptor, once it does: one JSON line `{"base_url": ..., "pid": ...}`. Ends on TERM or INT
unless it was started with those ignored, on the launcher's stop signal, and never by a request. Logs to standard error.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import signal
import sys
import time
from pathlib import Path

from aiohttp import web

from platoon.errors import ConfigError
from platoon.local.faults import Fault, FaultTable
from platoon.local.launcher import FAULTS_VARIABLE, STOP_SIGNAL
from platoon.local.middleware import (
    delete_faults,
    errors_as_json,
    inject_faults,
    post_faults,
    require_key,
)
from platoon.local.routes import API_ROUTES, SERVICE
from platoon.local.service import LocalService
from platoon.local.settings import LOOPBACK, ServerSettings, ServiceSettings, check_settings

MOST_BODY_BYTES = 256 << 20
SWEEP_S = 20.0
REAP_S = 300.0
# Longer than a client idles: a connection closed under a request is a retry for nothing.
KEEPALIVE_S = 3600.0


def make_app(service: LocalService, api_key: str | None, faults: bool) -> web.Application:
    """The application; the caller starts and stops the service's worker."""
    middlewares = [errors_as_json, require_key(api_key), *([inject_faults] if faults else [])]
    app = web.Application(middlewares=middlewares, client_max_size=MOST_BODY_BYTES)
    app[SERVICE] = service
    app.add_routes([web.RouteDef(r.method, f"/api/v1{r.path}", r.handler, r.kwargs) for r in API_ROUTES])
    if faults:
        app.add_routes([web.post("/local/faults", post_faults), web.delete("/local/faults", delete_faults)])
    return app


async def serve(settings: ServerSettings) -> None:
    """Serves until a signal ends it."""
    loop = asyncio.get_running_loop()
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT, STOP_SIGNAL):
        if signal.getsignal(number) is not signal.SIG_IGN:
            loop.add_signal_handler(number, stop.set)
    service = LocalService(settings.service, FaultTable(_faults_asked_for() if settings.faults else []))
    service.worker.start()
    runner = web.AppRunner(
        make_app(service, settings.api_key, settings.faults), access_log=None, shutdown_timeout=0.2, keepalive_timeout=KEEPALIVE_S
    )
    try:
        await runner.setup()
        site = web.TCPSite(runner, settings.host, settings.port)
        await site.start()
        host, port = runner.addresses[0][:2]
        _say_ready(settings.ready_descriptor, f"http://{host}:{port}")
        await _sweep_until(stop, service)
    finally:
        await runner.cleanup()
        await asyncio.to_thread(service.worker.close)


async def _sweep_until(stop: asyncio.Event, service: LocalService) -> None:
    next_reap = 0.0
    while not stop.is_set():
        service.sweep()
        if time.monotonic() >= next_reap:
            await asyncio.to_thread(service.reap)
            next_reap = time.monotonic() + REAP_S
        try:
            await asyncio.wait_for(stop.wait(), SWEEP_S)
        except TimeoutError:
            continue


def _say_ready(descriptor: int | None, base_url: str) -> None:
    line = json.dumps({"base_url": base_url, "pid": os.getpid()}) + "\n"
    if descriptor is None:
        sys.stdout.write(line)
        sys.stdout.flush()
        return
    os.write(descriptor, line.encode())
    os.close(descriptor)


def _faults_asked_for() -> list[Fault]:
    return [Fault.model_validate(item) for item in json.loads(os.environ.get(FAULTS_VARIABLE, "[]"))]


def main(arguments: list[str] | None = None) -> None:
    """Parses the command line of `python -m platoon.local` and serves."""
    parser = argparse.ArgumentParser(prog="python -m platoon.local", description="Tinker-compatible service on loopback")
    parser.add_argument("--state", type=Path, required=True, help="directory of checkpoints and tokenizers")
    parser.add_argument("--host", default=LOOPBACK)
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--deterministic", action="store_true")
    parser.add_argument("--session-timeout-s", type=float, default=900.0)
    parser.add_argument("--faults", action="store_true", help="open /local/faults and read " + FAULTS_VARIABLE)
    parser.add_argument("--api-key-descriptor", type=int, help="inherited descriptor to read the API key from")
    parser.add_argument("--ready-descriptor", type=int, help="inherited descriptor that gets the ready line")
    options = parser.parse_args(arguments)
    service = ServiceSettings(options.state.absolute(), options.threads, options.deterministic, options.session_timeout_s)
    key = None
    if options.api_key_descriptor is not None:
        with os.fdopen(options.api_key_descriptor) as pipe:
            key = pipe.read().strip()
    settings = ServerSettings(service, options.host, options.port, key, options.faults, options.ready_descriptor)
    try:
        check_settings(settings)
    except ConfigError as error:
        sys.stderr.write(f"local service: {error}\n")
        sys.exit(error.exit_code)
    asyncio.run(serve(settings))
