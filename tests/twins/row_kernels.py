"""Twins of the kernels on rows: one loop each, on plain lists."""

from __future__ import annotations

import math
import struct
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

ACTION, ERROR = 1, 2


def single(value: float) -> float:
    """The nearest value of single precision; infinity where it is too large."""
    try:
        return float(struct.unpack("<f", struct.pack("<f", value))[0])
    except OverflowError:
        return math.copysign(math.inf, value)


def spans(offsets: Sequence[int]) -> list[range]:
    return [range(start, end) for start, end in pairwise(offsets)]


def stale(
    versions: Sequence[int],
    policies: Sequence[int],
    groups: Sequence[int],
    current: Sequence[int],
    bounds: Sequence[int | None],
) -> tuple[list[bool], list[bool]]:
    """Rows that are stale, and rows of whose policy and group one is."""
    verdicts = []
    for version, policy in zip(versions, policies, strict=True):
        bound = bounds[policy]
        verdicts.append(bound is not None and version >= 0 and current[policy] - version > bound)
    places = list(zip(groups, policies, strict=True))
    found = {place for place, verdict in zip(places, verdicts, strict=True) if verdict}
    return verdicts, [place in found for place in places]


def row_samples(block: dict[str, Sequence[Any]]) -> tuple[list[int], list[int]]:
    """Action tokens by row, and the routing of the call of its last sampled token."""
    counts, routing = [], []
    for span in spans(block["offsets"]):
        counts.append(sum(block["flags"][at] & ACTION for at in span))
        calls = [block["call"][at] for at in span if block["flags"][at]]
        routing.append(block["call_routing"][calls[-1]] if calls else -1)
    return counts, routing


def surviving_starts(agents: Sequence[Any], has_tokens: Sequence[bool], is_kept: Sequence[bool]) -> list[int]:
    """1 for the first row of each agent that is kept and has tokens."""
    started, out = set(), []
    for agent, survives in zip(agents, map(all, zip(has_tokens, is_kept, strict=True)), strict=True):
        out.append(int(survives and agent not in started))
        started |= {agent} if survives else set()
    return out


def filter_zero(tokens: Sequence[int], is_zero: Sequence[bool], enabled: bool, preserving: bool) -> tuple[list[int], bool, int]:
    kept = [row for row, count in enumerate(tokens) if count and not (enabled and preserving and is_zero[row])]
    return kept, bool(kept) and not (preserving and all(is_zero)), sum(tokens)


def baselines(keys: Sequence[int], rewards: Sequence[float], is_peer: Sequence[bool], leave_one_out: bool) -> list[float]:
    out = []
    for agent, key in enumerate(keys):
        peers = [at for at in range(len(keys)) if keys[at] == key and is_peer[at]]
        if leave_one_out and is_peer[agent]:
            peers = [at for at in peers if at != agent]
        out.append(math.fsum(rewards[at] for at in peers) / len(peers) if peers else rewards[agent])
    return out


def apply(
    flags: Sequence[int], offsets: Sequence[int], advantages: Sequence[float], per_token: bool, suppress: bool
) -> dict[str, Any]:
    """Raises ValueError for what is put on a token and not finite."""
    out: dict[str, Any] = {"advantages": [0.0] * len(flags), "trained": [False] * len(flags)}
    if not per_token and not all(math.isfinite(single(value)) for value in advantages):
        raise ValueError("not finite")
    detected = suppressed = emptied = 0
    for row, span in enumerate(spans(offsets)):
        actions = [at for at in span if flags[at] & ACTION]
        for at in actions:
            value = single(advantages[at] if per_token else advantages[row])
            is_marked = suppress and bool(flags[at] & ERROR)
            detected += is_marked
            if is_marked and value > 0:
                suppressed += 1
                continue
            if not math.isfinite(value):
                raise ValueError("not finite")
            out["advantages"][at] = value
            out["trained"][at] = True
        emptied += bool(actions) and not any(out["trained"][at] for at in span)
    return out | {"counters": (detected, suppressed, detected - suppressed, emptied)}


