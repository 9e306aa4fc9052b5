"""The figures of the report by name; the workflow declares each as a file, so the names are known before anything is drawn."""

from __future__ import annotations

from collections.abc import Mapping

# Steps on each side of one that its average takes in.
AROUND_STEPS = 4
AVERAGED = f"Faint: each step; bold: the average of up to {2 * AROUND_STEPS + 1} steps around it."

CAPTIONS: Mapping[str, str] = {
    "reward": f"Mean reward of the groups each step trained on, and its parts. {AVERAGED}",
    "evaluations": "Mean reward of each evaluation, and each of its parts.",
    "loss": f"Mean loss of a trained token, a step, in the runs that learn from conversations. {AVERAGED}",
    "tokens": "Tokens a step, by what became of them.",
    "staleness": "How many publications old the trained rows were, mean and oldest, a step.",
    "step_time": "Where each step's seconds went.",
}
FIGURES: tuple[str, ...] = tuple(CAPTIONS)
