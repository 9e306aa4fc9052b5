"""A loopback TCP port that relays to a Unix socket, for sandboxes that share this host's network.

It runs in the calling process's event loop, so it costs no process and outlives every kill inside the sandbox. Any user of the host
can connect to a loopback port: what listens behind the socket asks for a key.
"""

from __future__ import annotations

import asyncio
import os
import re
from contextlib import suppress
from pathlib import Path

from platoon.errors import ConfigError, Problem

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
MAX_SOCKET_PATH_BYTES = 107
CHUNK_BYTES = 65536
CONNECT_TIMEOUT_S = 10.0


def check_upstreams(upstreams: dict[str, str]) -> None:
    """Raises ConfigError for a name or an endpoint that no provider takes."""
    for name, endpoint in upstreams.items():
        path = endpoint.removeprefix("unix://")
        if not NAME.fullmatch(name):
            raise ConfigError(Problem("an upstream's name is letters, digits, '.', '_' and '-'", key=f"upstreams.{name}"))
        if endpoint.startswith("unix://"):
            if not path.startswith("/") or path.endswith("/"):
                raise ConfigError(Problem(f"{endpoint!r} names no socket by an absolute path", key=f"upstreams.{name}"))
        elif not endpoint.startswith(("http://", "https://")):
            raise ConfigError(Problem(f"{endpoint!r} is neither unix://, http:// nor https://", key=f"upstreams.{name}"))


class LoopbackRelay:
    """Relays connections to 127.0.0.1:`port` to one Unix socket. Call `start` once and `close` once."""

    def __init__(self, socket_path: Path) -> None:
        self._path = socket_path
        self._server: asyncio.Server | None = None
        self._connections: set[asyncio.Task[None]] = set()
        self.port = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    async def start(self) -> None:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]

    async def close(self) -> None:
        """Ends the listener and every connection; idempotent."""
        if self._server is None:
            return
        self._server.close()
        self._server = None
        for task in self._connections:
            task.cancel()
        await asyncio.gather(*self._connections, return_exceptions=True)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._connections.add(task)
        try:
            await self._relay(reader, writer)
        except asyncio.CancelledError:
            # Only `close` cancels; the streams module would report the cancellation of its own task as an error.
            return
        finally:
            self._connections.discard(task)
            writer.close()

    async def _relay(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            up_reader, up_writer = await asyncio.wait_for(connect_unix(self._path), CONNECT_TIMEOUT_S)
        except (OSError, TimeoutError):
            return
        try:
            await asyncio.gather(_pump(reader, up_writer), _pump(up_reader, writer))
        finally:
            up_writer.close()


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(OSError):
        while data := await reader.read(CHUNK_BYTES):
            writer.write(data)
            await writer.drain()
        if writer.can_write_eof():
            writer.write_eof()


async def connect_unix(path: Path) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """Connects to a Unix socket, also one whose path is longer than a socket address holds."""
    if len(os.fsencode(path)) <= MAX_SOCKET_PATH_BYTES:
        return await asyncio.open_unix_connection(path)
    directory = os.open(path.parent, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        return await asyncio.open_unix_connection(f"/proc/self/fd/{directory}/{path.name}")
    finally:
        os.close(directory)
