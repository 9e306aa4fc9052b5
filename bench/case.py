"""What a benchmark file gives the runner."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Case:
    """One kernel on one data set beside one peer. Both callables do the whole work and return what they computed.

    `limit` is the ratio to the peer's CPU time that must hold, None where nothing is claimed. `same` says whether two results
    agree: a peer that computes something else is no peer.
    """

    kernel: str
    data: str
    peer: str
    ours: Callable[[], Any]
    theirs: Callable[[], Any]
    same: Callable[[Any, Any], bool]
    limit: float | None = None
