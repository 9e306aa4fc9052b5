"""The rollout side's only tie to the tinker SDK: one sampling client as a `Sampler`.

The SDK waits without limit, so every wait here is bounded. A cancelled or late call stops the SDK's polling; the service may still
finish it.
"""

from __future__ import annotations

import asyncio
import logging
import time
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from platoon.errors import ServiceError
from platoon.sampling.model_spec import SamplingSettings
from platoon.sampling.sampler import Sample
from platoon.sampling.service_errors import service_errors

log = logging.getLogger(__name__)
SLOW_SAMPLE_S = 30.0


class TinkerSampler:
    """client: a `tinker.SamplingClient`. version: the policy version of its weights, recorded with each sample."""

    def __init__(
        self, client: Any, version: int, *, sample_timeout_s: float = 600.0, base_url: str | None = None, policy: str = "main"
    ) -> None:
        self.client = client
        self.version = version
        self._timeout_s = sample_timeout_s
        self._base_url = base_url
        self._policy = policy

    async def sample(self, prompt_T: npt.NDArray[np.uint32], settings: SamplingSettings) -> Sample:
        """One reply. Raises ServiceError, TimeoutError past the bound, or ConfigError for a refused key."""
        import tinker

        stop: Any = list(settings.stop) if settings.stop is not None else None
        parameters = tinker.SamplingParams(
            max_tokens=settings.max_tokens,
            seed=settings.seed,
            stop=stop,
            temperature=settings.temperature,
            top_k=settings.top_k,
            top_p=settings.top_p,
        )
        prompt = tinker.ModelInput.from_ints(prompt_T.tolist())
        started = time.monotonic()
        with service_errors("sampling", base_url=self._base_url, policy=self._policy):
            response = await self._bounded(self.client.sample(prompt=prompt, num_samples=1, sampling_params=parameters), "sampling")
        taken_s = time.monotonic() - started
        if taken_s > SLOW_SAMPLE_S:
            log.info("a sample of policy %s took %.0f s", self._policy, taken_s)
        return self._read(response)

    async def score(self, tokens_T: npt.NDArray[np.uint32]) -> npt.NDArray[np.float32]:
        """float32 logprobs of tokens_T[1:], shape (T-1,). Raises as `sample` does."""
        import tinker

        with service_errors("scoring", base_url=self._base_url, policy=self._policy):
            scored = await self._bounded(self.client.compute_logprobs(tinker.ModelInput.from_ints(tokens_T.tolist())), "scoring")
        if len(scored) != len(tokens_T) or any(item is None for item in scored[1:]):
            raise ServiceError(f"scoring {len(tokens_T)} tokens gave {len(scored)} logprobs, or some without a value")
        return np.asarray(scored[1:], dtype=np.float32)

    async def _bounded(self, future: Any, what: str) -> Any:
        try:
            async with asyncio.timeout(self._timeout_s):
                return await future
        except TimeoutError:
            raise TimeoutError(f"{what} took longer than {self._timeout_s:g} s (sample_timeout_seconds)") from None

    def _read(self, response: Any) -> Sample:
        if len(response.sequences) != 1:
            raise ServiceError(f"one sample was asked for, the service gave {len(response.sequences)}")
        sequence = response.sequences[0]
        tokens_T = np.asarray(sequence.tokens_np if sequence.tokens_np is not None else sequence.tokens, dtype=np.uint32)
        logprobs = sequence.logprobs_np if sequence.logprobs_np is not None else sequence.logprobs
        if logprobs is None or len(logprobs) != len(tokens_T):
            raise ServiceError("the service gave a sample without a logprob for each token")
        reason: Literal["stop", "length"] = "length" if str(sequence.stop_reason) == "length" else "stop"
        routing_id = getattr(sequence, "routing_id", None)
        return Sample(tokens_T, np.asarray(logprobs, dtype=np.float32), reason, self.version, routing_id)
