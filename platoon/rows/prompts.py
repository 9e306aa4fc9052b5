"""The prompts of one agent's calls, each token kept once.

A prompt mostly is the one before it and more: kept whole, those of a long episode take memory with the square of its length. Here
prompts are views into one array that grows; one that does not go on from the last begins another.

    history = PromptHistory()
    prompt_T = history.keep(prompt_T)      # equal, read-only, and mostly shared with the prompts before it
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


class PromptHistory:
    """Not safe for use by two threads at once."""

    def __init__(self) -> None:
        self._space_T: NDArray[np.uint32] = np.zeros(0, np.uint32)
        self._used = 0

    def keep(self, prompt_T: NDArray[np.uint32]) -> NDArray[np.uint32]:
        """uint32[T], equal to `prompt_T` (uint32[T]) and read-only. Views given out before never change."""
        used, length = self._used, len(prompt_T)
        extends = length >= used and np.array_equal(prompt_T[:used], self._space_T[:used])
        if not extends:
            used, self._space_T = 0, np.zeros(0, np.uint32)
        if length > len(self._space_T):
            grown_T = np.empty(max(length, 2 * used), np.uint32)
            grown_T[:used] = self._space_T[:used]
            self._space_T = grown_T
        self._space_T[used:length] = prompt_T[used:]
        self._used = length
        view_T = self._space_T[:length]
        view_T.flags.writeable = False
        return view_T
