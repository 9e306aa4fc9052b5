"""Training one model: gradients of the protocol's losses, and AdamW by hand over the flat parameter vector.

Gradients add up over calls until an optimizer step takes them. Batches are split by a token budget, sorted by length; losses
are sums, so the split does not change the result. Everything runs on the one torch thread.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from platoon.local.decoder import Kernel
from platoon.local.losses import Batch, find_loss, loss_config
from platoon.local.model import Weights, hidden_states, logits_of, views_of
from platoon.local.refusals import Refusal

Tensor = Any
Array = npt.NDArray[Any]

MICRO_BATCH_TOKENS = 2048


@dataclass(frozen=True)
class Example:
    """One datum: tokens int64 (T,), and loss inputs by name; `target_tokens` int64 and the rest float32, all (T,) or (T, K)."""

    tokens: Array
    inputs: Mapping[str, Array]


@dataclass(frozen=True)
class AdamSettings:
    """Settings of one AdamW step. grad_clip_norm 0 clips nothing."""

    learning_rate: float
    beta1: float
    beta2: float
    eps: float
    weight_decay: float
    grad_clip_norm: float


@dataclass
class OptimizerState:
    """Both AdamW moments, float32 of the parameters' shape, and the number of steps taken."""

    first: Tensor
    second: Tensor
    steps: int = 0


class Learner:
    """A model in training. `weights` follows it: who wants it to stand still takes a snapshot."""

    def __init__(self, kernel: Kernel, flat: Tensor, frozen_groups: Iterable[str] = ()) -> None:
        self.kernel = kernel
        self.shape = kernel.shape
        self._flat = flat.detach().clone().requires_grad_(True)
        self.weights = Weights(self.shape, self._flat)
        self.optimizer = OptimizerState(torch.zeros_like(flat), torch.zeros_like(flat))
        self._trained = _trained_mask(kernel, frozenset(frozen_groups))

    def restore_optimizer(self, first: Tensor, second: Tensor, steps: int) -> None:
        """Continues from saved moments; the gradient gathered so far is kept."""
        self.optimizer = OptimizerState(first.clone(), second.clone(), steps)

    def load_parameters(self, flat: Tensor) -> None:
        """Replaces the parameters in place, so that whoever follows `weights` sees them."""
        with torch.no_grad():
            self._flat.copy_(flat)
        self.weights.version += 1

    def forward_backward(
        self, examples: Sequence[Example], loss_name: str, config: Mapping[str, float | str], backward: bool
    ) -> tuple[list[Array], float]:
        """Learner logprobs of each example's targets, float32 of their shape and in the given order, and the summed loss."""
        settings = loss_config(loss_name, config)
        check_examples(examples, loss_name, self.shape.vocab, self.shape.max_context)
        logprobs: list[Array] = [np.empty(0, np.float32)] * len(examples)
        total = 0.0
        with torch.set_grad_enabled(backward):
            for indices in micro_batches([len(example.tokens) for example in examples]):
                chosen = [examples[index] for index in indices]
                flat_logprobs, batch = self._logprobs(chosen)
                loss = find_loss(loss_name).value(flat_logprobs, batch, settings)
                if backward:
                    loss.backward()
                total += float(loss.detach())
                lengths = [len(example.tokens) for example in chosen]
                for index, part in zip(indices, flat_logprobs.detach().split(lengths), strict=True):
                    logprobs[index] = part.numpy()
        return logprobs, total

    def step(self, settings: AdamSettings) -> float:
        """One AdamW update with the gathered gradient, which it clears. Returns the gradient's norm before clipping.

        Raises Refusal when the gradient is not finite; the parameters then stay as they are.
        """
        gradient = self._flat.grad
        self._flat.grad = None
        gradient = torch.zeros_like(self._flat) if gradient is None else gradient.mul_(self._trained)
        norm = float(torch.linalg.vector_norm(gradient, dtype=torch.float64))
        if not np.isfinite(norm):
            raise Refusal("the gathered gradient is not finite; parameters and moments are left as they were")
        if 0 < settings.grad_clip_norm < norm:
            gradient *= settings.grad_clip_norm / norm
        state = self.optimizer
        state.steps += 1
        state.first.lerp_(gradient, 1 - settings.beta1)
        state.second.mul_(settings.beta2).addcmul_(gradient, gradient, value=1 - settings.beta2)
        first_scale = settings.learning_rate / (1 - settings.beta1**state.steps)
        second_scale = (1 - settings.beta2**state.steps) ** 0.5
        with torch.no_grad():
            if settings.weight_decay:
                self._flat -= self._flat * self._trained * (settings.learning_rate * settings.weight_decay)
            denominator = state.second.sqrt().div_(second_scale).add_(settings.eps)
            self._flat.addcdiv_(state.first, denominator, value=-first_scale)
        self.weights.version += 1
        return norm

    def _logprobs(self, examples: Sequence[Example]) -> tuple[Tensor, Batch]:
        """Target logprobs over all tokens of the examples, flat, and the other loss inputs in the same order."""
        lengths = [len(example.tokens) for example in examples]
        tokens_BT = torch.zeros(len(examples), max(lengths), dtype=torch.int64)
        for row, example in enumerate(examples):
            tokens_BT[row, : lengths[row]] = torch.from_numpy(example.tokens)
        views = views_of(self.shape, self._flat)
        states, _ = hidden_states(self.shape, views, self.kernel.rotary, tokens_BT)
        present_BT = torch.arange(tokens_BT.shape[1])[None] < torch.tensor(lengths)[:, None]
        logits_NV = logits_of(views, self.kernel.bias, states[present_BT])
        inputs = {name: _joined(examples, name) for name in examples[0].inputs}
        targets = inputs.pop("target_tokens")
        wide_NK = targets if targets.dim() == 2 else targets[:, None]
        logprobs = logits_NV.log_softmax(-1).gather(1, wide_NK).view(targets.shape)
        datum_N = torch.repeat_interleave(torch.arange(len(examples)), torch.tensor(lengths))
        return logprobs, Batch(inputs, datum_N, len(examples))


