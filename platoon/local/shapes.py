"""Sizes of the tiny transformer and where each parameter lies in its one flat vector.

Parameters, gradient and both optimizer moments are each one float32 vector; a tensor is a view of a slice. So an optimizer step
is a few whole-vector operations, a snapshot is one copy, and a checkpoint is the vector itself. Every slice begins at a
multiple of 64 bytes, because a matrix product may round differently for operands that lie differently.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

ALIGNMENT_FLOATS = 16


@dataclass(frozen=True)
class Slice:
    """One parameter: its place in the flat vector, in floats, and its shape. `group` is `attn`, `mlp` or `unembed`."""

    name: str
    offset: int
    shape: tuple[int, ...]
    group: str

    @property
    def size(self) -> int:
        return math.prod(self.shape)


@dataclass(frozen=True)
class ModelShape:
    """Sizes of a decoder-only transformer with grouped-query attention and tied embeddings.

    vocab: token ids that exist. The tables have `padded_vocab` rows; the rest never gets probability.
    """

    vocab: int
    hidden: int = 128
    layers: int = 4
    heads: int = 4
    kv_heads: int = 2
    mlp: int = 384
    max_context: int = 4096
    rope_theta: float = 10_000.0
    norm_epsilon: float = 1e-6

    def __post_init__(self) -> None:
        if self.hidden % (self.heads * ALIGNMENT_FLOATS) or self.mlp % ALIGNMENT_FLOATS or self.heads % self.kv_heads:
            raise ValueError(f"sizes must be multiples of {ALIGNMENT_FLOATS} and heads of kv_heads: {self}")

    @property
    def head_dim(self) -> int:
        return self.hidden // self.heads

    @property
    def padded_vocab(self) -> int:
        return -(-self.vocab // 64) * 64

    @cached_property
    def slices(self) -> tuple[Slice, ...]:
        """The parameters in file order."""
        qkv_rows = (self.heads + 2 * self.kv_heads) * self.head_dim
        plan: list[tuple[str, tuple[int, ...], str]] = [("embed", (self.padded_vocab, self.hidden), "unembed")]
        for layer in range(self.layers):
            plan += [
                (f"layers.{layer}.attn_norm", (self.hidden,), "attn"),
                (f"layers.{layer}.qkv", (qkv_rows, self.hidden), "attn"),
                (f"layers.{layer}.q_norm", (self.head_dim,), "attn"),
                (f"layers.{layer}.k_norm", (self.head_dim,), "attn"),
                (f"layers.{layer}.out", (self.hidden, self.hidden), "attn"),
                (f"layers.{layer}.mlp_norm", (self.hidden,), "mlp"),
                (f"layers.{layer}.gate_up", (2 * self.mlp, self.hidden), "mlp"),
                (f"layers.{layer}.down", (self.hidden, self.mlp), "mlp"),
            ]
        plan.append(("final_norm", (self.hidden,), "unembed"))
        slices, offset = [], 0
        for name, shape, group in plan:
            slices.append(Slice(name, offset, shape, group))
            offset += math.prod(shape)
        return tuple(slices)

    @cached_property
    def parameter_count(self) -> int:
        last = self.slices[-1]
        return last.offset + last.size
