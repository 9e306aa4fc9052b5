"""What a terminal's second interrupt means to Snakemake: nothing.

The first one ends what runs, and Snakemake waits for it. A second one would break that off in the middle, and Snakemake would end
with an account of its own inner state. Commands get the terminal's interrupts too and say themselves what a second one means.
"""

from __future__ import annotations

import signal
from types import FrameType


def interrupt_once() -> None:
    """From here on the first INT raises KeyboardInterrupt and later ones are ignored. Called on the main thread."""

    def first(number: int, frame: FrameType | None) -> None:
        # A function and not SIG_IGN, which programs that are started later would inherit.
        signal.signal(signal.SIGINT, lambda number, frame: None)
        raise KeyboardInterrupt

    signal.signal(signal.SIGINT, first)
