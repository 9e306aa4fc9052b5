"""Faults on demand: the next requests of a route fail, wait, vanish, or end the process. Only a server started for it listens.

The table is pure: it says what happens to a request; `middleware` does it. A fault lets `after` requests pass, hits the next
`count`, then is gone.
"""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field


class Fault(BaseModel):
    """One fault.

    route: last part of the path (`asample`, `retrieve_future`), `*` for any, or `checkpoint_write`, the writing of a checkpoint.
    action: `status` answers `status`, with `retry_after_s` if given; `delay` waits `delay_s`, then goes on; `drop` closes the
    connection; `lose` forgets the promise asked for and answers 410; `exit` ends the process at once; `disk_full` fails the write
    (of a checkpoint only). phase: `before` the request is acted on, or `after` it, when only the answer is lost.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    route: str
    action: Literal["status", "delay", "drop", "lose", "exit", "disk_full"]
    status: int = Field(default=500, ge=400, le=599)
    retry_after_s: float | None = None
    delay_s: float = Field(default=0.0, ge=0.0, le=3600.0)
    after: int = Field(default=0, ge=0)
    count: int = Field(default=1, ge=1)
    phase: Literal["before", "after"] = "before"


class FaultTable:
    """Faults still to happen, in the order they were asked for."""

    def __init__(self, faults: list[Fault] | None = None) -> None:
        self._pending = [(fault, fault.after, fault.count) for fault in faults or []]

    def add(self, fault: Fault) -> None:
        self._pending.append((fault, fault.after, fault.count))

    def clear(self) -> None:
        self._pending.clear()

    def pending(self) -> list[Fault]:
        """Faults with what is left of their counts."""
        return [fault.model_copy(update={"after": after, "count": count}) for fault, after, count in self._pending]

    def take(self, route: str, phase: str) -> Fault | None:
        """The fault that hits this request, counting it; the first that matches and is due.

        Every matching one sees the request pass.
        """
        hit: Fault | None = None
        left = []
        for fault, after, count in self._pending:
            matches = fault.route in (route, "*") and fault.phase == phase
            if matches and after > 0:
                left.append((fault, after - 1, count))
            elif matches and hit is None:
                hit = fault
                if count > 1:
                    left.append((fault, after, count - 1))
            else:
                left.append((fault, after, count))
        self._pending = left
        return hit
