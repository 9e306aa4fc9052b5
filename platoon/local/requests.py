"""The JSON bodies of the protocol that the service reads. Keys it does not read are ignored, as servers of this protocol do."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, NonNegativeInt, PositiveInt

MOST_INT32 = 2**31 - 1
MOST_INT64 = 2**63 - 1
HOTTEST = 100.0
MOST_RANK = 4096
LONGEST_TTL_S = 10**10

Ttl = Annotated[int, Field(ge=1, le=LONGEST_TTL_S)]


class Body(BaseModel):
    """A request body."""

    model_config = ConfigDict(extra="ignore", frozen=True, protected_namespaces=())


class CreateSession(Body):
    tags: list[str] = []
    sdk_version: str = ""
    user_metadata: dict[str, Any] | None = None
    display_name: str | None = None


class SessionHeartbeat(Body):
    session_id: str


class LoraConfig(Body):
    rank: int = Field(default=32, ge=1, le=MOST_RANK, strict=True)
    seed: int | None = None
    train_unembed: bool = True
    train_mlp: bool = True
    train_attn: bool = True


class OptimizerConfig(Body):
    type: str = "adamw"


class CreateModel(Body):
    session_id: str
    model_seq_id: NonNegativeInt
    base_model: str
    user_metadata: dict[str, Any] | None = None
    lora_config: LoraConfig = LoraConfig()
    optimizer_config: OptimizerConfig = OptimizerConfig()


class LoadWeights(Body):
    """Either a new run (session_id, model_seq_id) or an existing one (model_id, seq_id)."""

    path: str
    optimizer: bool
    session_id: str | None = None
    model_seq_id: NonNegativeInt | None = None
    model_id: str | None = None
    seq_id: PositiveInt | None = None
    base_model: str | None = None
    user_metadata: dict[str, Any] | None = None
    optimizer_config: OptimizerConfig | None = None


class ModelRequest(Body):
    model_id: str


class AdamParams(Body):
    learning_rate: float = Field(default=1e-4, ge=0, le=10, allow_inf_nan=False)
    beta1: float = Field(default=0.9, ge=0, lt=1)
    beta2: float = Field(default=0.95, ge=0, lt=1)
    eps: float = Field(default=1e-12, ge=0, allow_inf_nan=False)
    weight_decay: float = Field(default=0.0, allow_inf_nan=False)
    grad_clip_norm: float = Field(default=0.0, ge=0, allow_inf_nan=False)


class OptimStep(Body):
    model_id: str
    seq_id: PositiveInt
    adam_params: AdamParams | None = None
    optimizer_params: OptimizerConfig | None = None


class SaveWeights(Body):
    model_id: str
    seq_id: PositiveInt
    path: str
    ttl_seconds: Ttl | None = None
    overwrite: bool = False
    user_metadata: dict[str, str] | None = None


class SaveWeightsForSampler(Body):
    model_id: str
    seq_id: PositiveInt
    path: str | None = None
    sampling_session_seq_id: NonNegativeInt | None = None
    kind: str = "snapshot"
    ttl_seconds: Ttl | None = None
    user_metadata: dict[str, str] | None = None


class CreateSamplingSession(Body):
    session_id: str
    sampling_session_seq_id: NonNegativeInt
    model_path: str | None = None
    base_model: str | None = None


class Chunk(Body):
    type: str = "encoded_text"
    tokens: list[int] = []


class Prompt(Body):
    chunks: list[Chunk]


class SamplingParams(Body):
    """How to draw. The bounds are those of the number types the sampler computes in."""

    max_tokens: int | None = Field(default=None, ge=1, le=MOST_INT32)
    seed: int | None = Field(default=None, ge=-MOST_INT64 - 1, le=MOST_INT64)
    stop: str | list[int] | list[str] | None = None
    temperature: float = Field(default=1.0, ge=0, le=HOTTEST, allow_inf_nan=False)
    top_k: int = Field(default=-1, ge=-1, le=MOST_INT32)
    top_p: float = Field(default=1.0, gt=0, le=1)


class Sample(Body):
    sampling_session_id: str
    seq_id: NonNegativeInt
    prompt: Prompt
    sampling_params: SamplingParams = SamplingParams()
    num_samples: PositiveInt = 1
    prompt_logprobs: bool | None = None
    topk_prompt_logprobs: NonNegativeInt = 0
    topk_sample_logprobs: NonNegativeInt = 0
    prompt_logprobs_last_n: PositiveInt | None = None
    target_prompt_logprobs: Any = None
    prompt_alt_tokens_k: int = 0


class RetrieveFuture(Body):
    request_id: str


class CheckpointPath(Body):
    tinker_path: str


class SetTtl(Body):
    ttl_seconds: Ttl | None = None
