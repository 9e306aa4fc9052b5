"""The figures of the report by name; the workflow declares each as a file, so the names are known before anything is drawn."""

from __future__ import annotations

from collections.abc import Mapping

CAPTIONS: Mapping[str, str] = {
    "reward": "Mean reward of the groups each step trained on, and its parts.",
    "evaluations": "Held-out tasks before and after: the whole reward, and its parts apart.",
    "loss": "Mean loss of a trained token, a step, in the runs that learn from conversations.",
    "tokens": "Tokens a step: prompts read, replies sampled, and those of them that trained.",
    "staleness": "How many publications old the trained rows were, mean and oldest, a step.",
    "step_time": "Where each step's seconds went: waiting for rollouts, training, publishing, saving.",
}
FIGURES: tuple[str, ...] = tuple(CAPTIONS)
