"""Identity: what may change on the way, and what makes another run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from platoon.errors import IdentityError
from platoon.train.config_defs.run import RunConfig
from platoon.train.run_directory.identity import check_identity, identity_digest, run_identity, write_identity

pytestmark = pytest.mark.unit


def identity(**changes: Any) -> dict[str, Any]:
    tasks = changes.pop("tasks", {"shell": [(name, f"sha256:{name}") for name in "abc"]})
    train = {"model_name": "tiny", "renderer_name": "chat", "max_training_steps": 4, **changes.pop("train", {})}
    options = {"data": "chat.jsonl", **changes.pop("trainer_options", {})}
    config = RunConfig(train=train, trainer="sft", trainer_options=options, **changes)
    return run_identity(config.plain(), {"inputs": {"data": "sha256:1"}}, tasks)


@pytest.mark.parametrize(
    "changes",
    [
        {"train": {"max_training_steps": 9}},
        {"train": {"num_epochs": 2}},
        {"train": {"optim_step_timeout_seconds": 7}},
        {"checkpoint": {"recovery_every": 1}},
        {"tinker_base_url": "http://elsewhere"},
        {"log_path": "elsewhere"},
        {"watchdog": {"enabled": False}},
    ],
)
def test_plan_cadence_limits_and_addresses_go_on_with_the_run(changes: dict[str, Any]) -> None:
    assert identity_digest(identity(**changes)) == identity_digest(identity())


@pytest.mark.parametrize(
    ("changes", "key"),
    [
        ({"train": {"lora_rank": 4}}, "train.lora_rank"),
        ({"train": {"optimizer": {"learning_rate": 1e-3}}}, "train.optimizer.learning_rate"),
        ({"seed": 1}, "seed"),
        ({"trainer_options": {"max_length": 9}}, "trainer_options.max_length"),
    ],
)
def test_another_identity_names_the_key_and_touches_nothing(changes: dict[str, Any], key: str, tmp_path: Path) -> None:
    write_identity(tmp_path, identity())
    before = {path: path.stat().st_ctime_ns for path in tmp_path.iterdir()}
    with pytest.raises(IdentityError) as refusal:
        check_identity(tmp_path, identity(**changes), "main")
    assert [problem.key for problem in refusal.value.problems] == [key]
    assert "runs.main-2" in str(refusal.value) and refusal.value.exit_code == 78
    assert {path: path.stat().st_ctime_ns for path in tmp_path.iterdir()} == before


@pytest.mark.parametrize(
    ("tasks", "told"),
    [
        ([("a", "sha256:a"), ("b", "other"), ("c", "sha256:c")], "changed b"),
        ([("a", "sha256:a"), ("c", "sha256:c"), ("d", "sha256:d")], "added d; removed b"),
        ([("b", "sha256:b"), ("a", "sha256:a"), ("c", "sha256:c")], "their order changed"),
        ([(f"n{number}", "") for number in range(9)], "added n0, n1, n2, n3, n4, n5 and 3 more; removed a, b, c"),
        ([("a", "sha256:a"), ("b", "sha256:b"), ("c", "sha256:c"), ("\x1b", "")], r"added \x1b"),
    ],
)
def test_tasks_that_are_not_those_it_was_trained_on_are_named(tasks: list[tuple[str, str]], told: str, tmp_path: Path) -> None:
    write_identity(tmp_path, identity())
    with pytest.raises(IdentityError) as refusal:
        check_identity(tmp_path, identity(tasks={"shell": tasks}), "main")
    (problem,) = refusal.value.problems
    assert problem.key == "environment shell" and problem.rule.endswith(f"'main' was trained on: {told}")
    with pytest.raises(IdentityError, match=r"environment shell: .* removed a, b, c") as refusal:
        check_identity(tmp_path, identity(tasks={"renamed": tasks}), "main")
    assert len(refusal.value.problems) == 2


def test_an_identity_of_another_release_is_not_compared_key_by_key(tmp_path: Path) -> None:
    write_identity(tmp_path, {**identity(seed=1), "rule": "run-identity/1"})
    with pytest.raises(IdentityError, match=r"another release of platoon.*run-identity/2") as refusal:
        check_identity(tmp_path, identity(), "main")
    assert len(refusal.value.problems) == 1


@pytest.mark.parametrize("key", ["inputs.data", "from.step"])
def test_a_changed_input_says_what_names_the_run_too(key: str, tmp_path: Path) -> None:
    write_identity(tmp_path, {**identity(), key: 1})
    with pytest.raises(
        IdentityError, match=r"runs\.main-2 in the recipe, named so in `from:` and `of:`.*take the change back"
    ) as refusal:
        check_identity(tmp_path, {**identity(), key: 2}, "main")
    assert [problem.key for problem in refusal.value.problems] == [key]


def test_the_same_identity_is_known_and_an_empty_place_has_none(tmp_path: Path) -> None:
    assert not check_identity(tmp_path, identity(), "main")
    write_identity(tmp_path, identity())
    assert check_identity(tmp_path, identity(), "main")
