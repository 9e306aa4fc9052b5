"""The transformer itself, as functions over one flat parameter vector.

RMSNorm (also of queries and keys within a head), rotary positions, grouped-query attention, SwiGLU, tied embeddings, float32
throughout. Two ways through it exist and agree to about 1e-6: `hidden_states` over whole sequences (learning, prefill) and
`decoder.DecodePool.step` over one token of many sequences.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

import torch
from torch.nn import functional

from platoon.local.shapes import ModelShape

Tensor = Any


@dataclass(frozen=True)
class Layer:
    """Parameter views of one layer."""

    attn_norm: Tensor
    qkv: Tensor
    q_norm: Tensor
    k_norm: Tensor
    out: Tensor
    mlp_norm: Tensor
    gate_up: Tensor
    down: Tensor


@dataclass(frozen=True)
class Views:
    """Parameter views of a flat vector; they follow it when it is changed in place."""

    embed: Tensor
    layers: tuple[Layer, ...]
    final_norm: Tensor


class Weights:
    """A parameter vector that samplers read, detached: nothing computed with its views is recorded for a gradient.

    `version` counts in-place changes, so that what was computed with it can be dropped.
    """

    def __init__(self, shape: ModelShape, flat: Tensor) -> None:
        self.shape = shape
        self.flat = flat
        self.version = 0
        self.views = views_of(shape, flat.detach())

    def snapshot(self) -> Weights:
        """A copy that later changes do not reach."""
        return Weights(self.shape, self.flat.detach().clone())


def views_of(shape: ModelShape, flat: Tensor) -> Views:
    """Cuts a flat vector of `shape.parameter_count` floats into parameters; differentiable."""
    parts = flat.split([piece.size for piece in shape.slices])
    tensors = [part.view(piece.shape) for part, piece in zip(parts, shape.slices, strict=True)]
    per_layer = len(fields(Layer))
    layers = tuple(Layer(*tensors[1 + per_layer * i : 1 + per_layer * (i + 1)]) for i in range(shape.layers))
    return Views(tensors[0], layers, tensors[-1])


class Rotary:
    """Cosines and sines of all positions, shape (max_context, head_dim)."""

    def __init__(self, shape: ModelShape) -> None:
        half = shape.head_dim // 2
        rates = shape.rope_theta ** -(torch.arange(half, dtype=torch.float64) / half)
        angles = torch.arange(shape.max_context, dtype=torch.float64)[:, None] * rates[None]
        angles = torch.cat([angles, angles], dim=1)
        self.cos = angles.cos().float()
        self.sin = angles.sin().float()


def rotate(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Turns the last dimension of `x` by the angles of its position; `cos` and `sin` broadcast against it."""
    first, second = x.chunk(2, dim=-1)
    return x * cos + torch.cat([-second, first], dim=-1) * sin


def head_norm(shape: ModelShape, x: Tensor, weight: Tensor) -> Tensor:
    """Norms queries or keys within each head, the last dimension."""
    return functional.rms_norm(x, (shape.head_dim,), weight, shape.norm_epsilon)


def vocabulary_bias(shape: ModelShape) -> Tensor:
    """0 for token ids that exist, -inf for rows that only fill the table, shape (padded_vocab,)."""
    bias = torch.zeros(shape.padded_vocab)
    bias[shape.vocab :] = float("-inf")
    return bias


def hidden_states(
    shape: ModelShape, views: Views, rotary: Rotary, tokens_BT: Tensor, keep_cache: bool = False
) -> tuple[Tensor, list[tuple[Tensor, Tensor]]]:
    """Final normed states of shape (B, T, hidden), and per layer (keys, values) of shape (B, kv_heads, T, head_dim) if kept.

    Sequences begin at position 0 and are filled up at their right end, where causality keeps the filling from mattering.
    """
    batch, length = tokens_BT.shape
    q_size, kv_size = shape.hidden, shape.kv_heads * shape.head_dim
    cos, sin = rotary.cos[:length], rotary.sin[:length]
    cache: list[tuple[Tensor, Tensor]] = []
    x = functional.embedding(tokens_BT, views.embed)
    for layer in views.layers:
        normed = functional.rms_norm(x, (shape.hidden,), layer.attn_norm, shape.norm_epsilon)
        q, k, v = functional.linear(normed, layer.qkv).split([q_size, kv_size, kv_size], dim=-1)
        q = head_norm(shape, q.view(batch, length, shape.heads, shape.head_dim), layer.q_norm)
        k = head_norm(shape, k.view(batch, length, shape.kv_heads, shape.head_dim), layer.k_norm)
        q, k = rotate(q.transpose(1, 2), cos, sin), rotate(k.transpose(1, 2), cos, sin)
        v = v.view(batch, length, shape.kv_heads, shape.head_dim).transpose(1, 2)
        if keep_cache:
            cache.append((k, v))
        groups = shape.heads // shape.kv_heads
        k, v = k.repeat_interleave(groups, dim=1), v.repeat_interleave(groups, dim=1)
        mixed = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + functional.linear(mixed.transpose(1, 2).reshape(batch, length, shape.hidden), layer.out)
        normed = functional.rms_norm(x, (shape.hidden,), layer.mlp_norm, shape.norm_epsilon)
        gate, up = functional.linear(normed, layer.gate_up).chunk(2, dim=-1)
        x = x + functional.linear(functional.silu(gate) * up, layer.down)
    return functional.rms_norm(x, (shape.hidden,), views.final_norm, shape.norm_epsilon), cache


def logits_of(views: Views, bias: Tensor, states: Tensor) -> Tensor:
    """Next-token logits, shape (..., padded_vocab)."""
    return functional.linear(states, views.embed) + bias
