"""The sampler that a publication swaps, between calls."""

from __future__ import annotations

from typing import Protocol

import numpy as np
import numpy.typing as npt

from platoon.sampling.model_spec import SamplingSettings
from platoon.sampling.sampler import Sample, Sampler


class VersionedSampler(Sampler, Protocol):
    """A sampler of fixed weights."""

    version: int


class SwappableSampler:
    """Passes each call to the sampler published last; a call under way ends with the one it began with.

    The version of a sample comes from the sampler that made it, so it cannot be mistaken by a publication in between.
    """

    def __init__(self, sampler: VersionedSampler) -> None:
        self._sampler = sampler

    @property
    def version(self) -> int:
        return self._sampler.version

    def publish(self, sampler: VersionedSampler) -> None:
        """Takes effect at the next call. Raises ValueError for an older version than the published one."""
        if sampler.version < self._sampler.version:
            raise ValueError(f"version {sampler.version} would follow version {self._sampler.version}")
        self._sampler = sampler

    async def sample(self, prompt_T: npt.NDArray[np.uint32], settings: SamplingSettings) -> Sample:
        return await self._sampler.sample(prompt_T, settings)

    async def score(self, tokens_T: npt.NDArray[np.uint32]) -> npt.NDArray[np.float32]:
        return await self._sampler.score(tokens_T)
