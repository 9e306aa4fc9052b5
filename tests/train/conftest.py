"""What tests of training share: a run on fake services, with a trainer on tiny conversations."""

from __future__ import annotations

import asyncio
import io
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from platoon.host.console import Console
from platoon.testing.fake_tinker import FakeFactory, FakeTinkerService
from platoon.train.checkpoints.saving import Cadence
from platoon.train.config_defs.run import RunConfig
from platoon.train.policy.service import ServiceAddress
from platoon.train.policy.spec import policy_specs
from platoon.train.run_directory.identity import identity_digest
from platoon.train.trainer.run import TrainerRun
from platoon.train.trainer.settings import RunSettings
from platoon.train.trainer.sft import SftTrainer

NO_CADENCE = Cadence()


class ByteRenderer:
    """Tokens are bytes; assistant turns train. As much of a renderer as supervised training asks."""

    def render_conversation(
        self, messages: Sequence[Mapping[str, Any]], tools: Sequence[Any] = (), template_kwargs: Any = None
    ) -> Any:
        tokens: list[int] = []
        trained: list[bool] = []
        for message in messages:
            turn = [*str(message["content"]).encode(), 0]
            tokens += turn
            trained += [message["role"] == "assistant"] * len(turn)
        return np.array(tokens, dtype=np.uint32), np.array(trained)


class SftRuns:
    """Starts of one supervised run on one fake service."""

    def __init__(self, directory: Path) -> None:
        self.service = FakeTinkerService()
        self.run_dir = directory / "run"
        self.data = directory / "chat.jsonl"
        lines = [
            {
                "messages": [
                    {"role": "user", "content": f"question {index}"},
                    {"role": "assistant", "content": f"answer {index * 7}"},
                ]
            }
            for index in range(7)
        ]
        self.data.write_text("".join(json.dumps(line) + "\n" for line in lines))
        self.console = io.StringIO()

    def config(self, steps: int, **more: Any) -> RunConfig:
        train = {"model_name": "tiny", "renderer_name": "bytes", "batch_size": 2, "max_training_steps": steps}
        return RunConfig(train=train, trainer="sft", trainer_options={"data": "chat.jsonl"}, seed=3, **more)

    def start(self, steps: int, cadence: Cadence = NO_CADENCE, **settings: Any) -> TrainerRun:
        config = self.config(steps)
        specs = policy_specs(config)

        async def renderer(run: Any, policy: str) -> ByteRenderer:
            return ByteRenderer()

        trainer = SftTrainer(config, {str(self.data): self.data}, None, renderer)
        return TrainerRun(
            RunSettings(
                self.run_dir, identity_digest({}), specs, {key: ServiceAddress() for key in specs}, cadence=cadence, **settings
            ),
            trainer,
            FakeFactory({None: self.service}),
            Console(self.console),
        )

    def train(self, steps: int, cadence: Cadence = NO_CADENCE, **settings: Any) -> TrainerRun:
        run = self.start(steps, cadence, **settings)
        asyncio.run(asyncio.wait_for(run.run(), 20))
        return run


@pytest.fixture
def sft_runs(tmp_path: Path) -> SftRuns:
    return SftRuns(tmp_path)


@pytest.fixture
def make_sft_runs() -> Callable[[Path], SftRuns]:
    def make(directory: Path) -> SftRuns:
        directory.mkdir()
        return SftRuns(directory)

    return make
