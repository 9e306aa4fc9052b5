from __future__ import annotations

import asyncio
from pathlib import Path

import numpy as np
import pytest

from platoon.errors import ConfigError
from platoon.eval.opening import OpenRequest, open_policy
from platoon.local.bases import all_bases
from platoon.sampling.model_spec import ModelSpec, SamplingSettings
from platoon.sampling.sample_timeout import SampleTimeout
from platoon.train.services import check_key
from platoon.train.trainer.renderers import early_renderers


def request(directory: Path, model: str = "local/tiny", path: str | None = None) -> OpenRequest:
    spec = ModelSpec(model, "chat_template", base_url="local", sample_timeout=SampleTimeout(60.0))
    return OpenRequest(spec, path, 3, True, directory, directory / "logs" / "service.log")


@pytest.mark.model
def test_an_embedded_service_samples_the_base_model_and_ends_with_the_block(tmp_path: Path) -> None:
    async def sample() -> tuple[list[int], int]:
        async with open_policy(request(tmp_path)) as opened:
            assert opened.died is not None
            assert opened.runtime.spec.context_window_length == all_bases()["local/tiny"].shape.max_context
            prompt = np.array([72, 105], np.uint32)
            got = await opened.runtime.sampler.sample(prompt, SamplingSettings(max_tokens=5, seed=11))
            return got.tokens_T.tolist(), got.version

    first = asyncio.run(asyncio.wait_for(sample(), 100))
    assert first[1] == 3
    assert 1 <= len(first[0]) <= 5
    assert asyncio.run(asyncio.wait_for(sample(), 100)) == first


@pytest.mark.model
def test_weights_that_the_service_does_not_have_are_named_with_the_place_they_were_looked_for(tmp_path: Path) -> None:
    path = "tinker://0a1b:train:0/sampler_weights/final"

    async def opens() -> None:
        async with open_policy(request(tmp_path, path=path)):
            pass

    with pytest.raises(ConfigError) as refused:
        asyncio.run(asyncio.wait_for(opens(), 100))
    assert str(refused.value).startswith(f"{tmp_path}: there is no checkpoint {path} here (name the site")


@pytest.mark.unit
def test_an_unknown_base_model_and_a_missing_key_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    told = r"inference.model_name: the embedded service has no base model 'local/none' \(there is: "
    with pytest.raises(ConfigError, match=told):
        early_renderers({"inference": request(tmp_path, "local/none").spec})
    monkeypatch.delenv("TINKER_BASE_URL", raising=False)
    monkeypatch.setenv("TINKER_API_KEY", "sk-x")
    with pytest.raises(ConfigError, match="TINKER_API_KEY: must begin with 'tml-'"):
        check_key([ModelSpec("m", "r")])
    check_key([ModelSpec("m", "r", base_url="local")])
