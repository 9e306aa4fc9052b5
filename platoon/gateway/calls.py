"""One model call from an admitted request to its record: render, clamp to the window, sample, parse, record.

In-process agents and HTTP clients take the same path. A call that fails or whose client goes away records nothing and gives its
step back.
"""

from __future__ import annotations

import asyncio
import json
import time
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from platoon.gateway.admission import Ticket
from platoon.gateway.agents import AgentRecord, CallRecord, Interaction
from platoon.gateway.errors import ContextWindowExceededError, GatewayError, InvalidRequestError, SampleTimeoutError
from platoon.gateway.requests import ChatRequest, ChatResponse, ToolCallOut
from platoon.gateway.sampling_rules import resolve_sampling
from platoon.sampling.model_spec import SamplingSettings
from platoon.sampling.policy import PolicyRuntime
from platoon.sampling.renderer import ParsedReply, RenderError, RenderRequest
from platoon.sampling.sampler import Sample

# Some 50 ms of rendering.
ASIDE_CHARACTERS = 64 * 1024
BUDGET_TEXT = "The step budget of this episode is used up. No further calls are answered."


@dataclass(frozen=True, eq=False)
class PreparedCall:
    """A call that will be sampled: everything that can be the request's own fault has been checked."""

    ticket: Ticket
    runtime: PolicyRuntime
    request: RenderRequest
    prompt_T: npt.NDArray[np.uint32]
    settings: SamplingSettings
    logprobs: bool


async def prepare_call(ticket: Ticket, request: ChatRequest, runtime: PolicyRuntime) -> PreparedCall:
    """Renders and clamps. Raises InvalidRequestError or ContextWindowExceededError; the ticket is given back then.

    A request of much text is rendered in a thread, so that the other agents of this process go on meanwhile.
    """
    try:
        agent = ticket.agent
        render = RenderRequest(request.messages, request.tools, request.template_kwargs, _told_so_far(agent))
        aside = request.characters > ASIDE_CHARACTERS
        prompt_T = await asyncio.to_thread(_rendered, runtime, render) if aside else _rendered(runtime, render)
        return _clamped(ticket, request, runtime, render, prompt_T)
    except BaseException as error:
        ticket.give_back()
        ticket.agent.log.last_error = f"{type(error).__name__}: {error}"
        raise


def _rendered(runtime: PolicyRuntime, render: RenderRequest) -> npt.NDArray[np.uint32]:
    try:
        return runtime.renderer.render(render)
    except RenderError as error:
        raise InvalidRequestError(str(error)) from error


def _clamped(
    ticket: Ticket, request: ChatRequest, runtime: PolicyRuntime, render: RenderRequest, prompt_T: npt.NDArray[np.uint32]
) -> PreparedCall:
    agent = ticket.agent
    key = agent.limits.seed_key
    seed = None if key is None else key.call_seed(agent.identity.path, ticket.index)
    settings = resolve_sampling(request.sampling, agent.limits, ticket.kind, runtime.defaults, seed)
    window = runtime.spec.context_window_length
    if window is not None:
        headroom = window - len(prompt_T)
        if headroom < 1:
            agent.log.context_overflows += 1
            raise ContextWindowExceededError(window, len(prompt_T))
        settings = replace(settings, max_tokens=min(settings.max_tokens, headroom))
    if settings.stop is None:
        settings = replace(settings, stop=runtime.renderer.stop_tokens)
    return PreparedCall(ticket, runtime, render, prompt_T, settings, request.logprobs)


def _told_so_far(agent: AgentRecord) -> npt.NDArray[np.uint32] | None:
    """Prompt and completion of the agent's last policy call: what its next prompt most often begins with."""
    last = next((call.call_id for call in reversed(agent.log.calls) if call.kind == "policy"), None)
    if last is None:
        return None
    interaction = agent.log.interactions[last]
    return np.concatenate([interaction.prompt_T, interaction.tokens_T])


async def run_call(call: PreparedCall) -> ChatResponse:
    """Samples, parses and records. Raises GatewayError, `errors.ServiceError`, or the cancellation; the step is given back then."""
    log = call.ticket.agent.log
    started = time.perf_counter()
    try:
        sample = await call.runtime.sampler.sample(call.prompt_T, call.settings)
        reply = call.runtime.renderer.parse(sample.tokens_T, call.request, sample.stop_reason, call.prompt_T)
        response = _response(call, sample, reply)
        call.ticket.record()
    except GatewayError:
        raise
    except TimeoutError as error:
        _count_failure(call, error)
        raise SampleTimeoutError(str(error) or "the policy did not answer in time") from error
    except Exception as error:
        _count_failure(call, error)
        raise
    finally:
        call.ticket.give_back()
        log.model_seconds += time.perf_counter() - started
    _record(call, sample, reply, response, (started, time.perf_counter()))
    return response


