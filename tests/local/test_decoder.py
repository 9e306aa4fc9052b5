"""Three ways to a logprob agree, and a sequence's bits do not depend on its batch."""

from __future__ import annotations

import random
from collections import deque
from typing import Any

import numpy as np
import pytest

from platoon.local.bases import find_base
from platoon.local.sequences import DrawSettings, Sequence, StopRule

pytestmark = pytest.mark.model


@pytest.fixture(scope="module", params=["local/tiny", "local/small"])
def parts(request: pytest.FixtureRequest) -> tuple[Any, Any]:
    """(kernel, weights) of a base, on one thread."""
    import torch

    from platoon.local.decoder import independent_kernel
    from platoon.local.model import Weights

    torch.set_num_threads(1)
    base = find_base(request.param)
    weights = Weights(base.shape, torch.from_numpy(base.parameters()))
    return independent_kernel(base.shape, weights), weights


def prompt_of(number: int, vocab: int) -> tuple[int, ...]:
    numbers = random.Random(number)
    longest = 700 if number % 32 == 17 else 150
    return tuple(numbers.randrange(3, vocab) for _ in range(numbers.randrange(longest - 149, longest)))


def sequence_of(number: int, vocab: int) -> Sequence:
    settings = [DrawSettings(), DrawSettings(0.7), DrawSettings(0.0), DrawSettings(1.3, 20, 0.9)][number % 4]
    return Sequence(prompt_of(number, vocab), 1 + number % 23, settings, StopRule(frozenset({2})), random.Random(number))


def decode(parts: tuple[Any, Any], numbers: list[int]) -> dict[int, tuple[list[int], list[float]]]:
    """Tokens and logprobs of sequences that go through the sampler together, entering as slots become free."""
    from platoon.local.sampling_engine import LiveSampler

    kernel, weights = parts
    sampler = LiveSampler(kernel, weights)
    sequences = {number: sequence_of(number, kernel.shape.vocab) for number in numbers}
    for sequence in sequences.values():
        bucket = kernel.context_bucket(len(sequence.prompt) + sequence.limit)
        sampler.waiting.setdefault(bucket, deque()).append(sequence)
    while sampler.busy:
        sampler.step()
    return {number: (sequence.tokens, sequence.logprobs) for number, sequence in sequences.items()}


def test_a_sequence_has_the_same_bits_alone_and_among_63_others(parts: tuple[Any, Any]) -> None:
    """Design 11: lengths, limits and settings mixed, first to last slot, sequences leaving and entering meanwhile."""
    crowd = list(range(64))
    together = decode(parts, crowd)
    backwards = decode(parts, crowd[::-1])
    more = decode(parts, list(range(150)))
    for number in crowd:
        assert together[number] == backwards[number] == more[number], number
    for number in (0, 1, 2, 3, 17, 40, 63):
        assert decode(parts, [number])[number] == together[number], number


