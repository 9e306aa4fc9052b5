"""Opening sessions and training clients: what is asked again, what is not, and bounded waits."""

from __future__ import annotations

import asyncio
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from platoon.errors import ConfigError, ServiceError
from platoon.sampling.model_spec import ModelSpec
from platoon.testing.fake_tinker import FakeFactory, FakeStatusError, FakeTinkerService
from platoon.train.policy.learner import Timeouts
from platoon.train.policy.policy import Policy
from platoon.train.policy.service import (
    DamagedCheckpointError,
    Retries,
    ServiceAddress,
    checkpoint_exists,
    open_session,
    open_training_client,
)
from platoon.train.policy.spec import PolicySpec
from platoon.train.policy.waits import Waits, together

pytestmark = pytest.mark.unit

SPEC = PolicySpec("main", ModelSpec("tiny", "chat"))
QUICK = Retries(total_s=5.0, first_s=0.001, longest_s=0.002)


def opened(
    statuses: list[int], spec: PolicySpec = SPEC, state_path: str | None = None, retries: Retries = QUICK
) -> FakeTinkerService:
    """Opens a training client on a service that first answers with these statuses."""
    service = FakeTinkerService(checkpoints={})
    left = list(statuses)

    def refuse(operation: str) -> None:
        if operation != "create_session" and left:
            raise FakeStatusError(left.pop(0))

    async def run() -> None:
        waits = Waits()
        client = await open_session(FakeFactory({None: service}), ServiceAddress(), waits)
        service.before = refuse
        await open_training_client(client, spec, state_path, waits=waits, retries=retries)

    asyncio.run(asyncio.wait_for(run(), 10))
    return service


@pytest.mark.parametrize("status", [408, 429, 500, 503])
def test_a_refusal_that_may_pass_is_asked_again(status: int) -> None:
    assert len(opened([status, status]).named("create_lora_training_client")) == 1


@pytest.mark.parametrize("status", [401, 403, 404, 422])
def test_a_final_refusal_is_not(status: int) -> None:
    with pytest.raises(ServiceError, match=f"policy 'main': FakeStatusError: status {status}"):
        opened([status, 500])


def test_retries_end_with_their_time() -> None:
    with pytest.raises(ServiceError, match="status 503"):
        opened([503] * 1000, retries=Retries(total_s=0.05, first_s=0.01, longest_s=0.01))


@pytest.mark.parametrize(("with_optimizer", "operation"), [(False, ""), (True, "_with_optimizer")])
def test_u82_the_optimizer_is_asked_for_by_name(with_optimizer: bool, operation: str) -> None:
    """A new run takes weights alone unless it says otherwise; a resume always takes both."""
    spec = replace(SPEC, load_checkpoint_path="tinker://x/weights/a", load_optimizer_state=with_optimizer)
    with pytest.raises(ServiceError, match="no checkpoint"):
        opened([], spec)
    calls: list[str] = []

    class Recording:
        def __getattr__(self, name: str) -> Any:
            calls.append(name)
            raise FakeStatusError(404)

    async def run(state_path: str | None) -> None:
        with pytest.raises(ServiceError):
            await open_training_client(Recording(), spec, state_path, waits=Waits(), retries=QUICK)

    asyncio.run(run(None))
    asyncio.run(run("tinker://run/weights/b"))
    assert calls == [f"create_training_client_from_state{operation}", "create_training_client_from_state_with_optimizer"]


@pytest.mark.parametrize("trainable", [True, False])
def test_weights_to_begin_with_that_are_gone_are_named(trainable: bool) -> None:
    spec = replace(SPEC, load_checkpoint_path="tinker://x/weights/a", trainable=trainable)
    address = ServiceAddress(state_dir=Path("runs/.tinker"))
    policy = Policy(spec, address, FakeFactory({None: FakeTinkerService()}), Waits(), sampled=True)

    async def run() -> None:
        await policy.connect()
        await (policy.open(None, Timeouts(5, 5), fail_closed=True) if trainable else policy.publish_frozen())

    with pytest.raises(ConfigError, match=r"runs/.tinker: there is no checkpoint tinker://x/weights/a here \(name the site"):
        asyncio.run(run())


def test_a_checkpoint_that_is_gone_is_told_from_a_service_that_does_not_answer() -> None:
    service = FakeTinkerService()

    def asked() -> bool:
        return asyncio.run(checkpoint_exists(FakeFactory({None: service}), ServiceAddress(), "tinker://a/weights/b", Waits()))

    assert not asked()

    def refuse(status: int) -> Any:
        def answer(operation: str) -> None:
            raise FakeStatusError(status)

        return answer

    for status in (401, 503):
        service.before = refuse(status)
        with pytest.raises(ServiceError):
            asked()


