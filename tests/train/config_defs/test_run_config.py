from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest

from platoon import exits
from platoon.config.load import load_model
from platoon.errors import ConfigError
from platoon.train.config_defs.rollout import effective
from platoon.train.config_defs.run import RunConfig

pytestmark = pytest.mark.unit

BASE: dict[str, Any] = {
    "train": {"model_name": "local/small", "renderer_name": "chat_template", "max_training_steps": 3, "batch_size": 4},
    "environments": [{"service": "harbor", "harness": "platoon-bash"}],
}


def build(tmp_path: Path, changes: dict[str, Any]) -> RunConfig:
    import json

    values = copy.deepcopy(BASE)
    for key, value in changes.items():
        node: Any = values
        *way, last = key.split(".")
        for part in way:
            node = node[int(part)] if isinstance(node, list) else node.setdefault(part, {})
        node[last] = value
    path = tmp_path / "run.yaml"
    path.write_text(json.dumps(values))
    return load_model(RunConfig, path)


OTHER_ENDS = {*exits.MEANINGS, -1, 256} - {exits.FAILED, exits.WATCHDOG}
STATS_NAMES = ("experiment_name", "trial_name")
NO_NAMES = ("", ".", "..", ".hidden", "a/b", "/a", "a\nb", "a\x1b[31m", " a", "a ", "x" * 129, "é" * 128, "\u202e")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"train.max_training_steps": None}, "train.num_epochs: set"),
        ({"train.num_minibatches": 3}, "train.num_minibatches: must divide train.batch_size 4"),
        ({"train.num_minibatches": 2, "train.num_microbatches": 4}, "must divide the 2 groups of a minibatch"),
        ({"train.max_concurrent_rollouts": 4}, "train.max_concurrent_rollouts: holds no group of entry 'default'"),
        ({"train.max_concurrent_rollouts": 65537}, "train.max_concurrent_rollouts: must be at most 65536, got 65537"),
        ({"train.max_concurrent_rollouts": 10**15}, "train.max_concurrent_rollouts: must be at most 65536, got 1000"),
        ({"train.lora_rank": 10**9}, "train.lora_rank: must be at most 4096, got 1000000000"),
        ({"policies.helper": {"lora_rank": 4097}}, "policies.helper.lora_rank: must be at most 4096, got 4097"),
        *(({f"stats.{key}": name}, f"stats.{key}: must be a name of 1 to 128") for key in STATS_NAMES for name in NO_NAMES),
        *(({"watchdog.exit_code": code}, "watchdog.exit_code: must be") for code in OTHER_ENDS),
        ({"watchdog.exit_code": 75}, "75 is 'held by another live trainer"),
        ({"train.loss_fn": "reinforce"}, "train.loss_fn: must be one of cispo"),
        (
            {"train.loss_fn": "ppo", "train.loss_fn_config": {"foo": 1}},
            "train.loss_fn_config.foo: ppo reads clip_high_threshold and",
        ),
        ({"train.loss_fn": "dro", "train.loss_fn_config": {"clip_low_threshold": 1}}, "clip_low_threshold: dro reads beta only"),
        ({"train.loss_fn": "importance_sampling", "train.loss_fn_config": {"beta": 1}}, "beta: importance_sampling takes no"),
        ({"train.workflow_config": {"group_size": 1000000}}, "train.workflow_config.group_size: must be at most 4096, got 1000000"),
        (
            {"train.batch_size": 65536, "train.workflow_config": {"group_size": 2}},
            "is 131072 rollouts a step, must be at most 65536",
        ),
        (
            {"environments.0.workflow_config": {"group_size": 4097}},
            "environments.0.workflow_config.group_size: must be at most 4096",
        ),
        ({"train.group_admission": "informative"}, "train.group_admission: this version does not act on this key"),
        ({"train.workflow_config": {"worker_preload": ["x"]}}, "worker_preload: this version does not act"),
        ({"train.task_order": "shuffled"}, "train.task_order: removed: use train.task_sampler"),
        ({"train.batchsize": 4}, "train.batchsize: unknown key (did you mean batch_size?)"),
        ({"train.batch_size": True}, "train.batch_size: must be a whole number"),
        ({"train.workflow_config": {"straggler_quorum": 2}}, "straggler_quorum: needs straggler_timeout_seconds"),
        ({"train.workflow_config": {"min_successful_group_size": 9}}, "must be at most group_size 8"),
        ({"eval.every": 5}, "eval.every: this version does not act on this key (leave it out or at 0; add an evaluation"),
        ({"environments": []}, "environments: trainer rl needs at least one entry"),
        ({"environments.0.harness": None}, "environments.0.harness: is required"),
        ({"environments": [BASE["environments"][0]] * 2}, "environments.0.name: is required when there are several"),
        ({"environments.0.max_staleness": 1}, "environments.0.max_staleness: must be at least train.max_staleness"),
        ({"environments.0.credit": "reverse_kl"}, "environments.0.credit: must be one of group, keyed, got 'reverse_kl'"),
        ({"environments.0.credit": "keyed"}, "credit_options.key: must be a list of task, policy, role, depth"),
        ({"environments.0.credit_options": {"key": ["task"]}}, "environments.0.credit_options: takes no options"),
        (
            {"environments.0.credit": "keyed", "environments.0.credit_options": {"key": ["role", "role"]}},
            "credit_options.key: must be a list of",
        ),
        ({"policies.main": {}}, "policies.main: main is the policy of train:"),
        ({"policies.helper": {}}, "policies.helper: trained policy 'helper' is sampled by no agent"),
        ({"agents.policy": "helper"}, "agents.policy: no such policy 'helper'; known are main"),
        ({"policies.judge": {"trainable": False, "lora_rank": 8}}, "policies.judge.lora_rank: a frozen policy has no such key"),
        (
            {"policies.judge": {"trainable": False}, "agents.policy": "judge"},
            "agents.policy: the root agent needs a trained policy",
        ),
        (
            {"policies.helper": {"load_optimizer_state": True}, "agents.roles": {"w": {"policy": "helper"}}},
            "needs load_checkpoint_path",
        ),
        ({"checkpoint.keep_recovery": 2}, "checkpoint.keep_recovery: needs train.max_staleness"),
        (
            {"checkpoint": {"keep_recovery": 1, "recovery_every": 2}, "train.max_staleness": 2},
            "times recovery_every 2 must exceed the largest staleness bound 2",
        ),
        ({"deterministic": True}, "deterministic: needs train.max_staleness 0"),
        (
            {"deterministic": True, "train.max_staleness": 0, "train.workflow_config": {"straggler_timeout_seconds": 5}},
            "must be unset when deterministic is true",
        ),
    ],
)
def test_one_fault_is_refused_by_its_key(tmp_path: Path, changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError) as refused:
        build(tmp_path, changes)
    assert message in str(refused.value)
    assert str(tmp_path / "run.yaml") in str(refused.value)


