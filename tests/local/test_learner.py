"""Losses against their formulas, AdamW against torch's, and what splitting a batch does not change."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from platoon.local.refusals import Refusal
from platoon.local.shapes import ModelShape

pytestmark = pytest.mark.model

SHAPE = ModelShape(vocab=70, hidden=32, layers=2, heads=2, kv_heads=1, mlp=32, max_context=64)


def make_learner(frozen: tuple[str, ...] = ()) -> Any:
    import torch

    from platoon.local.decoder import Kernel
    from platoon.local.learner import Learner

    torch.set_num_threads(1)
    flat = np.random.default_rng(0).standard_normal(SHAPE.parameter_count).astype(np.float32) * 0.2
    return Learner(Kernel(SHAPE), torch.from_numpy(flat), frozen)


def gradient(learner: Any) -> np.ndarray[Any, Any]:
    copied: np.ndarray[Any, Any] = learner._flat.grad.numpy().copy()
    return copied


def examples(names: tuple[str, ...], count: int = 5, seed: int = 1) -> list[Any]:
    from platoon.local.learner import Example

    source = np.random.default_rng(seed)
    made = []
    for number in range(count):
        length = int(source.integers(2, 20))
        inputs: dict[str, Any] = {"target_tokens": source.integers(0, SHAPE.vocab, length)}
        for name in names:
            inputs[name] = source.standard_normal(length).astype(np.float32)
        if "logprobs" in names:
            inputs["logprobs"] = (-4.5 + 0.3 * source.standard_normal(length)).astype(np.float32)
        if "sequence_ratio_mask" in names:
            inputs["sequence_ratio_mask"] = (np.arange(length) >= number % 2).astype(np.float32)
        made.append(Example(source.integers(0, SHAPE.vocab, length), inputs))
    return made


def expected_loss(name: str, lp: Any, inputs: dict[str, Any]) -> float:
    """The losses once more, a datum at a time, from their definitions."""
    if name == "cross_entropy":
        return float(-(lp * inputs["weights"]).sum())
    q, advantages = inputs["logprobs"].astype(np.float64), inputs["advantages"]
    ratio = np.exp(lp - q)
    if name == "importance_sampling":
        return float(-(ratio * advantages).sum())
    if name == "cispo":
        return float(-(np.clip(ratio, 0.9, 1.2) * lp * advantages).sum())
    if name == "dro":
        return float(-(lp * advantages - 0.5 * 0.05 * (lp - q) ** 2).sum())
    weight = np.ones_like(lp)
    if name == "gspo":
        weight = inputs["sequence_ratio_mask"]
        ratio = np.full_like(lp, np.exp(((lp - q) * weight).sum() / weight.sum()))
    return float(-(np.minimum(ratio * advantages, np.clip(ratio, 0.9, 1.2) * advantages) * weight).sum())


@pytest.mark.parametrize("name", ["cross_entropy", "importance_sampling", "ppo", "cispo", "dro", "gspo"])
def test_each_loss_is_its_formula_and_its_gradient_reaches_the_parameters(name: str) -> None:
    from platoon.local.losses import LOSSES

    config = {key: {"clip_low_threshold": 0.9, "clip_high_threshold": 1.2, "beta": 0.05}[key] for key in LOSSES[name].defaults}
    data = examples(LOSSES[name].inputs)
    learner = make_learner()
    logprobs, loss = learner.forward_backward(data, name, config, backward=True)
    wanted = sum(expected_loss(name, lp.astype(np.float64), e.inputs) for lp, e in zip(logprobs, data, strict=True))
    assert loss == pytest.approx(wanted, rel=1e-4)
    assert np.linalg.norm(gradient(learner)) > 0


@pytest.mark.parametrize("name", ["cross_entropy", "ppo", "gspo"])
def test_splitting_a_batch_changes_nothing(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from platoon.local import learner as module
    from platoon.local.losses import LOSSES

    data = examples(LOSSES[name].inputs, count=9)
    whole, split = make_learner(), make_learner()
    one, one_loss = whole.forward_backward(data, name, {}, backward=True)
    plain = module.micro_batches
    monkeypatch.setattr(module, "micro_batches", lambda lengths: plain(lengths, 24))
    assert len(list(module.micro_batches([len(e.tokens) for e in data]))) > 3
    many, many_loss = split.forward_backward(data, name, {}, backward=True)
    assert one_loss == pytest.approx(many_loss, rel=1e-5)
    for left, right in zip(one, many, strict=True):
        np.testing.assert_allclose(left, right, atol=1e-5)
    np.testing.assert_allclose(gradient(whole), gradient(split), atol=2e-4)


def test_micro_batches_cover_every_example_within_the_budget() -> None:
    from platoon.local.learner import micro_batches

    lengths = [5, 100, 7, 3, 50, 50, 200]
    batches = list(micro_batches(lengths, 100))
    assert sorted(index for batch in batches for index in batch) == list(range(7))
    assert all(len(batch) == 1 or len(batch) * max(lengths[i] for i in batch) <= 100 for batch in batches)


def test_adamw_steps_as_torch_does() -> None:
    import torch

    from platoon.local.learner import AdamSettings

    learner = make_learner()
    reference = learner._flat.detach().clone().requires_grad_(True)
    optimizer = torch.optim.AdamW([reference], lr=1e-2, betas=(0.9, 0.95), eps=1e-8, weight_decay=0.1)
    for seed in range(4):
        learner.forward_backward(examples(("weights",), seed=seed), "cross_entropy", {}, backward=True)
        reference.grad = learner._flat.grad.clone()
        norm = float(torch.nn.utils.clip_grad_norm_([reference], 1.0))
        optimizer.step()
        assert learner.step(AdamSettings(1e-2, 0.9, 0.95, 1e-8, 0.1, 1.0)) == pytest.approx(norm, rel=1e-5)
        np.testing.assert_allclose(learner._flat.detach(), reference.detach(), atol=2e-6)


def test_gradients_add_up_until_a_step_takes_them_and_forward_leaves_none() -> None:
    from platoon.local.learner import AdamSettings

    data = examples(("weights",))
    learner, once = make_learner(), make_learner()
    learner.forward_backward(data, "cross_entropy", {}, backward=False)
    assert learner._flat.grad is None
    once.forward_backward(data, "cross_entropy", {}, backward=True)
    for _ in range(2):
        learner.forward_backward(data, "cross_entropy", {}, backward=True)
    np.testing.assert_allclose(gradient(learner), 2 * gradient(once), rtol=1e-5, atol=1e-6)
    version = learner.weights.version
    learner.step(AdamSettings(1e-3, 0.9, 0.95, 1e-8, 0.0, 0.0))
    assert learner._flat.grad is None and learner.weights.version == version + 1


def test_frozen_groups_keep_their_parameters() -> None:
    from platoon.local.learner import AdamSettings

    learner = make_learner(frozen=("mlp", "unembed"))
    before = learner._flat.detach().numpy().copy()
    learner.forward_backward(examples(("weights",)), "cross_entropy", {}, backward=True)
    learner.step(AdamSettings(1e-2, 0.9, 0.95, 1e-8, 0.1, 0.0))
    changed = learner._flat.detach().numpy().copy() != before
    for piece in SHAPE.slices:
        assert changed[piece.offset : piece.offset + piece.size].any() == (piece.group == "attn"), piece.name


def test_a_gradient_that_is_not_finite_leaves_the_model_as_it_was() -> None:
    from platoon.local.learner import AdamSettings

    learner = make_learner()
    before = learner._flat.detach().numpy().copy()
    data = examples(("logprobs", "advantages"))
    data[0].inputs["logprobs"][:] = -1e4
    learner.forward_backward(data, "importance_sampling", {}, backward=True)
    with pytest.raises(Refusal, match="not finite"):
        learner.step(AdamSettings(1e-2, 0.9, 0.95, 1e-8, 0.0, 1.0))
    np.testing.assert_array_equal(learner._flat.detach(), before)
    assert learner.optimizer.steps == 0


def test_soft_targets_are_weighted_over_both_dimensions() -> None:
    from platoon.local.learner import Example

    source = np.random.default_rng(3)
    targets = source.integers(0, SHAPE.vocab, (6, 3))
    weights = source.random((6, 3)).astype(np.float32)
    data = [Example(source.integers(0, SHAPE.vocab, 6), {"target_tokens": targets, "weights": weights})]
    logprobs, loss = make_learner().forward_backward(data, "cross_entropy", {}, backward=True)
    assert logprobs[0].shape == (6, 3)
    assert loss == pytest.approx(-float((logprobs[0] * weights).sum()), rel=1e-5)


@pytest.mark.parametrize(
    ("change", "rule"),
    [
        ({"mask": np.ones(4, np.float32)}, "exactly the inputs"),
        ({"weights": np.ones(3, np.float32)}, "has shape"),
        ({"weights": np.array([1, np.nan, 1, 1], np.float32)}, "not finite"),
        ({"target_tokens": np.array([1, 2, 3, 70])}, "token ids"),
        ({"target_tokens": np.array([1, 2, 3, -1])}, "token ids"),
    ],
)
def test_data_a_loss_cannot_be_computed_on_is_refused(change: dict[str, Any], rule: str) -> None:
    from platoon.local.learner import Example

    inputs = {"target_tokens": np.array([1, 2, 3, 4]), "weights": np.ones(4, np.float32)} | change
    with pytest.raises(Refusal, match=rule):
        make_learner().forward_backward([Example(np.arange(4), inputs)], "cross_entropy", {}, backward=True)


@pytest.mark.parametrize(("name", "config"), [("dro", {"gamma": 1.0}), ("ppo", {"clip_low_threshold": "low"}), ("nll", {})])
def test_unknown_losses_and_settings_are_refused(name: str, config: dict[str, Any]) -> None:
    with pytest.raises(Refusal, match=r"is not served|no setting|must be a number"):
        make_learner().forward_backward(examples(("logprobs", "advantages")), name, config, backward=True)
