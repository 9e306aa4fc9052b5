"""Two trained policies on two embedded services, and a frozen one: rows, optimizers and commits, with the real SDK."""

from __future__ import annotations

import asyncio
import io
import json
import os
import signal
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from platoon.host.console import Console
from platoon.local.launcher import start_local_service
from platoon.testing.fake_tinker import Killed
from platoon.train.checkpoints.saving import Cadence
from platoon.train.config_defs.run import RunConfig
from platoon.train.policy.policy import Policy, SavedWeights
from platoon.train.policy.service import ServiceAddress, TinkerFactory, close_session, open_session
from platoon.train.policy.spec import policy_specs
from platoon.train.policy.waits import Waits
from platoon.train.trainer.metrics_log import read_metrics
from platoon.train.trainer.rl import RlTrainer
from platoon.train.trainer.run import TrainerRun
from platoon.train.trainer.settings import RunSettings
from tests.train.rl_runs import TASKS, MadeUpRollouts

pytestmark = pytest.mark.model

STEPS = 3


@pytest.fixture(scope="module")
def addresses(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, ServiceAddress]]:
    state = tmp_path_factory.mktemp("services") / ".tinker"
    with ExitStack() as stack:
        services = [stack.enter_context(start_local_service(state, deterministic=True)) for _ in range(2)]
        main, helper = (ServiceAddress(service.base_url, service.api_key) for service in services)
        yield {"main": main, "helper": helper, "judge": main}


def config() -> RunConfig:
    return RunConfig(
        train={
            "model_name": "local/small",
            "renderer_name": "chat_template",
            "batch_size": 2,
            "max_training_steps": STEPS,
            "max_staleness": 0,
            "optimizer": {"learning_rate": 1e-3},
            "workflow_config": {"group_size": 2},
        },
        policies={"helper": {"optimizer": {"learning_rate": 2e-3}}, "judge": {"trainable": False}},
        agents={"policy": "main", "roles": {"helper": {"policy": "helper"}, "judge": {"policy": "judge"}}},
        environments=[{"service": "made_up", "harness": "made_up"}],
        seed=5,
        deterministic=True,
    )


def train(run_dir: Path, addresses: dict[str, ServiceAddress]) -> TrainerRun:
    made = config()
    trainer = RlTrainer(made, {"default": TASKS}, lambda run: MadeUpRollouts(run, made, {}))
    settings = RunSettings(
        run_dir, "sha256:identity", policy_specs(made), addresses, made.agents.sampled, Cadence(recovery_every=1)
    )
    run = TrainerRun(settings, trainer, TinkerFactory(), Console(io.StringIO()))
    asyncio.run(asyncio.wait_for(run.run(), 100))
    return run


def checkpoints(run_dir: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (run_dir / "checkpoints.jsonl").read_text().splitlines()]


def digests(run_dir: Path) -> list[str]:
    return [row["rows_digest"] for row in read_metrics(run_dir)]


def test_rows_split_by_policy_and_a_kill_between_the_saves_trains_the_same_rows(
    tmp_path: Path, addresses: dict[str, ServiceAddress], monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = tmp_path / "whole"
    run = train(whole, addresses)
    assert {policy.id: policy.learner.optimizer_steps for policy in run.trained} == {"main": STEPS, "helper": STEPS}
    last = checkpoints(whole)[-1]
    assert set(last["policies"]) == {"helper"}
    assert last["policies"]["helper"]["state_path"] != last["state_path"]
    metrics = read_metrics(whole)[-1]
    assert metrics["batch/rows"] == metrics["policies/helper/batch/rows"] == 4
    # Sampler and learner agree on what was sampled: rows went to the policy that sampled them.
    assert metrics["optim/kl_sample_train_v2"] < 1e-6 and metrics["policies/helper/optim/kl_sample_train_v2"] < 1e-6

    saves = []
    save = Policy.save

    async def killed(self: Policy, name: str) -> SavedWeights:
        if self.id == "main":
            saves.append(name)
            if len(saves) == 3:
                raise Killed(name)
        return await save(self, name)

    monkeypatch.setattr(Policy, "save", killed)
    cut = tmp_path / "cut"
    with pytest.raises(Killed):
        train(cut, addresses)
    own = (cut / "policies" / "helper" / "checkpoints.jsonl").read_text().splitlines()
    assert len(own) == 3 and len(checkpoints(cut)) == 2
    monkeypatch.setattr(Policy, "save", save)
    resumed = train(cut, addresses)
    assert resumed.start_point.step == 1
    assert digests(cut) == digests(whole)
    assert checkpoints(cut)[-1]["rows_digest"] == checkpoints(whole)[-1]["rows_digest"]


def test_a_session_whose_service_is_gone_is_no_longer_kept_alive(tmp_path: Path) -> None:
    """The check for leftovers looks for its heartbeats."""

    async def scenario() -> None:
        waits = Waits()
        async with start_local_service(tmp_path) as service:
            address = ServiceAddress(service.base_url, service.api_key)
            client = await open_session(TinkerFactory(), address, waits)
            os.kill(service.pid, signal.SIGKILL)
            waits.fail(await service.died())
            await close_session(client, "errored", dead=bool(waits.failure))

    asyncio.run(scenario())
