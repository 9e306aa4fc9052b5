"""Every metric of a run, declared once: name, how values of one step become one, unit, meaning.

A name may hold placeholders: `<reason>` stands for one path component, and `policies/<id>/` may stand before every name for a
policy that is not main. `StepMetrics` collects the values of one step and refuses names that are not declared. `metrics.jsonl`
itself is written and read by the trainer.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Literal

FILE = "metrics.jsonl"
# Keys of a row that say which step it is, not what happened in it.
ROW_KEYS = frozenset({"step", "start"})
PARTS = ("avg", "min", "max")

Kind = Literal["sum", "mean", "last", "rate", "distribution", "text"]


@dataclass(frozen=True)
class Metric:
    """kind: how a step's values become one: their sum, mean or last; rate, the mean of zeros and ones; text, the last.

    distribution: three names, `<name>/avg`, `/min` and `/max`.
    """

    name: str
    kind: Kind
    unit: str
    meaning: str


def _table(prefix: str, kind: Kind, unit: str, rows: Mapping[str, str]) -> tuple[Metric, ...]:
    return tuple(Metric(f"{prefix}{name}", kind, unit, meaning) for name, meaning in rows.items())


REGISTRY: tuple[Metric, ...] = (
    Metric("epoch", "last", "epochs", "epoch of the step, from 0"),
    Metric("policy_version", "last", "versions", "publications of the policy before the step"),
    Metric("optimizer_steps", "last", "updates", "optimizer updates of the run so far"),
    Metric("rows_digest", "text", "sha256", "digest of the rows the step sent"),
    Metric("train/loss", "mean", "nats", "loss a trained token"),
    Metric("train/rows", "sum", "rows", "rows sent to the service"),
    Metric("train/tokens", "sum", "tokens", "tokens of all rows sent"),
    Metric("train/trained_tokens", "sum", "tokens", "tokens with a loss"),
    Metric("optimizer/<key>", "last", "as the service has it", "what the service's optimizer step returned"),
    *_table(
        "time/",
        "sum",
        "s",
        {
            "step": "wall time of the step",
            "waiting": "waiting for groups",
            "rollouts": "wall time of the groups the step took, added up",
            "train": "waiting for the service's updates",
            "publish": "handing out new weights",
            "save": "saving",
        },
    ),
    *_table(
        "train/",
        "mean",
        "reward",
        {
            "reward": "reward of the measured members of the step's groups",
            "reward/<component>": "a component of the reward, over members that report it",
        },
    ),
    *_table(
        "train/",
        "sum",
        "rollouts",
        {
            "rollouts": "members of the step's groups",
            "outcome/<status>": "members whose root ended so",
            "stragglers": "members given up by the straggler policy",
        },
    ),
    *_table(
        "train/batch/",
        "sum",
        "groups",
        {
            "groups": "groups the step took",
            "stale_groups": "groups dropped whole for their age",
            "failed_groups": "groups without any result",
            "verdict/<verdict>": "groups by what they train",
            "kind/<kind>": "groups by what their members came to",
        },
    ),
    *_table(
        "train/batch/",
        "sum",
        "rows",
        {
            "stale_datums": "rows dropped for their age, groups dropped whole left out",
            "split_datums": "rows that began again since a prompt did not go on from what was sampled",
        },
    ),
    *_table(
        "train/tokens/",
        "sum",
        "tokens",
        {
            "prompt": "prompt tokens of all calls",
            "completion": "sampled tokens of all calls",
            "trained": "tokens with a loss",
        },
    ),
    *_table("train/", "sum", "calls", {"calls": "model calls of the step's rollouts"}),
    *_table("train/staleness/", "mean", "versions", {"mean": "age of the step's rows when they were taken"}),
    *_table("train/staleness/", "last", "versions", {"max": "age of the oldest row taken"}),
    *_table("train/group_seconds/", "mean", "s", {"avg": "wall time of a group"}),
    *_table("train/group_seconds/", "last", "s", {"max": "wall time of the slowest group"}),
    *_table(
        "credit/",
        "mean",
        "reward",
        {
            "baseline/avg": "mean baseline of a group",
            "baseline/spread": "largest less smallest baseline of a group",
            "root_advantage/abs_avg": "mean size of a root's advantage",
        },
    ),
    *_table(
        "batch/",
        "sum",
        "rows",
        {"rows": "fresh rows of the policy in the step", "rows_sent": "rows sent to the service"},
    ),
    *_table(
        "batch/",
        "sum",
        "updates",
        {"updates": "optimizer updates of the step", "skipped_optimizer": "1 when the step had nothing to learn"},
    ),
    *_table(
        "error_filter/",
        "sum",
        "tokens",
        {
            "detected_action_tokens": "sampled tokens of calls that reported an error",
            "suppressed_positive_action_tokens": "those that an advantage would have rewarded, left out",
        },
    ),
    *_table(
        # Over the trained tokens of each microbatch; then every microbatch counts once, whatever its size.
        "optim/",
        "mean",
        "nats",
        {
            "kl_sample_train_v1": "sampler's less learner's logprob: means over trained tokens, averaged over microbatches",
            "kl_sample_train_v2": "half the mean square of that, averaged so",
            "entropy": "minus the sampler's logprob, averaged so",
        },
    ),
    *_table(
        "optim/",
        "mean",
        "ratio",
        {
            **{
                f"importance_weight_{part}": f"learner's to sampler's probability: {part} of each microbatch, averaged over them"
                for part in ("mean", "std", "min", "max")
            },
            **{
                f"clip_frac_{part}": "share of a microbatch's ratios outside the clip bounds, averaged over microbatches"
                for part in ("low", "high", "total")
            },
        },
    ),
    *_table(
        "dispatch/",
        "last",
        "share",
        {
            "blocked_share/<reason>": "share of wall time since the last step in which nothing could start, by first reason",
        },
    ),
)


class UndeclaredMetric(ValueError):
    """A name that the registry does not have."""


def find(name: str) -> Metric | None:
    """The declaration of a name, None without one; parts of a distribution and another policy's names are found too."""
    plain = re.sub(r"^policies/[a-z][a-z0-9_]*/", "", name)
    return _find(plain)


