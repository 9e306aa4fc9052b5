"""Sample requests of the protocol: checked, turned into jobs, answered by promises. Runs on the event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from platoon.local import requests
from platoon.local.promises import Promise
from platoon.local.refusals import Refusal
from platoon.local.sampling_engine import PromptScores, SampleJob
from platoon.local.sequences import DrawSettings
from platoon.local.service import LocalService
from platoon.local.sessions import SamplerRecord
from platoon.local.shapes import ModelShape
from platoon.local.wire import encode_sample
from platoon.local.worker import hand_over

Done = Callable[[SampleJob, Exception | None], None]

MOST_SAMPLES = 1024
MOST_TOP = 64


def sample(service: LocalService, body: requests.Sample) -> Promise:
    """The promise of a sample request, the same one when it is asked for again."""
    record = service.registry.sampler(body.sampling_session_id)
    service.registry.session(record.session_id)
    request_id = f"{record.id}:{body.seq_id}"
    if (known := service.promises.find(request_id)) is not None:
        return known
    loop = asyncio.get_running_loop()

    def done(job: SampleJob, error: Exception | None) -> None:
        # On the torch thread: encoding there keeps the loop free for requests.
        try:
            outcome = error if error is not None else encode_sample(job)
        except Exception as failure:
            outcome = failure
        hand_over(loop, promise.resolve, outcome)

    job = sample_job(service, record, body, done)
    promise = service.promises.open(request_id, sample_sequence_ids=[f"{request_id}:{index}" for index in range(body.num_samples)])
    promise.on_cancel = lambda: service.worker.post(lambda: service.engine.cancel(record.live, job), light=True)
    service.worker.post(lambda: service.engine.submit(record.live, job), light=True)
    return promise


def sample_job(service: LocalService, record: SamplerRecord, body: requests.Sample, done: Done) -> SampleJob:
    """Raises Refusal for what is not served or does not fit the model."""
    shape = record.base.shape
    if body.target_prompt_logprobs is not None or body.prompt_alt_tokens_k:
        raise Refusal("target_prompt_logprobs and prompt_alt_tokens_k are not served", status=501)
    if body.num_samples > MOST_SAMPLES or max(body.topk_prompt_logprobs, body.topk_sample_logprobs) > MOST_TOP:
        raise Refusal(f"at most {MOST_SAMPLES} samples and {MOST_TOP} alternatives a token are served")
    prompt = _prompt(body.prompt, shape)
    params = body.sampling_params
    room = shape.max_context - len(prompt)
    limit = room if params.max_tokens is None else params.max_tokens
    if limit > room or room < 1:
        raise Refusal(f"{len(prompt)} prompt tokens and max_tokens={params.max_tokens} exceed the context of {shape.max_context}")
    last_n = body.prompt_logprobs_last_n
    if last_n is not None and (not body.prompt_logprobs or last_n > len(prompt) - 1):
        raise Refusal("prompt_logprobs_last_n needs prompt_logprobs, and is from 1 to the prompt's length less 1")
    return SampleJob(
        prompt=prompt,
        samples=body.num_samples,
        limit=limit,
        settings=DrawSettings(params.temperature, params.top_k, params.top_p),
        stop=service.tokens(record.base).stop_rule(params.stop),
        seed=params.seed,
        scores=PromptScores(bool(body.prompt_logprobs), body.topk_prompt_logprobs, last_n),
        top_logprobs=body.topk_sample_logprobs,
        done=done,
    )


def _prompt(prompt: requests.Prompt, shape: ModelShape) -> tuple[int, ...]:
    if any(chunk.type != "encoded_text" for chunk in prompt.chunks):
        raise Refusal("only chunks of encoded text are served")
    tokens = tuple(token for chunk in prompt.chunks for token in chunk.tokens)
    if not tokens:
        raise Refusal("the prompt is empty")
    if min(tokens) < 0 or max(tokens) >= shape.vocab:
        raise Refusal(f"prompt token ids must be from 0 to {shape.vocab - 1}, got {min(tokens)} to {max(tokens)}")
    return tokens
