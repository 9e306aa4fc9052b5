"""What the service says no to.

The status is what the HTTP answer carries when the request was refused before it became a promise.
"""

from __future__ import annotations

from enum import StrEnum


class Category(StrEnum):
    """Whose fault a failed promise is, as the protocol spells it."""

    USER = "user"
    SERVER = "server"


class StorageError(Exception):
    """The disk did not take a checkpoint; the message names the directory."""


class Refusal(Exception):
    """The caller asked for what cannot be; the message says what and why."""

    category = Category.USER

    def __init__(self, message: str, status: int = 400) -> None:
        self.status = status
        super().__init__(message)


class NotFound(Refusal):
    """No such model, sampler, session, checkpoint or base."""

    def __init__(self, message: str) -> None:
        super().__init__(message, status=404)
