"""Numbers that the sampler cannot compute in are refused at the door."""

from __future__ import annotations

import json
from typing import Any

import pytest
from pydantic import ValidationError

from platoon.local.requests import MOST_RANK, AdamParams, CreateModel, LoraConfig, SamplingParams, SetTtl
from platoon.train.config_defs.training import TrainConfig

pytestmark = pytest.mark.unit


@pytest.mark.parametrize(
    "params",
    [
        {"top_k": 2**70},
        {"top_k": 2**31},
        {"top_k": -2},
        {"temperature": 1e39},
        {"temperature": 1e308},
        {"temperature": -0.1},
        {"top_p": 0},
        {"top_p": 1.1},
        {"max_tokens": 0},
        {"max_tokens": 2**31},
        {"seed": 2**63},
        {"seed": 10**400},
    ],
)
def test_sampling_parameters_out_of_range_are_refused(params: dict[str, Any]) -> None:
    with pytest.raises(ValidationError, match=next(iter(params))):
        SamplingParams.model_validate_json(json.dumps(params))


@pytest.mark.parametrize("rank", [0, -1, MOST_RANK + 1, 10**9, 10**400, 1.5, True])
def test_a_rank_that_nobody_can_train_is_refused(rank: object) -> None:
    with pytest.raises(ValidationError, match=r"lora_config\.rank"):
        CreateModel.model_validate_json(
            json.dumps({"session_id": "s", "model_seq_id": 0, "base_model": "b", "lora_config": {"rank": rank}})
        )


def test_the_service_takes_every_rank_that_a_configuration_may_ask_for() -> None:
    settings = {"model_name": "m", "renderer_name": "r", "lora_rank": MOST_RANK}
    assert LoraConfig(rank=MOST_RANK).rank == TrainConfig.model_validate(settings).lora_rank
    with pytest.raises(ValidationError, match="lora_rank"):
        TrainConfig.model_validate({**settings, "lora_rank": MOST_RANK + 1})


def test_a_lone_surrogate_is_no_stop() -> None:
    with pytest.raises(ValidationError):
        SamplingParams.model_validate_json('{"stop": "\\ud800"}')


def test_the_bounds_themselves_are_served() -> None:
    SamplingParams.model_validate_json(json.dumps({"top_k": 2**31 - 1, "temperature": 100, "top_p": 1, "seed": -(2**63)}))


@pytest.mark.parametrize("ttl_s", [0, 10**11, 10**399])
def test_a_ttl_beyond_all_calendars_is_refused(ttl_s: int) -> None:
    with pytest.raises(ValidationError, match="ttl_seconds"):
        SetTtl.model_validate_json(json.dumps({"ttl_seconds": ttl_s}))


@pytest.mark.parametrize("rate", ["-1", "10.1", "1e308", "NaN", "Infinity"])
def test_a_learning_rate_out_of_range_is_refused(rate: str) -> None:
    with pytest.raises(ValidationError, match="learning_rate"):
        AdamParams.model_validate_json(f'{{"learning_rate": {rate}}}')
