"""Choosing tokens from logits, one row a sequence, each row as if it were alone.

Every operation keeps rows apart and has a fixed shape, so a row's token and logprob depend on its own logits, settings and
random number only. Logprobs are those of the untouched distribution (temperature 1, no cut), whatever shapes the draw.
"""

from __future__ import annotations

from typing import Any

import torch

Tensor = Any

# A draw of 1 - 2**-53 times the total may round to the total itself, which lies beyond the last token.
BELOW_ONE = 1.0 - 1e-12


def draw(
    logits_RV: Tensor, temperature_R: Tensor, top_k_R: Tensor | None, top_p_R: Tensor | None, uniform_R: Tensor
) -> tuple[Tensor, Tensor]:
    """Token ids int64 and logprobs float32, both of shape (R,).

    temperature_R: float32, 0 means greedy. top_k_R int64 and top_p_R float32: given together when any row restricts, else None.
    uniform_R: float64 in [0, 1), one random number a row.
    """
    logprobs_RV = logits_RV.log_softmax(-1)
    greedy_R = temperature_R == 0
    heat_R = torch.where(greedy_R, torch.ones_like(temperature_R), temperature_R)
    probabilities_RV = (logits_RV / heat_R[:, None]).softmax(-1)
    if top_k_R is not None and top_p_R is not None:
        probabilities_RV = _cut(probabilities_RV, top_k_R, top_p_R)
    cumulative_RV = probabilities_RV.double().cumsum(-1)
    target_R1 = uniform_R[:, None] * (cumulative_RV[:, -1:] * BELOW_ONE)
    drawn_R1 = torch.searchsorted(cumulative_RV, target_R1, right=True)
    likeliest_R1 = logits_RV.argmax(-1, keepdim=True)
    token_R1 = torch.where(greedy_R[:, None], likeliest_R1, drawn_R1)
    return token_R1[:, 0], logprobs_RV.gather(1, token_R1)[:, 0]


def _cut(probabilities_RV: Tensor, top_k_R: Tensor, top_p_R: Tensor) -> Tensor:
    """Zeroes what top-k and then top-p exclude; the likeliest token always stays. Rows that do not restrict keep their bits."""
    width = probabilities_RV.shape[1]
    ordered_RV, order_RV = probabilities_RV.sort(dim=-1, descending=True, stable=True)
    rank_V = torch.arange(width)
    limit_R = torch.where(top_k_R > 0, top_k_R, torch.full_like(top_k_R, width))
    keep_RV = rank_V[None] < limit_R[:, None]
    kept_RV = torch.where(keep_RV, ordered_RV, torch.zeros_like(ordered_RV)).double()
    before_RV = kept_RV.cumsum(-1) - kept_RV
    mass_R1 = kept_RV.sum(-1, keepdim=True)
    keep_RV &= (before_RV < top_p_R[:, None].double() * mass_R1) | (top_p_R[:, None] >= 1.0)
    keep_RV[:, 0] = True
    mask_RV = torch.zeros_like(keep_RV).scatter(1, order_RV, keep_RV)
    return torch.where(mask_RV, probabilities_RV, torch.zeros_like(probabilities_RV))
