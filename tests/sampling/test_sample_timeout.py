"""The longest wait for a sample: which of key, variable and default says it."""

from __future__ import annotations

import pytest

from platoon.errors import ConfigError
from platoon.eval.config_defs import EvaluationConfig
from platoon.sampling.sample_timeout import SampleTimeout, told
from platoon.train.config_defs.run import RunConfig

pytestmark = pytest.mark.unit

VARIABLE = "TINKER_SAMPLE_TIMEOUT_SECONDS"
MODEL = {"model_name": "m", "renderer_name": "r"}


def training(main: float | None = None, judge: float | None = None) -> RunConfig:
    return RunConfig(
        train={**MODEL, "max_training_steps": 1, "batch_size": 1, "sample_timeout_seconds": main},
        policies={"judge": {"trainable": False, "sample_timeout_seconds": judge}},
        agents={"roles": {"judge": {"policy": "judge"}}},
        environments=[{"service": "s", "harness": "h"}],
    )


def evaluation(seconds: float | None = None) -> EvaluationConfig:
    environments = [{"service": "s", "harness": "h"}]
    return EvaluationConfig(inference={**MODEL, "sample_timeout_seconds": seconds}, environments=environments)


@pytest.mark.parametrize(
    ("text", "expected"), [(None, SampleTimeout(600.0, "default")), ("", SampleTimeout()), ("2.5e1", SampleTimeout(25.0, VARIABLE))]
)
def test_without_a_key_the_variable_says_it_and_else_the_default(
    text: str | None, expected: SampleTimeout, monkeypatch: pytest.MonkeyPatch
) -> None:
    if text is None:
        monkeypatch.delenv(VARIABLE, raising=False)
    else:
        monkeypatch.setenv(VARIABLE, text)
    specs = [training().model_spec("main"), training().model_spec("judge"), evaluation().model_spec()]
    assert [spec.sample_timeout for spec in specs] == [expected] * 3


@pytest.mark.parametrize("text", ["30", "soon"])
def test_a_key_wins_over_the_variable_and_is_named(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, text)
    both = training(40, 1.5)
    assert told(both.model_spec(policy).sample_timeout for policy in ("main", "judge")) == (
        "longest wait for a sample: 40 s (train.sample_timeout_seconds), 1.5 s (policies.judge.sample_timeout_seconds)"
    )
    assert told([training(40).model_spec(policy).sample_timeout for policy in ("main", "judge")]).endswith(
        ": 40 s (train.sample_timeout_seconds)"
    )
    assert evaluation(50).model_spec().sample_timeout == SampleTimeout(50.0, "inference.sample_timeout_seconds")


@pytest.mark.parametrize("text", ["soon", "0", "-1", "nan", "inf", "1e309", "10 s", " "])
def test_a_variable_that_is_no_time_is_refused_by_its_name(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, text)
    for spec in (lambda: training().model_spec("main"), evaluation().model_spec):
        with pytest.raises(ConfigError, match=f"^{VARIABLE}: must be a number of seconds above 0, got "):
            spec()