def level_weights(depths: Sequence[int], starts: Sequence[int], tokens: Sequence[int]) -> list[float]:
    count = {depth: sum(start for start, at in zip(starts, depths, strict=True) if at == depth) for depth in depths}
    raw = {depth: 1 / number if number else 0.0 for depth, number in count.items()}
    return renormalised([raw[depth] for depth in depths], tokens)


def discount_weights(depths: Sequence[int], tokens: Sequence[int], gamma: float) -> list[float]:
    return renormalised([gamma**depth for depth in depths], tokens)


def renormalised(raw: Sequence[float], tokens: Sequence[int]) -> list[float]:
    total = math.fsum(weight * count for weight, count in zip(raw, tokens, strict=True))
    if not total:
        raise ValueError("no weight")
    return [weight * sum(tokens) / total for weight in raw]


def assemble(
    block: dict[str, Sequence[Any]], advantages: Sequence[float], trained: Sequence[bool], kept: Sequence[int], scale: float
) -> dict[str, list[Any]]:
    out: dict[str, list[Any]] = {name: [] for name in ("input_tokens", "target_tokens", "logprobs", "advantages", "trained")}
    out["offsets"] = [0]
    for row in kept:
        span = spans(block["offsets"])[row]
        out["input_tokens"] += [block["tokens"][at] for at in span[:-1]]
        out["target_tokens"] += [block["tokens"][at] for at in span[1:]]
        out["logprobs"] += [block["logprobs"][at] for at in span[1:]]
        out["advantages"] += [single(advantages[at] * scale) for at in span[1:]]
        out["trained"] += [trained[at] for at in span[1:]]
        out["offsets"].append(len(out["target_tokens"]))
    return out


def metrics(
    sampled: Sequence[float], training: Sequence[float], trained: Sequence[bool], clip: tuple[float, float] | None
) -> dict[str, float]:
    pairs = [(q, p) for q, p, is_trained in zip(sampled, training, trained, strict=True) if is_trained]
    count = len(pairs)
    weights = [math.exp(p - q) for q, p in pairs]
    mean = math.fsum(weights) / count
    low, high = (sum(weight < clip[0] for weight in weights), sum(weight > clip[1] for weight in weights)) if clip else (0, 0)
    return {
        "tokens": count,
        "kl_sample_train_v1": math.fsum(q - p for q, p in pairs) / count,
        "kl_sample_train_v2": math.fsum((q - p) ** 2 for q, p in pairs) / count / 2,
        "entropy": -math.fsum(q for q, _ in pairs) / count,
        "importance_weight_mean": mean,
        "importance_weight_std": math.sqrt(math.fsum((weight - mean) ** 2 for weight in weights) / (count - 1))
        if count > 1
        else math.nan,
        "importance_weight_min": min(weights),
        "importance_weight_max": max(weights),
        "clip_frac_low": low / count,
        "clip_frac_high": high / count,
        "clip_frac_total": (low + high) / count,
    }


def reverse_kl(
    block: dict[str, Sequence[Any]], teacher: Sequence[float], values: Sequence[float], kl: float, reward: float
) -> tuple[list[float], float | None]:
    out, differences = [0.0] * len(block["flags"]), []
    for row, span in enumerate(spans(block["offsets"])):
        for at in span[1:]:
            if block["flags"][at] & ACTION:
                differences.append(block["logprobs"][at] - teacher[at])
                out[at] = single((reward * values[row] if reward else 0.0) - kl * differences[-1])
    return out, math.fsum(differences) / len(differences) if differences else None


def oldest(versions: Sequence[int], offsets: Sequence[int]) -> list[int]:
    return [min((versions[at] for at in span if versions[at] >= 0), default=-1) for span in spans(offsets)]


def keys(columns: Sequence[Sequence[Any]]) -> list[int]:
    numbers: dict[tuple[Any, ...], int] = {}
    return [numbers.setdefault(key, len(numbers)) for key in zip(*columns, strict=True)]
