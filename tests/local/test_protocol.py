"""The real SDK over HTTP: every call the product makes, on the shared service."""

from __future__ import annotations

import json
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from platoon.local.launcher import LocalServiceProcess

pytestmark = pytest.mark.model

BASE = "local/tiny"
TEXT = "<|im_start|>user\nsay 7<|im_end|>\n<|im_start|>assistant\n7<|im_end|>"


def ints(tokens: list[int]) -> Any:
    from tinker import types

    return types.ModelInput.from_ints(tokens)


def params(**settings: Any) -> Any:
    from tinker import types

    return types.SamplingParams(**settings)


@pytest.fixture(scope="module")
def trainer(client: Any) -> Any:
    return client.create_lora_training_client(base_model=BASE, rank=8, user_metadata={"renderer_name": "chat"}).result()


@pytest.fixture(scope="module")
def tokens(trainer: Any) -> list[int]:
    encoded: list[int] = trainer.get_tokenizer().encode(TEXT)
    return encoded


@pytest.fixture(scope="module")
def warm(client: Any, trainer: Any, tokens: list[int]) -> Any:
    """A sampler of a model that has learnt to answer `TEXT`."""
    import tinker

    for _ in range(25):
        forward = trainer.forward_backward([chat(tokens)] * 2, "cross_entropy")
        step = trainer.optim_step(tinker.AdamParams(learning_rate=2e-3, grad_clip_norm=1.0))
        forward.result(), step.result()
    return client.create_sampling_client(model_path=trainer.save_weights_for_sampler("warm").result().path).result()


def chat(tokens: list[int]) -> Any:
    from tinker import types

    weights = [1.0] * (len(tokens) - 1)
    return types.Datum(ints(tokens[:-1]), {"target_tokens": tokens[1:], "weights": weights})


def on_policy(prompt: list[int], sequence: Any, advantage: float = 1.0, **more: Any) -> Any:
    from tinker import types

    full, pad = prompt + list(sequence.tokens), [0.0] * (len(prompt) - 1)
    inputs = {
        "target_tokens": full[1:],
        "logprobs": pad + list(sequence.logprobs),
        "advantages": pad + [advantage] * len(sequence.tokens),
    }
    return types.Datum(ints(full[:-1]), inputs | {key: pad + value for key, value in more.items()})


def test_capabilities_and_model_information(rest: Any, trainer: Any) -> None:
    models = {model.model_name: model for model in rest.get_server_capabilities().result().supported_models}
    assert set(models) == {"local/tiny", "local/small"} and models[BASE].trainable
    info = trainer.get_info()
    assert info.model_name == BASE and info.is_lora is False
    assert Path(info.model_data.tokenizer_id).is_dir()
    tokenizer = trainer.get_tokenizer()
    assert tokenizer.eos_token_id == tokenizer.convert_tokens_to_ids("<|im_end|>")
    prompt = tokenizer.apply_chat_template([{"role": "user", "content": "hi"}], tokenize=False, add_generation_prompt=True)
    assert prompt.endswith("<|im_start|>assistant\n")


def test_training_lowers_the_loss_and_the_warm_sampler_answers(trainer: Any, warm: Any, tokens: list[int]) -> None:
    assert trainer.forward([chat(tokens)], "cross_entropy").result().metrics["loss:sum"] < 5.0
    prompt = tokens[:-2]
    sequence = warm.sample(ints(prompt), 1, params(max_tokens=8, temperature=0.0)).result().sequences[0]
    assert trainer.get_tokenizer().decode(sequence.tokens) == "7<|im_end|>" and sequence.stop_reason == "stop"


