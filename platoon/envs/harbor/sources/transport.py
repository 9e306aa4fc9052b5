"""Which failures are the network's: another try may mend those, and no other; how a wait for them is told."""

from __future__ import annotations

from platoon.config.text import short_seconds

# Of a library that `huggingface_hub` used before its release 1; it may not be there.
_REQUESTS = ("requests.exceptions.ConnectionError", "requests.exceptions.Timeout", "requests.exceptions.ChunkedEncodingError")


def told_wait(what: str, why: str, pause_s: float) -> str:
    """The line of a wait before another try, without which it would look like a hang."""
    return f"{what}: {why}; trying again in {short_seconds(pause_s)}"


def is_busy(status: int) -> bool:
    """Whether an answer of HTTP says that a server could not serve just now."""
    return status == 429 or 500 <= status <= 599


def is_broken_way(error: BaseException) -> bool:
    """Whether the way to a server broke. A full disk, a closed directory and a wrong address are nothing of that."""
    import httpx

    if isinstance(error, httpx.TransportError):
        return not isinstance(error, httpx.UnsupportedProtocol | httpx.LocalProtocolError)
    names = (f"{kind.__module__}.{kind.__qualname__}" for kind in type(error).__mro__)
    return isinstance(error, ConnectionError | TimeoutError) or any(name in _REQUESTS for name in names)
