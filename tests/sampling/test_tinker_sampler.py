from __future__ import annotations

import asyncio
from types import SimpleNamespace

import numpy as np
import pytest

from platoon.errors import ConfigError, ServiceError
from platoon.sampling.model_spec import SamplingSettings
from platoon.sampling.service_errors import map_service_error
from platoon.sampling.swappable import SwappableSampler
from platoon.sampling.tinker_sampler import TinkerSampler

pytestmark = pytest.mark.model
PROMPT = np.array([1, 2], dtype=np.uint32)


class FakeClient:
    """The duck type of a sampling client: futures are awaitables."""

    def __init__(self, answer):
        self.answer, self.asked = answer, []

    def sample(self, **kwargs):
        self.asked.append(kwargs)

        async def run():
            if isinstance(self.answer, Exception):
                raise self.answer
            return await self.answer() if callable(self.answer) else self.answer

        return run()

    def compute_logprobs(self, prompt):
        async def run():
            return [None, -0.5]

        return run()


def response(logprobs=(-0.1, -0.2), count=1):
    sequence = SimpleNamespace(tokens_np=None, tokens=[5, 6], logprobs_np=None, logprobs=logprobs, stop_reason="stop")
    return SimpleNamespace(sequences=[sequence] * count)


def sampler(answer, **kwargs):
    return TinkerSampler(FakeClient(answer), 3, base_url="http://h:1", **kwargs)


def test_a_sample_carries_tokens_logprobs_and_version():
    subject = sampler(response())
    sample = asyncio.run(subject.sample(PROMPT, SamplingSettings(max_tokens=7, seed=9, stop=(258,))))
    assert (sample.tokens_T.tolist(), sample.version, sample.stop_reason, sample.routing_id) == ([5, 6], 3, "stop", None)
    assert (sample.tokens_T.dtype, sample.logprobs_T.dtype) == (np.uint32, np.float32)
    asked = subject.client.asked[0]
    parameters = asked["sampling_params"]
    assert (asked["prompt"].to_ints(), asked["num_samples"]) == ([1, 2], 1)
    assert (parameters.max_tokens, parameters.seed, parameters.stop) == (7, 9, [258])


def test_scoring_leaves_out_the_first_token():
    assert asyncio.run(sampler(response()).score(PROMPT)).tolist() == [-0.5]


@pytest.mark.parametrize(
    "answer",
    [ValueError("status 404"), RuntimeError("ServiceClient is closed"), response(None), response((1.0,)), response(count=2)],
)
def test_failures_of_the_service(answer):
    with pytest.raises(ServiceError):
        asyncio.run(sampler(answer).sample(PROMPT, SamplingSettings()))


def test_a_wait_is_bounded():
    async def forever():
        await asyncio.Event().wait()

    with pytest.raises(TimeoutError, match="sample_timeout_seconds"):
        asyncio.run(sampler(forever, sample_timeout_s=0.01).sample(PROMPT, SamplingSettings()))


def test_a_refused_key_is_a_configuration_error():
    import httpx
    import tinker

    answer = httpx.Response(401, request=httpx.Request("POST", "http://h:1"))
    refused = tinker.AuthenticationError("no", response=answer, body=None)
    with pytest.raises(ConfigError, match="http://h:1 refuses the key in TINKER_API_KEY"):
        asyncio.run(sampler(refused).sample(PROMPT, SamplingSettings()))


def test_an_error_of_our_own_is_not_the_services():
    assert map_service_error(KeyError("x"), "sampling", None) is None
    assert "policy judge" in str(map_service_error(ValueError("x"), "sampling", None, "judge"))


def test_a_publication_takes_effect_at_the_next_call():
    async def run():
        first, second = sampler(response()), TinkerSampler(FakeClient(response()), 4)
        subject = SwappableSampler(first)
        before = await subject.sample(PROMPT, SamplingSettings())
        subject.publish(second)
        after = await subject.sample(PROMPT, SamplingSettings())
        with pytest.raises(ValueError, match="would follow"):
            subject.publish(first)
        return before.version, after.version

    assert asyncio.run(run()) == (3, 4)