def test_sampler_prefill_and_learner_agree_over_http(trainer: Any, warm: Any, tokens: list[int]) -> None:
    """Logprobs at temperature 1, whatever the sampling temperature."""
    prompt = tokens[:10]
    response = warm.sample(ints(prompt), 4, params(max_tokens=12, temperature=1.7, stop=[], seed=3)).result()
    for sequence in response.sequences:
        full = prompt + list(sequence.tokens)
        prefill = warm.compute_logprobs(ints(full)).result()
        assert prefill[0] is None
        np.testing.assert_allclose(prefill[len(prompt) :], sequence.logprobs, atol=1e-5)
        output = trainer.forward([on_policy(prompt, sequence)], "importance_sampling").result()
        learner = output.loss_fn_outputs[0]["logprobs"].to_numpy()
        np.testing.assert_allclose(learner[len(prompt) - 1 :], sequence.logprobs, atol=1e-5)
        assert output.metrics["loss:sum"] == pytest.approx(-len(sequence.tokens), abs=1e-4)


@pytest.mark.parametrize("loss", ["importance_sampling", "ppo", "cispo", "dro", "gspo"])
def test_every_policy_loss_trains(client: Any, warm: Any, tokens: list[int], loss: str) -> None:
    trainer = client.create_lora_training_client(base_model=BASE).result()
    prompt = tokens[:10]
    sequence = warm.sample(ints(prompt), 1, params(max_tokens=6, stop=[])).result().sequences[0]
    more = {"sequence_ratio_mask": [1.0] * len(sequence.tokens)} if loss == "gspo" else {}
    datum = on_policy(prompt, sequence, **more)
    import tinker

    before = trainer.forward([datum], loss).result().loss_fn_outputs[0]["logprobs"].to_numpy()
    forward = trainer.forward_backward([datum], loss)
    step = trainer.optim_step(tinker.AdamParams(learning_rate=1e-3))
    assert np.isfinite(forward.result().metrics["loss:sum"]) and step.result().metrics["grad_norm:mean"] > 0
    after = trainer.forward([datum], loss).result().loss_fn_outputs[0]["logprobs"].to_numpy()
    assert not np.array_equal(before, after)


def test_custom_losses_run_on_the_client(trainer: Any, tokens: list[int]) -> None:
    def loss(data: list[Any], logprobs: list[Any]) -> tuple[Any, dict[str, float]]:
        return -sum(values.sum() for values in logprobs), {"mine:sum": 1.0}

    metrics = trainer.forward_backward_custom([chat(tokens)], loss).result().metrics
    plain = trainer.forward([chat(tokens)], "cross_entropy").result().metrics["loss:sum"]
    assert metrics["loss:sum"] == pytest.approx(plain, rel=1e-4) and metrics["mine:sum"] == 1.0


def test_many_datums_in_several_requests_come_back_in_order(trainer: Any) -> None:
    data = [chat([3 + number % 200] * (2 + number % 5)) for number in range(1100)]
    outputs = trainer.forward(data, "cross_entropy").result().loss_fn_outputs
    assert [len(output["logprobs"].tolist()) for output in outputs] == [1 + number % 5 for number in range(1100)]
    single = trainer.forward([data[1099]], "cross_entropy").result().loss_fn_outputs[0]["logprobs"].to_numpy()
    np.testing.assert_allclose(outputs[1099]["logprobs"].to_numpy(), single, atol=1e-5)


def test_soft_targets_dense_and_sparse(trainer: Any) -> None:
    import torch
    from tinker import types

    targets, weights = torch.zeros(8, 50, dtype=torch.int64), torch.zeros(8, 50)
    targets[:, 0], targets[:, 1], weights[:, 0], weights[:, 1] = 5, 9, 0.75, 0.25
    sparse = types.Datum(ints(list(range(3, 11))), {"target_tokens": targets, "weights": weights})
    narrow = {"target_tokens": targets[:, :2].contiguous(), "weights": weights[:, :2].contiguous()}
    dense = types.Datum(ints(list(range(3, 11))), narrow)
    losses = [trainer.forward([datum], "cross_entropy").result().metrics["loss:sum"] for datum in (sparse, dense)]
    assert losses[0] == pytest.approx(losses[1], rel=1e-5) and losses[0] > 0


