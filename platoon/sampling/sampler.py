"""What the gateway asks of a policy: sample one reply to a prompt of tokens."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, Protocol

import numpy as np
import numpy.typing as npt

from platoon.sampling.model_spec import SamplingSettings

StopReason = Literal["stop", "length"]


@dataclass(frozen=True)
class Sample:
    """tokens_T: uint32, the stop token included. logprobs_T: float32, at temperature 1. version: the policy version that sampled.

    routing_id: the service's routing handle, None where it gives none.
    """

    tokens_T: npt.NDArray[np.uint32]
    logprobs_T: npt.NDArray[np.float32]
    stop_reason: StopReason
    version: int
    routing_id: int | None = None


class Sampler(Protocol):
    """One policy as it is now; a publication swaps what is behind it, between calls."""

    async def sample(self, prompt_T: npt.NDArray[np.uint32], settings: SamplingSettings) -> Sample:
        """Raises `errors.ServiceError` when the service fails, TimeoutError past the spec's `sample_timeout`."""
        ...

    async def score(self, tokens_T: npt.NDArray[np.uint32]) -> npt.NDArray[np.float32]:
        """float32 logprobs of tokens_T[1:], shape (T-1,), each given all tokens before it."""
        ...