def test_a_wait_past_its_bound_and_one_on_a_dead_service_end() -> None:
    told: list[str] = []

    async def run() -> None:
        waits = Waits(told.append)
        with pytest.raises(ServiceError, match=r"an answer: no answer within 0\.01 s"):
            await waits.on(asyncio.Event().wait(), timeout_s=0.01, what="an answer")
        asyncio.get_running_loop().call_later(0.01, waits.fail, "it fell over")
        with pytest.raises(ServiceError, match="another: it fell over"):
            await waits.on(asyncio.Event().wait(), timeout_s=10.0, what="another")
        with pytest.raises(ServiceError, match="it fell over"):
            await waits.quiet().alive(asyncio.Event().wait(), what="a third")

    asyncio.run(run())
    assert told == ["an answer", "", "another", ""]


def test_work_done_together_raises_its_first_error_as_it_is() -> None:
    ended: list[str] = []

    async def slow() -> None:
        try:
            await asyncio.sleep(10)
        finally:
            ended.append("slow")

    async def fails() -> None:
        raise ConfigError("wrong")

    with pytest.raises(ConfigError, match="wrong"):
        asyncio.run(together(slow(), fails()))
    assert ended == ["slow"]


def test_a_policy_is_served_with_the_window_that_its_service_tells() -> None:
    service = FakeTinkerService(windows={"tiny": 64})
    policy = Policy(SPEC, ServiceAddress(), FakeFactory({None: service}), Waits(), sampled=True)
    assert asyncio.run(policy.served_model()).context_window_length == 64
    assert policy.spec.model.context_window_length is None


@pytest.mark.parametrize("stage", ["session", "training client"])
def test_a_service_that_dies_while_a_client_connects_ends_the_start_at_once(stage: str) -> None:
    """The SDK blocks its caller then; the loop ends while it still does."""
    service, release, blocked = FakeTinkerService(), threading.Event(), threading.Event()
    ended: list[bool] = []

    def block(operation: str) -> None:
        if (operation == "create_session") == (stage == "session"):
            blocked.set()
            release.wait(30)
            ended.append(True)

    async def run() -> None:
        waits = Waits()
        service.before = block

        async def dies() -> None:
            await asyncio.to_thread(blocked.wait, 10)
            waits.fail("it fell over")

        death = asyncio.create_task(dies())
        client = await open_session(FakeFactory({None: service}), ServiceAddress(), waits)
        try:
            await open_training_client(client, SPEC, None, waits=waits, retries=QUICK)
        finally:
            await death

    try:
        with pytest.raises(ServiceError, match="it fell over"):
            asyncio.run(run())
        assert not ended
    finally:
        release.set()


def test_a_refusal_that_may_pass_is_told_with_its_text() -> None:
    service, told, left = FakeTinkerService(), list[str](), [503]

    def refuse(operation: str) -> None:
        if operation != "create_session" and left:
            raise FakeStatusError(left.pop(), "no room yet")

    async def run() -> None:
        waits = Waits(told.append)
        client = await open_session(FakeFactory({None: service}), ServiceAddress(), waits)
        service.before = refuse
        await open_training_client(client, SPEC, None, waits=waits, retries=QUICK)

    asyncio.run(run())
    assert any("asked again in" in text and "no room yet" in text for text in told)


def test_a_damaged_checkpoint_of_the_run_is_told_by_its_own_error() -> None:
    class Damaged:
        def __getattr__(self, name: str) -> Any:
            raise FakeStatusError(500, "checkpoint a is damaged")

    with pytest.raises(DamagedCheckpointError, match="is damaged") as found:
        asyncio.run(open_training_client(Damaged(), SPEC, "tinker://a", waits=Waits(), retries=QUICK))
    assert found.value.state_path == "tinker://a"


def test_an_embedded_service_is_told_without_its_address() -> None:
    async def waited(address: ServiceAddress) -> list[str]:
        told: list[str] = []
        service = FakeTinkerService(checkpoints={})
        policy = Policy(SPEC, address, FakeFactory({address.base_url: service}), Waits(told.append), sampled=True)
        await policy.connect()
        await policy.open(None, Timeouts(), fail_closed=False)
        await policy.publish()
        return [text for text in told if text]

    place = "http://127.0.0.1:40217"
    embedded, elsewhere = (asyncio.run(waited(ServiceAddress(place, state_dir=state))) for state in (Path("runs/.tinker"), None))
    assert len(embedded) > 2 and not [text for text in embedded if place in text]
    assert embedded[0] == "a session with the embedded service"
    assert len([text for text in elsewhere if f" at {place}" in text]) > 1