def test_seeds_fix_the_tokens_and_samples_differ(warm: Any, tokens: list[int]) -> None:
    prompt = ints(tokens[:6])

    def sample(seed: int | None) -> list[list[int]]:
        settings = params(max_tokens=12, stop=[], seed=seed, temperature=10.0)
        return [list(sequence.tokens) for sequence in warm.sample(prompt, 3, settings).result().sequences]

    first = sample(7)
    assert first == sample(7) and first != sample(8) and sample(None) != sample(None)
    assert len({tuple(row) for row in first}) == 3


def test_the_same_request_has_the_same_bits_alone_and_in_a_crowd(warm: Any, tokens: list[int]) -> None:
    def ask(number: int) -> Any:
        settings = params(max_tokens=5 + number % 20, seed=number, stop=[])
        return warm.sample(ints(tokens[: 3 + number % 20]), 1, settings)

    crowd = [ask(number).result for number in range(64)]
    together = [result().sequences[0] for result in crowd]
    for number in (0, 13, 40, 63):
        alone = ask(number).result().sequences[0]
        assert list(alone.tokens) == list(together[number].tokens)
        assert list(alone.logprobs) == list(together[number].logprobs)


def test_stops(warm: Any, trainer: Any, tokens: list[int]) -> None:
    prompt, tokenizer = ints(tokens[:-2]), trainer.get_tokenizer()

    def text(**settings: Any) -> tuple[str, str]:
        settings = {"max_tokens": 8, "temperature": 0.0} | settings
        sequence = warm.sample(prompt, 1, params(**settings)).result().sequences[0]
        return tokenizer.decode(sequence.tokens), sequence.stop_reason

    assert text() == ("7<|im_end|>", "stop")
    assert text(stop=tokenizer.encode("7")) == ("7", "stop")
    assert text(stop=["7"]) == ("7", "stop")
    assert text(stop="7<|im") == ("7<|im_end|>", "stop")
    longer, reason = text(stop=[])
    assert longer.startswith("7<|im_end|>") and len(longer) > len("7<|im_end|>") and reason == "length"
    assert text(max_tokens=1) == ("7", "length")


def test_top_k_and_top_p_cut(warm: Any, tokens: list[int]) -> None:
    prompt = ints(tokens[:7])
    greedy = warm.sample(prompt, 1, params(max_tokens=6, temperature=0.0, stop=[])).result().sequences[0]
    for settings in ({"top_k": 1}, {"top_p": 1e-6}):
        cut = warm.sample(prompt, 2, params(max_tokens=6, temperature=3.0, stop=[], **settings)).result().sequences
        assert [list(sequence.tokens) for sequence in cut] == [list(greedy.tokens)] * 2
        np.testing.assert_allclose(cut[0].logprobs, greedy.logprobs, atol=1e-6)


def test_prompt_logprobs_and_alternatives(warm: Any, tokens: list[int]) -> None:
    prompt = tokens[:12]
    response = warm.sample(
        ints(prompt), 1, params(max_tokens=3, stop=[], temperature=0.0), include_prompt_logprobs=True,
        topk_prompt_logprobs=3, topk_sample_logprobs=2,
    ).result()  # fmt: skip
    alternatives = response.topk_prompt_logprobs
    assert alternatives[0] is None and all(len(row) == 3 for row in alternatives[1:])
    for position in range(1, 12):
        found = dict(alternatives[position])
        if prompt[position] in found:
            assert found[prompt[position]] == pytest.approx(response.prompt_logprobs[position], abs=1e-6)
    sequence = response.sequences[0]
    for token, logprob, row in zip(sequence.tokens, sequence.logprobs, sequence.topk_logprobs, strict=True):
        assert row[0] == (token, pytest.approx(logprob, abs=1e-6)) and len(row) == 2
    partly = warm.compute_logprobs(ints(prompt), prompt_logprobs_last_n=2).result()
    assert partly[:-2] == [None] * 10
    np.testing.assert_allclose(partly[-2:], response.prompt_logprobs[-2:], atol=1e-6)


