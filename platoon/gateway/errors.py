"""Why a model call was not answered. Each kind has one status and one wording; dialects write both in their own form."""

from __future__ import annotations

from typing import Literal

from platoon.errors import PlatoonError

ErrorKind = Literal[
    "authentication", "permission", "agent_closed", "context_length", "invalid_request", "too_large", "timeout", "server"
]

STATUS: dict[ErrorKind, int] = {
    "authentication": 401,
    "permission": 403,
    "agent_closed": 410,
    "context_length": 400,
    "invalid_request": 400,
    "too_large": 413,
    "timeout": 504,
    "server": 500,
}


class GatewayError(PlatoonError):
    """A call that was refused or failed; `kind` decides the HTTP status."""

    kind: ErrorKind = "server"


class UnknownAgentError(GatewayError):
    """The key is no agent's, or the agent of another rollout."""

    kind = "authentication"


class AgentClosedError(GatewayError):
    """The agent's rollout is over."""

    kind = "agent_closed"


class GatewayShutDownError(AgentClosedError):
    """The gateway takes no more calls and opens no more agents."""


class JudgesOffError(GatewayError):
    """A judge's call while judges are switched off."""

    kind = "permission"


class CallKindRefusedError(GatewayError):
    """A call of a kind that this agent may not make."""

    kind = "permission"


class InvalidRequestError(GatewayError):
    """The request itself is at fault."""

    kind = "invalid_request"


class RequestTooLargeError(GatewayError):
    """A body beyond what the gateway reads."""

    kind = "too_large"


class AgentLimitError(InvalidRequestError):
    """An agent that was told its budget is used up and goes on asking."""


class SampleTimeoutError(GatewayError, TimeoutError):
    """The policy did not answer within its bound."""

    kind = "timeout"


class ContextWindowExceededError(GatewayError):
    """No room for a reply: the wording is what clients look for before they condense."""

    kind = "context_length"

    def __init__(self, window: int, prompt_tokens: int) -> None:
        self.window, self.prompt_tokens = window, prompt_tokens
        super().__init__(
            f"This model's maximum context length is {window} tokens. However, your messages resulted in {prompt_tokens} tokens. "
            "Please reduce the length of the messages."
        )
