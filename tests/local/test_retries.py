"""The SDK against a service that fails on demand: what it repeats is done once, what is lost is said."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from platoon.errors import ServiceError
from platoon.local.launcher import start_local_service

pytestmark = pytest.mark.model

BASE = "local/tiny"
TOKENS = [1, 90, 91, 92, 93, 94, 2]


def datum() -> Any:
    from tinker import types

    inputs = {"target_tokens": TOKENS[1:], "weights": [1.0] * (len(TOKENS) - 1)}
    return types.Datum(types.ModelInput.from_ints(TOKENS[:-1]), inputs)


def train_step(trainer: Any) -> float:
    """One step; the loss before it."""
    import tinker

    forward = trainer.forward_backward([datum()], "cross_entropy")
    step = trainer.optim_step(tinker.AdamParams(learning_rate=1e-3))
    loss = float(forward.result().metrics["loss:sum"])
    step.result()
    return loss


def sample(sampler: Any, count: int = 1) -> list[list[int]]:
    from tinker import types

    settings = types.SamplingParams(max_tokens=4, seed=1, stop=[])
    response = sampler.sample(types.ModelInput.from_ints(TOKENS), count, settings).result()
    return [list(sequence.tokens) for sequence in response.sequences]


@pytest.fixture
def trainer(client: Any) -> Any:
    return client.create_lora_training_client(base_model=BASE).result()


@pytest.fixture
def losses(client: Any) -> list[float]:
    """Losses of three steps of an undisturbed run."""
    undisturbed = client.create_lora_training_client(base_model=BASE).result()
    return [train_step(undisturbed) for _ in range(3)]


@pytest.mark.parametrize(
    "fault",
    [
        {"route": "forward_backward", "action": "status", "status": 503},
        {"route": "forward_backward", "action": "status", "status": 429},
        {"route": "optim_step", "action": "drop", "phase": "after"},
        {"route": "forward_backward", "action": "drop", "phase": "after"},
        {"route": "retrieve_future", "action": "drop", "phase": "after"},
        {"route": "retrieve_future", "action": "status", "status": 500, "count": 2},
        {"route": "retrieve_future", "action": "status", "status": 408, "count": 2},
        {"route": "optim_step", "action": "delay", "delay_s": 0.3},
    ],
    ids=lambda fault: "-".join(str(value) for value in fault.values()),
)
def test_a_repeated_operation_is_done_once(trainer: Any, losses: list[float], faults: Any, fault: dict[str, Any]) -> None:
    """A step applied twice, or left out, would change the losses after it."""
    first = train_step(trainer)
    faults(**fault)
    assert [first, train_step(trainer), train_step(trainer)] == losses


@pytest.mark.parametrize(
    "fault",
    [
        {"route": "asample", "action": "status", "status": 429},
        {"route": "asample", "action": "drop", "phase": "after"},
        {"route": "retrieve_future", "action": "lose"},
    ],
    ids=lambda fault: "-".join(str(value) for value in fault.values()),
)
def test_a_sample_that_fails_is_asked_for_again(trainer: Any, faults: Any, fault: dict[str, Any]) -> None:
    sampler = trainer.save_weights_and_get_sampling_client().result()
    expected = sample(sampler)
    faults(**fault)
    assert sample(sampler) == expected


def test_a_lost_promise_of_training_is_an_error(trainer: Any, faults: Any) -> None:
    faults(route="retrieve_future", action="lose")
    with pytest.raises(Exception, match=r"410|lost|Promise"):
        trainer.forward([datum()], "cross_entropy").result(20)


def test_a_full_disk_fails_the_save_and_nothing_else(trainer: Any, rest: Any, faults: Any, state_dir: Path) -> None:
    import tinker

    faults(route="checkpoint_write", action="disk_full")
    with pytest.raises(tinker.RequestFailedError, match="No space") as failure:
        trainer.save_state("full").result()
    assert str(failure.value.category) == "server"
    run = trainer.model_id
    assert rest.list_checkpoints(run).result().checkpoints == []
    assert not list(state_dir.glob(f"checkpoints/{run}/**/*.partial"))
    assert trainer.save_state("full").result().path.endswith("/full")


def test_a_directory_that_takes_no_file_fails_the_save_alone(trainer: Any, state_dir: Path) -> None:
    import tinker

    (state_dir / "checkpoints").mkdir(exist_ok=True)
    (state_dir / "checkpoints" / trainer.model_id).write_text("in the way")
    with pytest.raises(tinker.RequestFailedError) as failure:
        trainer.save_state("blocked").result()
    assert str(failure.value.category) == "server"
    (state_dir / "checkpoints" / trainer.model_id).unlink()
    assert train_step(trainer) > 0


def test_a_service_that_dies_is_noticed_and_another_continues_from_its_checkpoint(tmp_path: Path) -> None:
    """A run goes on over the same state directory with the losses it would have had."""
    import tinker

    async def scenario() -> tuple[str, float]:
        fault = {"route": "optim_step", "action": "exit", "after": 2}
        async with start_local_service(tmp_path, faults=True, fault_list=(fault,)) as service:
            death = asyncio.ensure_future(service.died())
            client = tinker.ServiceClient(base_url=service.base_url, api_key=service.api_key)
            trainer = await client.create_lora_training_client(base_model=BASE)
            await asyncio.to_thread(train_step, trainer)
            path: str = (await trainer.save_state("kept")).path
            loss = await asyncio.to_thread(train_step, trainer)
            trainer.optim_step(tinker.AdamParams(learning_rate=1e-3))
            why = await asyncio.wait_for(death, 30)
            assert "exit code 70" in why and "exit on demand at /api/v1/optim_step" in why
            assert not service.alive()
            with pytest.raises(ServiceError, match="exit code 70"):
                service.check()
            client.holder.close()
            return path, loss

    path, loss = asyncio.run(scenario())
    with (
        start_local_service(tmp_path) as service,
        tinker.ServiceClient(base_url=service.base_url, api_key=service.api_key) as client,
    ):
        restored = client.create_training_client_from_state_with_optimizer(path).result()
        assert train_step(restored) == loss


def test_a_checkpoint_of_another_live_server_is_found(client: Any, trainer: Any, state_dir: Path) -> None:
    import tinker

    with (
        start_local_service(state_dir) as other,
        tinker.ServiceClient(base_url=other.base_url, api_key=other.api_key) as elsewhere,
    ):
        path = trainer.save_weights_for_sampler("shared").result().path
        there = elsewhere.create_sampling_client(model_path=path).result()
        here = client.create_sampling_client(model_path=path).result()
        assert sample(there, 3) == sample(here, 3)
        theirs = elsewhere.create_lora_training_client(base_model=BASE).result()
        assert theirs.model_id != trainer.model_id and theirs.model_id.split(":")[0] != trainer.model_id.split(":")[0]
        mine = client.create_sampling_client(model_path=theirs.save_weights_for_sampler("back").result().path).result()
        assert np.shape(sample(mine)) == (1, 4)