def test_a_pickled_sampler_works_and_a_snapshot_stands_still(trainer: Any, tokens: list[int]) -> None:
    import tinker

    snapshot = trainer.save_weights_and_get_sampling_client().result()
    moving = trainer.save_weights_and_get_sampling_client(kind="inflight").result()
    copy = pickle.loads(pickle.dumps(snapshot))
    prompt = ints(tokens)
    before = [sampler.compute_logprobs(prompt).result() for sampler in (snapshot, moving, copy)]
    assert before[0] == before[1] == before[2]
    trainer.forward_backward([chat(tokens[::-1])], "cross_entropy").result()
    trainer.optim_step(tinker.AdamParams(learning_rate=1e-3)).result()
    after = [sampler.compute_logprobs(prompt).result() for sampler in (snapshot, moving, copy)]
    assert after[0] == before[0] and after[2] == before[2] and after[1] != before[1]
    # A copy keeps the session alive by itself.
    copy.holder.close()


def test_states_restore_with_and_without_the_optimizer(client: Any, trainer: Any, tokens: list[int]) -> None:
    import tinker

    def step(each: Any) -> float:
        each.forward_backward([chat(tokens)], "cross_entropy").result()
        each.optim_step(tinker.AdamParams(learning_rate=1e-3)).result()
        return float(each.forward([chat(tokens)], "cross_entropy").result().metrics["loss:sum"])

    trainer.optim_step(tinker.AdamParams(learning_rate=0.0)).result()
    path = trainer.save_state("state").result().path
    whole = client.create_training_client_from_state_with_optimizer(path).result()
    bare = client.create_training_client_from_state(path).result()
    losses = [float(each.forward([chat(tokens)], "cross_entropy").result().metrics["loss:sum"]) for each in (trainer, whole, bare)]
    assert losses[0] == losses[1] == losses[2]
    continued = [step(each) for each in (trainer, whole, bare)]
    assert continued[0] == continued[1] != continued[2]
    with pytest.raises(tinker.RequestFailedError, match="exists"):
        trainer.save_state("state").result()
    assert trainer.save_state("state", overwrite=True).result().path == path


@pytest.mark.filterwarnings("ignore:DEPRECATED. TrainingClient.load_state:FutureWarning")
def test_a_state_is_loaded_into_a_client_that_trained_on(rest: Any, trainer: Any, tokens: list[int]) -> None:
    """The SDK still has these calls, though it wants a new client from a state."""
    import tinker

    def step() -> float:
        trainer.forward_backward([chat(tokens)], "cross_entropy").result()
        trainer.optim_step(tinker.AdamParams(learning_rate=1e-3)).result()
        return float(trainer.forward([chat(tokens)], "cross_entropy").result().metrics["loss:sum"])

    step()
    path = trainer.save_state("left").result().path
    first = step()
    trainer.load_state_with_optimizer(path).result()
    assert step() == first
    trainer.load_state(path).result()
    assert step() != first, "the optimizer began anew"
    rest.delete_checkpoint_from_tinker_path(path).result()
    for load in (trainer.load_state, trainer.load_state_with_optimizer):
        with pytest.raises(tinker.RequestFailedError, match="left") as failure:
            load(path).result()
        assert str(failure.value.category) == "user"


def test_base_model_samplers(client: Any) -> None:
    sampler = client.create_sampling_client(base_model=BASE).result()
    assert sampler.get_base_model() == BASE
    assert len(sampler.sample(ints([5, 6]), 2, params(max_tokens=3, stop=[])).result().sequences) == 2


