from __future__ import annotations

import asyncio
import json
import threading

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from platoon.gateway.bodies import ASIDE_BYTES, LEAST_LIMIT_BYTES, MOST_LIMIT_BYTES, _YieldingDecoder, body_limit_bytes, json_object
from platoon.gateway.calls import ASIDE_CHARACTERS
from platoon.gateway.errors import InvalidRequestError
from platoon.testing import ScriptedPolicy
from platoon.testing.toy_model import toy_renderer
from tests.gateway.test_server import bearer, serving

pytestmark = pytest.mark.unit
ANY_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


@pytest.mark.parametrize(
    ("window_T", "limit_bytes"),
    [(None, MOST_LIMIT_BYTES), (64, LEAST_LIMIT_BYTES), (131_072, 64 * 131_072), (10_000_000, MOST_LIMIT_BYTES)],
)
def test_the_limit_follows_the_window(window_T, limit_bytes):
    assert body_limit_bytes(window_T) == limit_bytes


@given(ANY_JSON)
def test_large_bodies_are_decoded_as_small_ones_are(value):
    text = json.dumps(value)
    assert json.dumps(json.loads(text, cls=_YieldingDecoder)) == json.dumps(json.loads(text))


@pytest.mark.parametrize("text", ["[1", '{"a" 1}', '{"a": }', "[,]", "nul", '"\x01"', '["' + "\\u12" + '"]', "[" * 100_000])
def test_large_bodies_that_are_no_json_are_refused_as_small_ones_are(text):
    for padding in ("", " " * ASIDE_BYTES):
        with pytest.raises(InvalidRequestError, match="is no JSON"):
            json_object((text + padding).encode())


async def answer_to(port: int, head: str, parts: list[bytes]) -> bytes:
    """What the server says to a request that is sent up to its last part and never ended."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        writer.write(head.encode())
        for part in parts:
            writer.write(part)
        await writer.drain()
        async with asyncio.timeout(10):
            told = await reader.readuntil(b"\r\n\r\n")
            return told + await reader.readuntil(b"}}")
    finally:
        writer.close()


@pytest.mark.parametrize("stated", [True, False])
def test_a_body_beyond_the_limit_is_refused_before_it_has_come(stated):
    async def run():
        async with serving(ScriptedPolicy([])) as (gateway, server, _client):
            agent = gateway.open_agent(rollout_id="a")
            length = f"Content-Length: {300 * 2**20}" if stated else "Transfer-Encoding: chunked"
            head = "\r\n".join(
                [
                    f"POST {server.rollout_path('a')}/v1/chat/completions HTTP/1.1",
                    "Host: gateway",
                    f"Authorization: Bearer {agent.identity.secret}",
                    length,
                    "\r\n",
                ]
            )
            chunk = b"100000\r\n" + b" " * 2**20 + b"\r\n"
            parts = [] if stated else [chunk] * (MOST_LIMIT_BYTES // 2**20 + 1)
            return await answer_to(server.port, head, parts), agent

    told, agent = asyncio.run(run())
    assert told.startswith(b"HTTP/1.1 413") and b"request_too_large" in told and b"at most 33554432 bytes" in told
    assert not agent.log.admitted


class ThreadsOfRendering:
    """Tells on which threads requests were rendered."""

    def __init__(self) -> None:
        self.inner = toy_renderer()
        self.stop_tokens = self.inner.stop_tokens
        self.parse, self.decode = self.inner.parse, self.inner.decode
        self.threads: list[int] = []

    def render(self, request):
        self.threads.append(threading.get_ident())
        return np.zeros(3, dtype=np.uint32)


def test_much_text_is_rendered_in_a_thread_and_little_at_once():
    async def run():
        renderer = ThreadsOfRendering()
        async with serving(ScriptedPolicy(["yes"] * 2), renderer=renderer) as (gateway, server, client):
            agent = gateway.open_agent(rollout_id="a")
            for size in (ASIDE_CHARACTERS // 2, ASIDE_CHARACTERS + 1):
                body = {"messages": [{"role": "user", "content": "x" * size}]}
                url = server.base_url("a") + "/v1/chat/completions"
                async with client.post(url, json=body, headers=bearer(agent)) as answer:
                    assert answer.status == 200
        return [thread == threading.get_ident() for thread in renderer.threads]

    assert asyncio.run(run()) == [True, False]


def test_a_call_cancelled_while_it_is_rendered_gives_its_step_back():
    async def run():
        renderer, release = ThreadsOfRendering(), threading.Event()
        render = renderer.render
        renderer.render = lambda request: release.wait(10) and render(request)
        async with serving(ScriptedPolicy([]), renderer=renderer) as (gateway, server, client):
            agent = gateway.open_agent(rollout_id="a", call_cap=3)
            body = {"messages": [{"role": "user", "content": "x" * (ASIDE_CHARACTERS + 1)}]}
            url = server.base_url("a") + "/v1/chat/completions"
            call = asyncio.ensure_future(client.post(url, json=body, headers=bearer(agent)).__aenter__())
            async with asyncio.timeout(10):
                while agent.tally.in_flight != 1:  # noqa: ASYNC110  because what is waited for happens inside the server
                    await asyncio.sleep(0.005)
                call.cancel()
                while agent.tally.in_flight:  # noqa: ASYNC110  because what is waited for happens inside the server
                    await asyncio.sleep(0.005)
            release.set()

    asyncio.run(run())