def budget_stop(ticket: Ticket, runtime: PolicyRuntime) -> ChatResponse:
    """The unsampled, unrecorded reply to a call beyond the budget."""
    ticket.give_back()
    return ChatResponse(f"platoon-budget-{uuid.uuid4().hex}", runtime.spec.model_name, BUDGET_TEXT, policy=runtime.id)


def _count_failure(call: PreparedCall, error: Exception) -> None:
    log = call.ticket.agent.log
    log.gateway_errors += 1
    log.last_error = f"{type(error).__name__}: {error}"


def _response(call: PreparedCall, sample: Sample, reply: ParsedReply) -> ChatResponse:
    emits = reply.clean and sample.stop_reason != "length"
    parsed = reply.tool_calls if emits else ()
    calls = tuple(
        ToolCallOut(item.id or f"call_{call.ticket.index}_{place}", item.name, json.dumps(dict(item.arguments), ensure_ascii=False))
        for place, item in enumerate(parsed)
    )
    hidden = [item.raw_text for item in reply.unparsed]
    if not emits:
        # Calls of a reply that was cut off are text: they must neither run nor vanish.
        hidden = [_text(call, sample)] if reply.tool_calls else hidden
    content = "\n\n".join(part for part in ([reply.content] if emits or not reply.tool_calls else []) + hidden if part)
    return ChatResponse(
        call_id=f"tinker-sampling-{uuid.uuid4().hex}",
        model=call.runtime.spec.model_name,
        content=content,
        reasoning=reply.reasoning,
        tool_calls=calls,
        finish_reason="tool_calls" if calls else "length" if sample.stop_reason == "length" else "stop",
        prompt_tokens=len(call.prompt_T),
        completion_tokens=len(sample.tokens_T),
        policy=call.runtime.id,
        version=sample.version,
        logprobs=_token_logprobs(call, sample) if call.logprobs else None,
    )


def _text(call: PreparedCall, sample: Sample) -> str:
    tokens_T = sample.tokens_T[~np.isin(sample.tokens_T, call.runtime.renderer.stop_tokens)]
    return call.runtime.renderer.decode(tokens_T)


def _token_logprobs(call: PreparedCall, sample: Sample) -> Sequence[Mapping[str, Any]]:
    decode = call.runtime.renderer.decode
    texts = [decode(sample.tokens_T[place : place + 1]) for place in range(len(sample.tokens_T))]
    return [
        {"token": text, "logprob": float(logprob), "bytes": list(text.encode()), "top_logprobs": []}
        for text, logprob in zip(texts, sample.logprobs_T, strict=True)
    ]


def _record(call: PreparedCall, sample: Sample, reply: ParsedReply, response: ChatResponse, span: tuple[float, float]) -> None:
    ticket, log = call.ticket, call.ticket.agent.log
    log.interactions[response.call_id] = Interaction(
        call_id=response.call_id,
        kind=ticket.kind,
        prompt_T=log.prompts.keep(call.prompt_T) if ticket.kind == "policy" else call.prompt_T,
        tokens_T=sample.tokens_T,
        logprobs_T=sample.logprobs_T,
        policy=call.runtime.id,
        version=sample.version,
        routing_id=sample.routing_id,
    )
    generation = {
        "call_id": response.call_id,
        "stop_reason": sample.stop_reason,
        "generated_tokens": len(sample.tokens_T),
        "parse_success": reply.clean,
        "parsed_calls": len(reply.tool_calls),
        "emitted_calls": len(response.tool_calls),
        "recovered_calls": sum(item.recovered for item in reply.tool_calls),
        "unparsed_calls": len(reply.unparsed),
        "finish_reason": response.finish_reason,
    }
    log.calls.append(
        CallRecord(
            response.call_id,
            ticket.kind,
            response.model,
            response.message(),
            response.usage(),
            generation,
            span,
            _observed(call.request.messages),
        )
    )


def _observed(messages: Sequence[Mapping[str, Any]]) -> tuple[Mapping[str, Any], ...]:
    """The messages after the last reply."""
    last = max((place for place, message in enumerate(messages) if message.get("role") == "assistant"), default=-1)
    return tuple(messages[last + 1 :])