def _joined(examples: Sequence[Example], name: str) -> Tensor:
    return torch.from_numpy(np.concatenate([example.inputs[name] for example in examples]))


def _trained_mask(kernel: Kernel, frozen_groups: frozenset[str]) -> Tensor:
    """1 where parameters are trained, 0 where their group is frozen; a plain 1 when none is."""
    if not frozen_groups:
        return torch.ones(())
    mask = torch.ones(kernel.shape.parameter_count)
    for piece in kernel.shape.slices:
        if piece.group in frozen_groups:
            mask[piece.offset : piece.offset + piece.size] = 0.0
    return mask


def micro_batches(lengths: Sequence[int], budget_tokens: int = MICRO_BATCH_TOKENS) -> Iterator[list[int]]:
    """Index lists that cover all examples once.

    Rows times the longest one stays within the budget unless one example exceeds it.
    """
    batch: list[int] = []
    for index in sorted(range(len(lengths)), key=lambda i: (lengths[i], i)):
        if batch and (len(batch) + 1) * lengths[index] > budget_tokens:
            yield batch
            batch = []
        batch.append(index)
    if batch:
        yield batch


def check_examples(examples: Sequence[Example], loss_name: str, vocab: int, max_context: int) -> None:
    """Refuses data that the loss cannot be computed on, naming the first datum and input at fault."""
    needed = {"target_tokens", *find_loss(loss_name).inputs}
    if not examples:
        raise Refusal("no data")
    widths = {example.inputs["target_tokens"].shape[1:] for example in examples if "target_tokens" in example.inputs}
    if len(widths) > 1:
        raise Refusal(f"all target_tokens of a call have one width, got {sorted(widths)}")
    for number, example in enumerate(examples):
        where = f"datum {number}"
        names = set(example.inputs)
        if names != needed:
            raise Refusal(f"{where}: {loss_name} takes exactly the inputs {sorted(needed)}, got {sorted(names)}")
        length = len(example.tokens)
        if not 0 < length <= max_context:
            raise Refusal(f"{where}: {length} tokens; from 1 to {max_context} are possible")
        _check_ids(example.tokens, vocab, f"{where}: model_input")
        targets = example.inputs["target_tokens"]
        _check_ids(targets, vocab, f"{where}: target_tokens")
        if targets.ndim > 1 and loss_name != "cross_entropy":
            raise Refusal(f"{where}: {loss_name} takes target_tokens of one dimension")
        for name, values in example.inputs.items():
            if values.shape != targets.shape or len(values) != length:
                raise Refusal(f"{where}: {name} has shape {values.shape}, the input has {length} tokens")
            if not np.isfinite(values).all():
                raise Refusal(f"{where}: {name} holds values that are not finite")


def _check_ids(ids: Array, vocab: int, where: str) -> None:
    if ids.size and not 0 <= int(ids.min()) <= int(ids.max()) < vocab:
        raise Refusal(f"{where}: token ids must be from 0 to {vocab - 1}, got {int(ids.min())} to {int(ids.max())}")