def test_checkpoints_are_listed_described_expire_and_are_deleted(client: Any, rest: Any, trainer: Any) -> None:
    import tinker

    run = trainer.model_id
    path = trainer.save_state("listed", ttl_seconds=3600, user_metadata={"step": "9"}).result().path
    found = {c.tinker_path: c for c in rest.list_checkpoints(run).result().checkpoints}[path]
    assert found.checkpoint_type == "training" and found.user_metadata == {"step": "9"} and found.expires_at is not None
    assert found.size_bytes and found.size_bytes > 1_000_000
    rest.set_checkpoint_ttl_from_tinker_path(path, None).result()
    assert {c.tinker_path: c for c in rest.list_user_checkpoints().result().checkpoints}[path].expires_at is None
    info = rest.get_weights_info_by_tinker_path(path).result()
    assert info.base_model == BASE and not info.is_lora and info.train_mlp
    described = rest.get_training_run_by_tinker_path(path).result()
    assert described.training_run_id == run and described.user_metadata == {"renderer_name": "chat"}
    assert described.last_checkpoint.tinker_path == path
    assert run in [row.training_run_id for row in rest.list_training_runs().result().training_runs]
    rest.delete_checkpoint_from_tinker_path(path).result()
    for operation in (
        lambda: rest.delete_checkpoint_from_tinker_path(path).result(),
        lambda: client.create_training_client_from_state(path).result(),
        lambda: client.create_sampling_client(model_path=path).result(),
        lambda: rest.get_weights_info_by_tinker_path(path).result(),
        lambda: rest.get_training_run("nobody:train:0").result(),
    ):
        with pytest.raises(tinker.NotFoundError):
            operation()


def test_what_is_not_served_is_refused_with_a_reason(client: Any, trainer: Any, warm: Any, tokens: list[int]) -> None:
    import tinker

    def fails(kind: type[Exception], match: str, operation: Any) -> None:
        with pytest.raises(kind, match=match):
            operation()

    fails(tinker.NotFoundError, "unknown base model", lambda: client.create_lora_training_client("big/one").result())
    fails(tinker.RequestFailedError, "is not served", lambda: trainer.forward([chat(tokens)], "stable_reinforce").result())
    fails(tinker.BadRequestError, "context", lambda: warm.sample(ints([5]), 1, params(max_tokens=5000)).result())
    fails(tinker.BadRequestError, "token ids", lambda: warm.sample(ints([5000]), 1, params(max_tokens=1)).result())
    fails(tinker.BadRequestError, "checkpoint name", lambda: trainer.save_state("../escape").result())


def test_a_failed_operation_says_whose_fault_it_is(client: Any, tokens: list[int]) -> None:
    import tinker
    from tinker import types

    trainer = client.create_lora_training_client(base_model=BASE).result()
    bad = types.Datum(ints([5, 6]), {"target_tokens": [6, 900], "weights": [1.0, 1.0]})
    with pytest.raises(tinker.RequestFailedError) as failure:
        trainer.forward_backward([bad], "cross_entropy").result()
    assert str(failure.value.category) == "user"
    assert trainer.forward([chat(tokens)], "cross_entropy").result().metrics["loss:sum"] > 0


def test_hostile_requests_are_refused_and_leave_the_others_alone(service: LocalServiceProcess) -> None:
    import httpx

    with httpx.Client(base_url=service.base_url, headers={"X-API-Key": service.api_key}, timeout=60) as http:

        def post(route: str, **body: Any) -> httpx.Response:
            return http.post(f"/api/v1/{route}", content=json.dumps(body))

        session = post("create_session", sdk_version="0.38.0").json()["session_id"]
        made = post("create_sampling_session", session_id=session, sampling_session_seq_id=0, base_model=BASE)
        sampler = made.json()["sampling_session_id"]
        wanted: list[dict[str, Any]] = [{"seed": number} for number in range(6)]
        wanted[3:3] = [{"top_k": 2**70}, {"temperature": 1e39}, {"temperature": 1e308}, {"top_p": 0}, {"seed": 10**30}]
        answers = [
            post(
                "asample",
                sampling_session_id=sampler,
                seq_id=number,
                prompt={"chunks": [{"tokens": [5, 6, 7]}]},
                sampling_params={"max_tokens": 8, **settings},
            )
            for number, settings in enumerate(wanted)
        ]
        assert [answer.status_code for answer in answers] == [200] * 3 + [422] * 5 + [200] * 3
        for answer in answers:
            if answer.status_code == 200:
                outcome = post("retrieve_future", request_id=answer.json()["request_id"])
                assert outcome.status_code == 200 and b"error" not in outcome.content
        ttl = http.put(
            f"/api/v1/training_runs/{session}:train:0/checkpoints/weights/a/ttl", content=b'{"ttl_seconds": 1%s}' % (b"0" * 400)
        )
        assert ttl.status_code == 422


