from __future__ import annotations

import asyncio
import json
from contextlib import asynccontextmanager

import aiohttp
import pytest

from platoon.gateway.server import GatewayServer, acquire
from platoon.testing import Completion, ScriptedPolicy, make_gateway

pytestmark = pytest.mark.unit
BODY = {"messages": [{"role": "user", "content": "hi"}]}


@asynccontextmanager
async def serving(policy, renderer=None, **kwargs):
    gateway = make_gateway(policy, renderer=renderer)
    server = GatewayServer(gateway)
    await server.start(**kwargs)
    try:
        async with aiohttp.ClientSession() as client:
            yield gateway, server, client
    finally:
        await server.stop()


def bearer(agent):
    return {"Authorization": f"Bearer {agent.identity.secret}"}


async def until(holds):
    async with asyncio.timeout(10):
        while not holds():  # noqa: ASYNC110  because what is waited for happens inside the server
            await asyncio.sleep(0.005)


def test_a_call_over_http():
    async def run():
        async with serving(ScriptedPolicy(["yes"] * 3)) as (gateway, server, client):
            agent = gateway.open_agent(rollout_id="r-1")
            base = server.base_url("r-1")
            async with client.post(f"{base}/v1/chat/completions", json=BODY, headers=bearer(agent)) as answer:
                body = await answer.json()
                assert answer.status == 200 and answer.headers["x-platoon-call-id"] == body["id"]
                assert body["choices"][0]["message"]["content"] == "yes"
            path = f"{base}/s/{agent.identity.secret}/v1/chat/completions"
            async with client.post(path, json=BODY, headers={"X-Platoon-Call-Kind": "aux"}) as answer:
                assert answer.status == 200
            async with client.get(f"{base}/v1/models", headers={"x-api-key": agent.identity.secret}) as answer:
                assert (await answer.json())["data"][0]["id"] == "platoon/toy"
            async with client.get(f"{base}/healthz") as answer:
                assert await answer.json() == {"status": "ok", "model": "platoon/toy"}
            assert [call.kind for call in agent.log.calls] == ["policy", "aux"]

    asyncio.run(run())


def test_refusals_have_their_status():
    async def run():
        async with serving(ScriptedPolicy([ValueError("boom")])) as (gateway, server, client):
            agent, other = gateway.open_agent(rollout_id="a"), gateway.open_agent(rollout_id="b")
            url = server.base_url("a") + "/v1/chat/completions"
            statuses = []
            for headers, data in [
                ({}, json.dumps(BODY)),
                (bearer(other), json.dumps(BODY)),
                (bearer(agent), "no json"),
                (bearer(agent), "[]"),
                (bearer(agent), json.dumps(BODY)),
            ]:
                async with client.post(url, data=data, headers=headers) as answer:
                    statuses.append(answer.status)
                    assert "message" in (await answer.json())["error"]
            gateway.close_agent(agent)
            async with client.post(url, json=BODY, headers=bearer(agent)) as answer:
                statuses.append(answer.status)
            return statuses

    assert asyncio.run(run()) == [401, 401, 400, 400, 500, 410]


def test_a_stream_and_its_error_event():
    async def run():
        policy = ScriptedPolicy(["yes", ValueError("late")])
        async with serving(policy) as (gateway, server, client):
            agent = gateway.open_agent(rollout_id="a")
            texts = []
            for _ in range(2):
                url = server.base_url("a") + "/v1/chat/completions"
                async with client.post(url, json={**BODY, "stream": True}, headers=bearer(agent)) as answer:
                    assert answer.headers["Content-Type"].startswith("text/event-stream")
                    texts.append(await answer.text())
            return texts

    good, bad = asyncio.run(run())
    assert '"content": "yes"' in good and good.endswith("data: [DONE]\n\n")
    assert "ValueError: late" in bad


@pytest.mark.parametrize("stream", [False, True])
def test_a_client_that_goes_away_cancels_its_call(stream):
    async def run():
        async with serving(ScriptedPolicy([Completion("x", delay_s=30.0)])) as (gateway, server, client):
            agent = gateway.open_agent(rollout_id="a")
            url = server.base_url("a") + "/v1/chat/completions"
            request = asyncio.ensure_future(client.post(url, json={**BODY, "stream": stream}, headers=bearer(agent)).__aenter__())
            await until(lambda: agent.tally.in_flight == 1)
            if stream:
                (await request).close()
            else:
                request.cancel()
            await until(lambda: agent.tally.in_flight == 0)
            assert not agent.log.calls

    asyncio.run(run())


def test_the_unix_socket_is_private_and_goes_with_the_server(tmp_path, monkeypatch):
    monkeypatch.setenv("PLATOON_NODE_SCRATCH", str(tmp_path))

    async def run():
        async with serving(ScriptedPolicy(["yes"]), unix_socket=True) as (gateway, server, _client):
            path = server.socket_path
            assert path.parent.stat().st_mode & 0o777 == 0o700
            agent = gateway.open_agent(rollout_id="a")
            async with aiohttp.ClientSession(connector=aiohttp.UnixConnector(str(path))) as client:
                url = f"http://gateway{server.rollout_path('a')}/v1/chat/completions"
                async with client.post(url, json=BODY, headers=bearer(agent)) as answer:
                    assert answer.status == 200
        return path

    assert not asyncio.run(run()).parent.exists()


def test_the_last_user_ends_the_server_and_the_next_starts_it_anew():
    async def run():
        gateway = make_gateway(ScriptedPolicy([]))
        users = await asyncio.gather(*(acquire(gateway) for _ in range(3)))
        assert len({id(user) for user in users}) == 1
        for user in users[:2]:
            await user.release()
        async with aiohttp.ClientSession() as client:
            url = users[0].base_url("r") + "/healthz"
            async with client.get(url) as answer:
                assert answer.status == 200
            # The last one leaves while another comes: the newcomer is served.
            _, newcomer = await asyncio.gather(users[2].release(), acquire(gateway))
            async with client.get(newcomer.base_url("r") + "/healthz") as answer:
                assert answer.status == 200
            await newcomer.release()
            with pytest.raises(aiohttp.ClientConnectorError):
                await client.get(newcomer.base_url("r") + "/healthz")
        assert newcomer.users == 0

    asyncio.run(run())
