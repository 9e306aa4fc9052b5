"""Sampling many sequences at once, each computed as if it were alone.

A `DecodePool` advances up to 64 sequences by one token a step. What a sequence gets must not depend on who else is in the step,
so nothing in its arithmetic depends on them: prompts are prefilled one at a time at their own length; attention runs over a
fixed number of positions that follows from the sequence's own prompt and limit; matrix products have one of a few row counts,
of which `independent_kernel` has checked on this machine that a row's bits depend neither on the count nor on its place. Where
that check fails for all of them, sequences are decoded one at a time. New sequences enter free slots between steps.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from typing import Any

import torch
from torch.nn import functional

from platoon.local.draws import draw
from platoon.local.model import Rotary, Weights, head_norm, hidden_states, logits_of, rotate, vocabulary_bias
from platoon.local.sequences import Sequence
from platoon.local.shapes import ModelShape

Tensor = Any

# Tried in this order: the first one whose rows this machine computes independently is used. The last one always is.
ROW_COUNTS = ((8, 16, 32, 48, 64), (64,), (1,))
PREFILL_MULTIPLE = 16
CACHED_PROMPTS = 64
MOST_POOL_POSITIONS = 64 * 1024


@dataclass(frozen=True)
class Prefill:
    """A prompt's keys and values, shape (layers, kv_heads, T, head_dim), and the final states of its positions, (T, hidden)."""

    keys: Tensor
    values: Tensor
    states: Tensor