def test_faults_are_reported_together(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as refused:
        build(tmp_path, {"train.num_minibatches": 3, "environments.0.harness": None, "checkpoint.load_optimizer_state": True})
    assert len(refused.value.problems) == 3


def test_defaults_spelled_out_are_accepted_and_stay_out_of_the_dump(tmp_path: Path) -> None:
    config = build(tmp_path, {"train.group_admission": "all", "train.stepping": "lockstep", "eval": {"every": 0}})
    assert "group_admission" not in config.plain()["train"]
    assert RunConfig.model_validate(config.plain()) == config


def test_settings_come_in_layers(tmp_path: Path) -> None:
    changes = {
        "train.max_staleness": 2,
        "train.loss_fn_config": {"clip_low_threshold": 0.1},
        "environments.0.max_staleness": 3,
        "policies": {"helper": {"loss_fn": "ppo", "renderer_name": "other"}, "twin": {"max_staleness": 1}},
        "agents.roles": {"worker": {"policy": "helper"}, "reader": {"policy": "twin"}},
    }
    config = build(tmp_path, changes)
    assert config.trained == ("main", "helper", "twin")
    assert [config.staleness_of(policy, "default") for policy in config.trained] == [3, 3, 1]
    assert config.loss_of("helper") == ("ppo", {})
    assert config.loss_of("twin") == ("cispo", {"clip_low_threshold": 0.1})
    assert config.model_spec("helper").renderer_name == "other"
    assert config.model_spec("main").sample_timeout.seconds == 600.0
    assert config.permits == 32
    assert RunConfig.model_validate(config.plain()).staleness_of("twin") == 1
    assert config.agents.policy_of("worker") == "helper"
    assert config.agents.policy_of("unheard of") == "main"


def test_an_entry_keeps_the_runs_settings_that_it_does_not_set_also_once_resolved(tmp_path: Path) -> None:
    changes = {
        "train.workflow_config": {"group_size": 4, "rollout_config": {"timeout": 60, "inference_params": {"temperature": 0.5}}},
        "environments.0.workflow_config": {"rollout_config": {"max_steps": 3, "inference_params": {"top_k": 5}}},
    }
    config = build(tmp_path, changes)
    for again in (config, RunConfig.model_validate(config.plain())):
        settings = effective(again.train.workflow_config, again.environments[0].workflow_config)
        assert (settings.group_size, settings.rollout_config.max_steps, settings.rollout_config.timeout) == (4, 3, 60)
        assert settings.rollout_config.inference_params.settings().temperature == 0.5
        assert settings.rollout_config.inference_params.settings().top_k == 5


@pytest.mark.parametrize("loss", ["dro", "importance_sampling"])
def test_a_loss_that_does_not_clip_gets_none_of_the_default_thresholds(tmp_path: Path, loss: str) -> None:
    assert build(tmp_path, {"train.loss_fn": loss}).loss_of("main") == (loss, {})