@cache
def _find(name: str) -> Metric | None:
    for metric, pattern in _patterns():
        if pattern.fullmatch(name):
            return metric
    return None


@cache
def _patterns() -> tuple[tuple[Metric, re.Pattern[str]], ...]:
    # Exact names first, so that `train/reward/<component>` never takes one of them.
    ordered = sorted(REGISTRY, key=lambda metric: "<" in metric.name)
    return tuple((metric, re.compile(_pattern(metric))) for metric in ordered)


def _pattern(metric: Metric) -> str:
    parts = re.split(r"<[a-z_]+>", metric.name)
    pattern = r"[^/]+".join(re.escape(part) for part in parts)
    return f"{pattern}/(?:{'|'.join(PARTS)})" if metric.kind == "distribution" else pattern


def undeclared(names: Iterable[str]) -> list[str]:
    """The names that the registry does not have, sorted."""
    return sorted(name for name in names if name not in ROW_KEYS and find(name) is None)


class StepMetrics:
    """The values of one step, reduced by the kind of each metric."""

    def __init__(self) -> None:
        self._values: dict[str, list[float]] = {}

    def add(self, name: str, *values: float) -> None:
        """Raises UndeclaredMetric, ValueError for a number that is not finite."""
        metric = find(name) or find(f"{name}/{PARTS[0]}")
        if metric is None:
            raise UndeclaredMetric(f"metric {name!r} is not declared in platoon.train.metrics")
        for value in values:
            if not math.isfinite(value):
                raise ValueError(f"metric {name!r} is {value}")
        # True counts as 1; whole numbers stay whole.
        self._values.setdefault(name, []).extend(int(value) if isinstance(value, bool) else value for value in values)

    def update(self, values: Mapping[str, float]) -> None:
        for name, value in values.items():
            self.add(name, value)

    def result(self) -> dict[str, float]:
        """One value a name (three for a distribution), in order of name; a name without values has none."""
        found: dict[str, float] = {}
        for name, values in sorted(self._values.items()):
            metric = find(name) or find(f"{name}/{PARTS[0]}")
            assert metric is not None
            if values:
                found.update(_reduce(name, metric.kind, values))
        return found


def _reduce(name: str, kind: Kind, values: list[float]) -> dict[str, float]:
    mean = math.fsum(values) / len(values)
    if kind == "distribution":
        return {f"{name}/avg": mean, f"{name}/min": min(values), f"{name}/max": max(values)}
    if kind == "sum":
        return {name: sum(values) if all(isinstance(value, int) for value in values) else math.fsum(values)}
    return {name: values[-1] if kind in ("last", "text") else mean}