class Kernel:
    """What all pools of one model shape share: tables, and which row counts this machine computes independently."""

    def __init__(self, shape: ModelShape, row_counts: tuple[int, ...] = ROW_COUNTS[0]) -> None:
        self.shape = shape
        self.rotary = Rotary(shape)
        self.bias = vocabulary_bias(shape)
        self.row_counts = row_counts

    def rows_for(self, count: int) -> int:
        """The smallest served row count that holds `count` sequences."""
        return next(rows for rows in self.row_counts if rows >= count)

    @property
    def slots(self) -> int:
        """The most sequences a pool holds."""
        return self.row_counts[-1]

    def slots_for(self, context: int) -> int:
        """Slots of a pool, fewer for long contexts so that its keys and values stay within bounds."""
        fitting = [rows for rows in self.row_counts if rows * context <= MOST_POOL_POSITIONS]
        return fitting[-1] if fitting else self.row_counts[0]

    def context_bucket(self, length: int) -> int:
        """Positions kept for a sequence of at most `length` tokens."""
        multiple = 64 if length <= 512 else 256
        return min(-(-length // multiple) * multiple, self.shape.max_context)

    def prefill(self, weights: Weights, tokens: tuple[int, ...]) -> Prefill:
        """Runs one prompt at its own padded length."""
        length = len(tokens)
        padded = -(-length // PREFILL_MULTIPLE) * PREFILL_MULTIPLE
        tokens_1T = torch.zeros(1, padded, dtype=torch.int64)
        tokens_1T[0, :length] = torch.tensor(tokens)
        states, cache = hidden_states(self.shape, weights.views, self.rotary, tokens_1T, keep_cache=True)
        keys = torch.stack([k[0, :, :length] for k, _ in cache])
        values = torch.stack([v[0, :, :length] for _, v in cache])
        return Prefill(keys, values, states[0])

    def logits(self, weights: Weights, states: Tensor) -> Tensor:
        return logits_of(weights.views, self.bias, states)


class PromptCache:
    """The most recent prefills of one weight vector: the members of a group share their first prompt."""

    def __init__(self, kernel: Kernel, weights: Weights, capacity: int = CACHED_PROMPTS) -> None:
        self._kernel = kernel
        self._weights = weights
        self._capacity = capacity
        self._version = weights.version
        self._entries: OrderedDict[tuple[int, ...], Prefill] = OrderedDict()

    def __len__(self) -> int:
        return len(self._entries)

    def clear(self) -> None:
        self._entries.clear()

    def get(self, tokens: tuple[int, ...]) -> Prefill:
        if self._version != self._weights.version:
            self._entries.clear()
            self._version = self._weights.version
        entry = self._entries.get(tokens)
        if entry is None:
            entry = self._entries[tokens] = self._kernel.prefill(self._weights, tokens)
            if len(self._entries) > self._capacity:
                self._entries.popitem(last=False)
        self._entries.move_to_end(tokens)
        return entry


class DecodePool:
    """Sequences of one weight vector and one context bucket, advancing together."""

    def __init__(self, kernel: Kernel, weights: Weights, context: int) -> None:
        shape = kernel.shape
        self._kernel = kernel
        self._weights = weights
        self.active: list[Sequence] = []
        self._slots = slots = kernel.slots_for(context)
        size = (shape.layers, slots, shape.kv_heads, context, shape.head_dim)
        self._keys = torch.zeros(size)
        self._values = torch.zeros(size)
        self._mask = torch.full((slots, 1, context), float("-inf"))
        self._mask[:, :, 0] = 0.0
        self._states = torch.zeros(slots, shape.hidden)
        self._position = torch.zeros(slots, dtype=torch.int64)
        self._temperature = torch.ones(slots)
        self._top_k = torch.full((slots,), -1, dtype=torch.int64)
        self._top_p = torch.ones(slots)

    @property
    def free(self) -> int:
        return self._slots - len(self.active)

    def admit(self, sequence: Sequence, prefill: Prefill) -> None:
        """Gives a prefilled sequence the next slot. What it raises leaves the pool as it was."""
        slot = len(self.active)
        try:
            self._fill(slot, sequence, prefill)
        except Exception:
            self._top_k[slot], self._top_p[slot] = -1, 1.0
            raise
        self.active.append(sequence)

    def _fill(self, slot: int, sequence: Sequence, prefill: Prefill) -> None:
        length = len(sequence.prompt)
        self._keys[:, slot, :, :length] = prefill.keys
        self._values[:, slot, :, :length] = prefill.values
        self._mask[slot, :, :length] = 0.0
        self._mask[slot, :, length:] = float("-inf")
        self._states[slot] = prefill.states[length - 1]
        self._position[slot] = length
        self._temperature[slot] = sequence.settings.temperature
        self._top_k[slot] = sequence.settings.top_k
        self._top_p[slot] = sequence.settings.top_p

    def step(self) -> list[Sequence]:
        """Draws one token for each sequence and returns those that ended by it, whose slots are free again."""
        rows = self._kernel.rows_for(len(self.active))
        logits_RV = self._kernel.logits(self._weights, self._states[:rows])
        restricts = any(sequence.settings.restricts for sequence in self.active)
        uniform_R = torch.zeros(rows, dtype=torch.float64)
        uniform_R[: len(self.active)] = torch.tensor([s.random.random() for s in self.active], dtype=torch.float64)
        token_R, logprob_R = draw(
            logits_RV,
            self._temperature[:rows],
            self._top_k[:rows] if restricts else None,
            self._top_p[:rows] if restricts else None,
            uniform_R,
        )
        self._report_alternatives(logits_RV)
        tokens, logprobs = token_R.tolist(), logprob_R.tolist()
        ended = [slot for slot, s in enumerate(self.active) if s.extend(tokens[slot], logprobs[slot])]
        finished = [self.active[slot] for slot in ended]
        if len(ended) < len(self.active):
            self._forward(rows, token_R)
        for slot in reversed(ended):
            self._release(slot)
        return finished

    def drop(self, request: object) -> None:
        """Frees the slots of a request that nobody waits for."""
        for slot in reversed(range(len(self.active))):
            if self.active[slot].request is request:
                self._release(slot)

    def _report_alternatives(self, logits_RV: Tensor) -> None:
        wanted = [(slot, s) for slot, s in enumerate(self.active) if s.top_logprobs]
        if not wanted:
            return
        logprobs_RV = logits_RV.log_softmax(-1)
        for slot, sequence in wanted:
            values, ids = logprobs_RV[slot].topk(sequence.top_logprobs)
            sequence.alternatives.append((ids.tolist(), values.tolist()))

    def _forward(self, rows: int, token_R: Tensor) -> None:
        """Computes the state after each row's newest token, and keeps its key and value."""
        shape, views, rotary = self._kernel.shape, self._weights.views, self._kernel.rotary
        q_size, kv_size = shape.hidden, shape.kv_heads * shape.head_dim
        groups = shape.heads // shape.kv_heads
        row_R = torch.arange(rows)
        position_R = self._position[:rows].clamp(max=self._mask.shape[2] - 1)
        self._mask[row_R, 0, position_R] = 0.0
        cos, sin = rotary.cos[position_R][:, None], rotary.sin[position_R][:, None]
        mask = self._mask[:rows].repeat_interleave(shape.kv_heads, dim=0)
        scale = shape.head_dim**-0.5
        x = functional.embedding(token_R, views.embed)
        for index, layer in enumerate(views.layers):
            normed = functional.rms_norm(x, (shape.hidden,), layer.attn_norm, shape.norm_epsilon)
            q, k, v = functional.linear(normed, layer.qkv).split([q_size, kv_size, kv_size], dim=-1)
            q = head_norm(shape, q.view(rows, shape.heads, shape.head_dim), layer.q_norm)
            k = head_norm(shape, k.view(rows, shape.kv_heads, shape.head_dim), layer.k_norm)
            q, k = rotate(q, cos, sin), rotate(k, cos, sin)
            keys, values = self._keys[index, :rows], self._values[index, :rows]
            keys[row_R, :, position_R] = k
            values[row_R, :, position_R] = v.view(rows, shape.kv_heads, shape.head_dim)
            scores = torch.bmm(q.reshape(-1, groups, shape.head_dim), keys.flatten(0, 1).transpose(1, 2))
            weights = (scores * scale + mask).softmax(-1)
            mixed = torch.bmm(weights, values.flatten(0, 1)).view(rows, shape.hidden)
            x = x + functional.linear(mixed, layer.out)
            normed = functional.rms_norm(x, (shape.hidden,), layer.mlp_norm, shape.norm_epsilon)
            gate, up = functional.linear(normed, layer.gate_up).chunk(2, dim=-1)
            x = x + functional.linear(functional.silu(gate) * up, layer.down)
        self._states[:rows] = functional.rms_norm(x, (shape.hidden,), views.final_norm, shape.norm_epsilon)
        self._position[:rows] += 1

    def _release(self, slot: int) -> None:
        """Moves the last sequence into a slot that became free, so that the active ones stay together."""
        last = len(self.active) - 1
        if slot != last:
            for tensor in (self._keys, self._values):
                tensor[:, slot] = tensor[:, last]
            for tensor in (
                self._mask, self._states, self._position, self._temperature, self._top_k, self._top_p,
            ):  # fmt: skip
                tensor[slot] = tensor[last]
            self.active[slot] = self.active[last]
        self.active.pop()
        self._top_k[last], self._top_p[last] = -1, 1.0


def independent_kernel(shape: ModelShape, weights: Weights) -> Kernel:
    """A kernel with the fastest row counts that this machine computes independently."""
    for row_counts in ROW_COUNTS[:-1]:
        kernel = Kernel(shape, row_counts)
        if rows_are_independent(kernel, weights):
            return kernel
    return Kernel(shape, ROW_COUNTS[-1])


def rows_are_independent(kernel: Kernel, weights: Weights) -> bool:
    """Whether this machine's kernels give a sequence the same bits in every place and row count.

    Decodes a few tokens of one sequence alone, then in the first, middle and last slot of a full pool and in each smaller row
    count.
    """
    context = kernel.context_bucket(40)
    prompts = [tuple((7 * i + 3 * j) % kernel.shape.vocab for j in range(5 + i % 13)) for i in range(kernel.slots)]
    prefills = [kernel.prefill(weights, prompt) for prompt in prompts]

    def decode(count: int, place: int) -> tuple[list[int], list[float]]:
        pool = DecodePool(kernel, weights, context)
        others = list(range(1, count))
        order = [*others[:place], 0, *others[place:]]
        sequences = {i: Sequence.probe(prompts[i], limit=6) for i in order}
        for i in order:
            pool.admit(sequences[i], prefills[i])
        while pool.active:
            pool.step()
        return sequences[0].tokens, sequences[0].logprobs

    alone = decode(1, 0)
    cases = [(rows, place) for rows in kernel.row_counts for place in {0, rows // 2 - 1, rows - 1}]
    return all(decode(rows, place) == alone for rows, place in cases)