def test_training_begins_from_the_bases_own_weights_whatever_adapter_is_asked_for(client: Any, tokens: list[int]) -> None:
    asked: list[dict[str, Any]] = [{}, {"seed": 1}, {"seed": 2, "rank": 4}]
    learners = [client.create_lora_training_client(base_model=BASE, **adapter).result() for adapter in asked]
    first = [learner.forward([chat(tokens)], "cross_entropy").result().metrics["loss:sum"] for learner in learners]
    assert first[0] > 0 and first == first[:1] * 3


def test_a_truncated_or_damaged_checkpoint_is_the_callers_to_know(
    client: Any, rest: Any, service: LocalServiceProcess, state_dir: Path
) -> None:
    """Cut off, it is not there; damaged inside, loading it is refused at once and not tried again."""
    import tinker

    learner = client.create_lora_training_client(base_model=BASE, rank=8).result()
    inside, cut = (learner.save_state(name).result().path for name in ("inside", "cut"))
    run, directory = inside.split("/")[2], state_dir / "checkpoints" / inside.split("/")[2] / "weights"
    for name in ("inside", "cut"):
        file = directory / f"{name}.safetensors"
        data = bytearray(file.read_bytes())
        data[-4:] = b"\0\0\xc0\x7f"
        file.unlink()
        file.write_bytes(data if name == "inside" else data[:-1000])
    with pytest.raises(tinker.NotFoundError, match="damaged"):
        rest.get_weights_info_by_tinker_path(cut).result()
    listed = rest.list_checkpoints(run).result().checkpoints
    assert [row.checkpoint_id for row in listed] == ["weights/cut", "weights/inside"]
    assert "its header says" in listed[0].user_metadata["damaged"] and "damaged" not in (listed[1].user_metadata or {})
    assert cut in [row.tinker_path for row in rest.list_user_checkpoints().result().checkpoints]
    assert rest.get_training_run(run).result().last_checkpoint.tinker_path == inside
    rest.get_weights_info_by_tinker_path(inside).result()
    with pytest.raises(tinker.RequestFailedError, match="damaged") as refused:
        client.create_training_client_from_state_with_optimizer(inside).result()
    assert refused.value.category == "user"
    for path in (cut, inside):
        rest.delete_checkpoint_from_tinker_path(path).result()
        with pytest.raises(tinker.NotFoundError):
            rest.delete_checkpoint_from_tinker_path(path).result()
    assert rest.list_checkpoints(run).result().checkpoints == [] and list(directory.iterdir()) == []


def test_a_finished_session_lets_go_of_its_models_and_keeps_its_checkpoints(service: LocalServiceProcess, rest: Any) -> None:
    import tinker

    with tinker.ServiceClient(base_url=service.base_url, api_key=service.api_key) as own:
        trainer = own.create_lora_training_client(base_model=BASE).result()
        session = trainer.model_id.split(":")[0]
        path = trainer.save_weights_for_sampler("kept").result().path
        assert rest.get_session(session).result().training_run_ids == [trainer.model_id]
    assert rest.get_session(session).result().training_run_ids == []
    assert rest.get_weights_info_by_tinker_path(path).result().base_model == BASE


def test_a_cancelled_sample_frees_its_place(service: LocalServiceProcess, warm: Any, tokens: list[int]) -> None:
    long = warm.sample(ints(tokens[:5]), 64, params(max_tokens=3000, stop=[]))
    long.future().cancel()
    assert warm.sample(ints(tokens[:5]), 1, params(max_tokens=2)).result().sequences


@pytest.mark.parametrize("key", [None, "tml-wrong"])
def test_requests_without_the_key_are_refused(service: LocalServiceProcess, key: str | None) -> None:
    import httpx

    headers = {} if key is None else {"X-API-Key": key}
    for path in ("/api/v1/healthz", "/local/faults", "/nowhere"):
        assert httpx.get(service.base_url + path, headers=headers).status_code == 401