def test_where_rows_depend_on_each_other_sequences_are_decoded_alone(
    parts: tuple[Any, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    from platoon.local import decoder

    kernel, weights = parts
    monkeypatch.setattr(decoder, "rows_are_independent", lambda kernel, weights: False)
    alone = decoder.independent_kernel(kernel.shape, weights)
    assert alone.row_counts == (1,) and alone.slots_for(4096) == 1
    one_by_one, together = decode((alone, weights), [5, 6]), decode(parts, [5, 6])
    np.testing.assert_allclose(one_by_one[6][1], together[6][1], atol=1e-5)


def test_the_check_of_rows_sees_a_dependence(parts: tuple[Any, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    from platoon.local import decoder

    kernel, weights = parts
    assert decoder.rows_are_independent(kernel, weights)
    exact = decoder.logits_of

    def leaky(views: Any, bias: Any, states: Any) -> Any:
        return exact(views, bias, states) * (1 + 1e-6 * len(states))

    monkeypatch.setattr(decoder, "logits_of", leaky)
    assert not decoder.rows_are_independent(kernel, weights)


def test_sampler_prefill_and_learner_logprobs_agree(parts: tuple[Any, Any]) -> None:
    import torch

    from platoon.local.learner import Example, Learner
    from platoon.local.sampling_engine import LiveSampler, PromptScores, score_prompt

    kernel, weights = parts
    sampled = decode(parts, list(range(24)))
    learner = Learner(kernel, weights.flat)
    fulls = {number: prompt_of(number, kernel.shape.vocab) + tuple(tokens) for number, (tokens, _) in sampled.items()}
    examples = [
        Example(np.array(full[:-1]), {"target_tokens": np.array(full[1:]), "weights": np.ones(len(full) - 1, np.float32)})
        for full in fulls.values()
    ]
    learnt, loss = learner.forward_backward(examples, "cross_entropy", {}, backward=False)
    assert loss == pytest.approx(-sum(float(values.sum()) for values in learnt), rel=1e-5)
    for (number, (tokens, logprobs)), learner_logprobs in zip(sampled.items(), learnt, strict=True):
        scored = score_prompt(LiveSampler(kernel, weights), fulls[number], PromptScores(logprobs=True)).logprobs
        np.testing.assert_allclose(scored[-len(tokens) :], logprobs, atol=1e-5)
        np.testing.assert_allclose(learner_logprobs[-len(tokens) :], logprobs, atol=1e-5)
        np.testing.assert_allclose(learner_logprobs, scored[1:], atol=1e-5)
    assert torch.get_num_threads() == 1


def test_a_cancelled_request_frees_its_slots_and_disturbs_nobody(parts: tuple[Any, Any]) -> None:
    from platoon.local.sampling_engine import LiveSampler, PromptScores, SampleJob, SamplingEngine

    kernel, weights = parts
    engine, sampler, finished = SamplingEngine(), LiveSampler(kernel, weights), list[SampleJob]()

    def job(prompt: tuple[int, ...], samples: int) -> SampleJob:
        done = lambda job, error: finished.append(job)  # noqa: E731  because it is said twice
        return SampleJob(prompt, samples, 20, DrawSettings(), StopRule(), 5, PromptScores(), 0, done)

    kept, cancelled = job((5, 6, 7), 3), job((8, 9), 100)
    for each in (cancelled, kept):
        engine.submit(sampler, each)
    for _ in range(4):
        engine.step()
    engine.cancel(sampler, cancelled)
    while engine.busy:
        engine.step()
    assert finished == [kept]
    alone = job((5, 6, 7), 3)
    engine.submit(sampler, alone)
    while engine.busy:
        engine.step()
    assert [s.tokens for s in alone.sequences] == [s.tokens for s in kept.sequences]
    assert [s.logprobs for s in alone.sequences] == [s.logprobs for s in kept.sequences]


@pytest.mark.parametrize("hostile", [DrawSettings(top_k=2**70), DrawSettings(temperature=1e39)])
def test_a_sequence_that_cannot_be_admitted_fails_its_request_alone(parts: tuple[Any, Any], hostile: DrawSettings) -> None:
    from platoon.local.sampling_engine import LiveSampler, PromptScores, SampleJob, SamplingEngine

    kernel, weights = parts

    def run(with_hostile: bool) -> dict[int, Any]:
        engine, sampler, answers = SamplingEngine(), LiveSampler(kernel, weights), dict[int, Any]()

        def job(number: int, settings: DrawSettings) -> SampleJob:
            def done(job: SampleJob, error: Exception | None) -> None:
                assert number not in answers
                answers[number] = error if error is not None else [(s.tokens, s.logprobs) for s in job.sequences]

            return SampleJob((5, 6, 7 + number), 2, 9, settings, StopRule(), number, PromptScores(), 0, done)

        for number in range(6):
            if number == 3 and with_hostile:
                engine.submit(sampler, job(99, hostile))
            engine.submit(sampler, job(number, DrawSettings()))
        while engine.busy:
            engine.step()
        return answers

    answers, alone = run(with_hostile=True), run(with_hostile=False)
    assert isinstance(answers.pop(99), Exception)
    assert len(alone) == 6 and answers == alone


def test_a_failed_step_fails_its_pool_alone(parts: tuple[Any, Any]) -> None:
    from platoon.local.sampling_engine import LiveSampler, PromptScores, SampleJob, SamplingEngine

    kernel, weights = parts
    engine, sampler, answers = SamplingEngine(), LiveSampler(kernel, weights), dict[int, Any]()

    def fail(tokens: list[int]) -> str:
        raise RuntimeError("no text")

    def job(prompt: int, stop: StopRule) -> SampleJob:
        done = lambda job, error: answers.__setitem__(prompt, error)  # noqa: E731  because it is said once
        return SampleJob((5,) * prompt, 2, 9, DrawSettings(), stop, 1, PromptScores(), 0, done)

    engine.submit(sampler, job(3, StopRule()))
    engine.submit(sampler, job(200, StopRule(strings=("x",), decode=fail)))
    while engine.busy:
        engine.step()
    assert answers[3] is None and str(answers[200]) == "no text"


def test_only_samplers_used_last_keep_their_prompts(parts: tuple[Any, Any]) -> None:
    from platoon.local import sampling_engine
    from platoon.local.sampling_engine import LiveSampler, PromptScores, SampleJob, SamplingEngine

    kernel, weights = parts
    engine = SamplingEngine()
    samplers = [LiveSampler(kernel, weights) for _ in range(sampling_engine.SAMPLERS_WITH_PROMPTS + 1)]
    for sampler in samplers:
        engine.submit(sampler, SampleJob((5, 6), 1, 2, DrawSettings(), StopRule(), 5, PromptScores(), 0, lambda *_: None))
        while engine.busy:
            engine.step()
    assert [len(sampler.prompts) for sampler in samplers] == [0, *[1] * sampling_engine.SAMPLERS_WITH_PROMPTS]


def test_changed_weights_drop_cached_prompts(parts: tuple[Any, Any]) -> None:
    from platoon.local.decoder import PromptCache
    from platoon.local.learner import Learner

    kernel, weights = parts
    learner = Learner(kernel, weights.flat)
    cache = PromptCache(kernel, learner.weights)
    before = cache.get((5, 6, 7)).states.clone()
    assert cache.get((5, 6, 7)) is cache.get((5, 6, 7))
    learner.load_parameters(weights.flat * 1.1)
    assert not np.array_equal(before, cache.get((5, 6, 7)).states)


class TestDraws:
    """`draw` against the distribution it should draw from."""

    def frequencies(self, settings: DrawSettings, count: int = 4000) -> np.ndarray[Any, Any]:
        import torch

        from platoon.local.draws import draw

        logits = torch.tensor([2.0, 1.0, 0.0, -1.0, float("-inf")]).repeat(count, 1)
        full = torch.full((count,), 1.0)
        uniform = (torch.arange(count, dtype=torch.float64) + 0.5) / count
        tokens, logprobs = draw(
            logits,
            full * settings.temperature,
            torch.full((count,), settings.top_k) if settings.restricts else None,
            full * settings.top_p if settings.restricts else None,
            uniform,
        )
        plain = np.exp([2.0, 1.0, 0.0, -1.0]) / np.exp([2.0, 1.0, 0.0, -1.0]).sum()
        np.testing.assert_allclose(logprobs.exp(), plain[tokens], rtol=1e-5)
        return np.bincount(tokens, minlength=5) / count

    @pytest.mark.parametrize(
        ("settings", "scale", "kept"),
        [
            (DrawSettings(), 1.0, 4),
            (DrawSettings(temperature=0.5), 0.5, 4),
            (DrawSettings(temperature=2.0), 2.0, 4),
            (DrawSettings(top_k=2), 1.0, 2),
            (DrawSettings(top_k=1), 1.0, 1),
            (DrawSettings(top_p=0.7), 1.0, 2),
            (DrawSettings(top_p=0.01), 1.0, 1),
            (DrawSettings(temperature=0.0), 1.0, 1),
            (DrawSettings(top_k=3, top_p=0.999), 1.0, 3),
            (DrawSettings(top_k=99, top_p=1.0), 1.0, 4),
        ],
    )
    def test_tokens_come_as_often_as_they_should(self, settings: DrawSettings, scale: float, kept: int) -> None:
        wanted = np.exp(np.array([2.0, 1.0, 0.0, -1.0]) / scale)
        wanted[kept:] = 0
        np.testing.assert_allclose(self.frequencies(settings), [*(wanted / wanted.sum()), 0.0], atol=1e-3)

    def test_the_ends_of_the_unit_interval_give_tokens_that_exist(self) -> None:
        import torch

        from platoon.local.draws import draw

        logits = torch.tensor([[float("-inf"), 0.0, 0.0, float("-inf")]] * 2)
        tokens, _ = draw(logits, torch.ones(2), None, None, torch.tensor([0.0, 1 - 2**-53], dtype=torch.float64))
        assert tokens.tolist() == [1, 2]
