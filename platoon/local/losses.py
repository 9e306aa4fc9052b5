"""The loss functions of the protocol: what each needs, and its value as a sum over all target tokens.

`lp` is the learner's logprob of a target, `q` the sampler's, `A` the advantage, `r = exp(lp - q)`. All are flat over the tokens
of a micro-batch; a datum is a run of tokens with one index. Sums, never means: the caller scales, so splitting a batch is
exact.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from platoon.local.refusals import Refusal

Tensor = Any
Config = Mapping[str, float | str]

RATIO_INPUTS = ("logprobs", "advantages")


@dataclass(frozen=True)
class Batch:
    """Inputs of a loss over N target tokens of D datums.

    inputs: float32 arrays of shape (N,), or (N, K) for cross-entropy with soft targets; datum_N: int64 index of each token's datum.
    """

    inputs: Mapping[str, Tensor]
    datum_N: Tensor
    datums: int


@dataclass(frozen=True)
class Loss:
    """A loss: its float32 inputs besides `target_tokens`, the configuration keys it reads, and its value."""

    inputs: tuple[str, ...]
    defaults: Mapping[str, float]
    value: Callable[[Tensor, Batch, Mapping[str, float]], Tensor]


def _cross_entropy(lp: Tensor, batch: Batch, config: Mapping[str, float]) -> Tensor:
    return -(lp * batch.inputs["weights"]).sum()


def _importance_sampling(lp: Tensor, batch: Batch, config: Mapping[str, float]) -> Tensor:
    return -((lp - batch.inputs["logprobs"]).exp() * batch.inputs["advantages"]).sum()


def _clipped(ratio: Tensor, advantages: Tensor, config: Mapping[str, float]) -> Tensor:
    limited = ratio.clamp(config["clip_low_threshold"], config["clip_high_threshold"])
    return -(ratio * advantages).minimum(limited * advantages).sum()


def _ppo(lp: Tensor, batch: Batch, config: Mapping[str, float]) -> Tensor:
    return _clipped((lp - batch.inputs["logprobs"]).exp(), batch.inputs["advantages"], config)


def _cispo(lp: Tensor, batch: Batch, config: Mapping[str, float]) -> Tensor:
    ratio = (lp - batch.inputs["logprobs"]).exp().detach()
    limited = ratio.clamp(config["clip_low_threshold"], config["clip_high_threshold"])
    return -(limited * lp * batch.inputs["advantages"]).sum()


def _dro(lp: Tensor, batch: Batch, config: Mapping[str, float]) -> Tensor:
    difference = lp - batch.inputs["logprobs"]
    return -(lp * batch.inputs["advantages"] - 0.5 * config["beta"] * difference.square()).sum()


def _gspo(lp: Tensor, batch: Batch, config: Mapping[str, float]) -> Tensor:
    mask = batch.inputs["sequence_ratio_mask"]
    difference = (lp - batch.inputs["logprobs"]).detach() * mask
    total_D = difference.new_zeros(batch.datums).index_add(0, batch.datum_N, difference)
    count_D = mask.new_zeros(batch.datums).index_add(0, batch.datum_N, mask).clamp(min=1.0)
    # The sequence's ratio is a value shared by its tokens; the gradient goes through each token's own logprob.
    ratio = (total_D / count_D).exp()[batch.datum_N] * (lp - lp.detach()).exp()
    return _clipped(ratio, batch.inputs["advantages"] * mask, config)


_CLIP = {"clip_low_threshold": 0.8, "clip_high_threshold": 1.2}

LOSSES: Mapping[str, Loss] = {
    "cross_entropy": Loss(("weights",), {}, _cross_entropy),
    "importance_sampling": Loss(RATIO_INPUTS, {}, _importance_sampling),
    "ppo": Loss(RATIO_INPUTS, _CLIP, _ppo),
    "cispo": Loss(RATIO_INPUTS, _CLIP, _cispo),
    "dro": Loss(RATIO_INPUTS, {"beta": 0.05}, _dro),
    "gspo": Loss((*RATIO_INPUTS, "sequence_ratio_mask"), _CLIP, _gspo),
}


def find_loss(name: str) -> Loss:
    """The loss of that name, or a Refusal that lists those served."""
    try:
        return LOSSES[name]
    except KeyError:
        raise Refusal(f"loss function {name!r} is not served (served: {', '.join(LOSSES)})") from None


def loss_config(name: str, given: Config) -> dict[str, float]:
    """The loss's settings, defaults filled in. Refuses keys it does not read and values that are no number."""
    loss = find_loss(name)
    config = dict(loss.defaults)
    for key, value in given.items():
        if key not in loss.defaults:
            raise Refusal(f"loss function {name!r} has no setting {key!r} (it reads: {', '.join(loss.defaults) or 'none'})")
        if isinstance(value, str):
            raise Refusal(f"loss function {name!r}: {key} must be a number, got {value!r}")
        config[key] = float(value)
    return config
