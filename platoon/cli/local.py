"""`platoon local`: the embedded service in the foreground."""

from __future__ import annotations

import asyncio
from pathlib import Path

import click

# More than any key has.
KEY_BYTES = 1 << 16


@click.group()
def local() -> None:
    """The embedded Tinker-compatible service."""


@local.command()
@click.option("--state", type=click.Path(file_okay=False, path_type=Path),
              help="Directory of checkpoints and tokenizers, to be shared; else .tinker below the site's runs.")  # fmt: skip
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option("--port", type=click.IntRange(0, 65535), default=0, help="Port to listen on; 0 takes a free one.")
@click.option("--threads", type=click.IntRange(min=1), default=1, show_default=True, help="Threads torch computes with.")
@click.option("--deterministic", is_flag=True, help="Refuse whatever has no fixed order of additions; needs one thread.")
@click.option("--session-timeout-s", type=click.FloatRange(min=30), default=900.0, show_default=True,
              help="Silence of a client that ends its session.")  # fmt: skip
@click.option("--api-key-file", type=click.Path(exists=True, dir_okay=False, path_type=Path),
              help="File with the key that clients must send; without it every local process may use the service.")  # fmt: skip
@click.option("--faults", is_flag=True, help="Open /local/faults, where tests ask for failures.")
def serve(
    *,
    state: Path | None,
    host: str,
    port: int,
    threads: int,
    deterministic: bool,
    session_timeout_s: float,
    api_key_file: Path | None,
    faults: bool,
) -> None:
    """Serve until interrupted.

    Prints the address as a JSON line once it listens.
    """
    from platoon.config.files import read_text
    from platoon.local.settings import ServerSettings, ServiceSettings, check_settings
    from platoon.site import load_site

    place = state.absolute() if state is not None else load_site().state_dir()
    service = ServiceSettings(place, threads, deterministic, session_timeout_s)
    key = read_text(api_key_file, limit_bytes=KEY_BYTES, shown_as=str(api_key_file)).strip() if api_key_file else None
    settings = ServerSettings(service, host, port, key, faults)
    check_settings(settings)

    from platoon.local.server import serve as serve_until_ended

    asyncio.run(serve_until_ended(settings))
