"""A policy that answers from a script: the gateway's sampler in tests."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from platoon.sampling.model_spec import SamplingSettings
from platoon.sampling.parsers.hermes import write_call
from platoon.sampling.sampler import Sample
from platoon.testing.toy_model import toy_tokenizer

END = "<|im_end|>"
TURN = "<|im_start|>"


class ScriptExhaustedError(AssertionError):
    """The policy was called more often than its script has replies."""


@dataclass(frozen=True)
class Completion:
    """text: without the end token, which a stop appends. delay_s: how long the reply takes."""

    text: str
    stop_reason: Literal["stop", "length"] = "stop"
    routing_id: int | None = None
    delay_s: float = 0.0
    logprob: float | None = None


@dataclass(frozen=True)
class PolicyCall:
    """One call as the policy saw it."""

    prompt: str
    text: str
    settings: SamplingSettings
    completion: Completion
    tokens: tuple[int, ...]

    @property
    def last_user_message(self) -> str:
        return last_user_message(self.prompt)


Reply = str | Completion | Exception
Script = Sequence[Reply] | Callable[[str], Reply]


class ScriptedPolicy:
    """script: replies in order, or a function of the prompt's text. An exception in it is raised as the service's would be."""

    def __init__(
        self, script: Script, *, tokenizer: Any = None, stop_token: str = END, logprob: float = -0.25, version: int = 0
    ) -> None:
        self._script = script
        self._tokenizer = tokenizer if tokenizer is not None else toy_tokenizer()
        self._stop_token = stop_token
        self._logprob = logprob
        self._used = 0
        self.version = version
        self.calls: list[PolicyCall] = []

    @property
    def prompts(self) -> list[str]:
        return [call.prompt for call in self.calls]

    @property
    def remaining(self) -> int:
        return 0 if callable(self._script) else len(self._script) - self._used

    async def sample(self, prompt_T: npt.NDArray[np.uint32], settings: SamplingSettings) -> Sample:
        prompt = self._tokenizer.decode(prompt_T.tolist(), skip_special_tokens=False)
        reply = self._reply(prompt)
        if isinstance(reply, Exception):
            raise reply
        completion = Completion(reply) if isinstance(reply, str) else reply
        version = self.version
        if completion.delay_s:
            await asyncio.sleep(completion.delay_s)
        text = completion.text + (self._stop_token if completion.stop_reason == "stop" else "")
        tokens = tuple(self._tokenizer.encode(text, add_special_tokens=False).ids)
        self.calls.append(PolicyCall(prompt, text, settings, completion, tokens))
        logprob = self._logprob if completion.logprob is None else completion.logprob
        logprobs_T = np.full(len(tokens), logprob, dtype=np.float32)
        return Sample(np.asarray(tokens, np.uint32), logprobs_T, completion.stop_reason, version, completion.routing_id)

    async def score(self, tokens_T: npt.NDArray[np.uint32]) -> npt.NDArray[np.float32]:
        return np.full(max(0, len(tokens_T) - 1), self._logprob, dtype=np.float32)

    def _reply(self, prompt: str) -> Reply:
        if callable(self._script):
            return self._script(prompt)
        if self._used >= len(self._script):
            raise ScriptExhaustedError(f"the script has {len(self._script)} replies; call {self._used + 1} asked:\n{prompt}")
        self._used += 1
        return self._script[self._used - 1]


def last_user_message(prompt: str) -> str:
    """The text of the prompt's last user or tool turn, '' when there is none."""
    turns = prompt.split(TURN)
    for turn in reversed(turns):
        role, _, text = turn.partition("\n")
        if role in ("user", "tool"):
            return text.split(END)[0]
    return ""


def rules(replies: Mapping[str, Reply], default: Reply | None = None) -> Callable[[str], Reply]:
    """A script that answers by the beginning of the last user message; no match without a default is an error."""

    def answer(prompt: str) -> Reply:
        message = last_user_message(prompt)
        for prefix, reply in replies.items():
            if message.startswith(prefix):
                return reply
        if default is None:
            raise ScriptExhaustedError(f"no rule answers {message!r}")
        return default

    return answer


def tool_call(name: str, arguments: Mapping[str, Any] | None = None, **more: Any) -> str:
    """The text of a well-formed call."""
    return write_call(name, {**(arguments or {}), **more})
