"""Faults of datasets and conversations: one report that names file, key and rule, exit 78, nothing half-written."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from platoon import exits
from platoon.errors import ConfigError
from platoon.train.trainer.sft_data import read_conversations
from tests.pipeline.edits import edit, inputs

pytestmark = pytest.mark.unit

MakeRecipe = Callable[..., Path]


@pytest.mark.parametrize("fields", ["nope", "[family, nope]", "[]", "''"])
def test_fields_of_a_hold_out_that_tasks_do_not_have(
    fields: str, make_recipe: MakeRecipe, run: Callable[..., tuple[int, str]]
) -> None:
    config = make_recipe() / "configs/rl.yaml"
    edit(config, "group_by: family", f"group_by: {fields}")
    for command in (("config", "validate", "--tasks", config), ("prepare", config)):
        code, text = run(*command)
        assert (code, f"{config}: environments.0.service_kwargs.holdout.group_by: " in text) == (exits.CONFIG, True), text
        assert text.count("nope") <= 1


def test_a_dataset_without_tasks(make_recipe: MakeRecipe, run: Callable[..., tuple[int, str]]) -> None:
    root = make_recipe()
    for path in root.glob("data/tasks/*/task.toml"):
        path.unlink()
    code, text = inputs(root, run)
    assert code == exits.CONFIG
    assert "../data/tasks: holds no task (a task is a directory with a task.toml)" in text
    assert [path.name for path in Path("results").iterdir()] == ["config.yaml"]
    code, text = run("config", "validate", root / "recipe.yaml")
    assert code == exits.CONFIG
    assert f"{root}/configs/rl.yaml: environments.0.service_kwargs.dataset: ../data/tasks: holds no task" in text


def test_a_task_without_tests(make_recipe: MakeRecipe, run: Callable[..., tuple[int, str]]) -> None:
    root = make_recipe()
    (root / "data/tasks/t1/tests/test.sh").unlink()
    (root / "data/tasks/t4/task.toml").write_text('[agent]\ntimeout_sec = "1"\n[metadata]\nfamily = "x"\n')
    code, text = inputs(root, run)
    assert code == exits.CONFIG
    assert (
        "../data/tasks/t1: tests/test.sh: a task needs tests, and this file is missing (mend the task, or name it in exclude_tasks)"
        in text
    )
    assert '../data/tasks/t4: task.toml: agent.timeout_sec: must be a number, got "1"' in text
    assert [path.name for path in Path("results").iterdir()] == ["config.yaml"]
    edit(root / "configs/rl.yaml", "  harness:", "  exclude_tasks: [t1, t4]\n  harness:")
    assert inputs(root, run)[0] == 0
    assert run("harbor", "fetch", root / "configs/rl.yaml")[0] == 0


def test_an_excluded_task_that_is_not_selected_is_told_so(make_recipe: MakeRecipe, run: Callable[..., tuple[int, str]]) -> None:
    config = make_recipe() / "configs/rl.yaml"
    edit(config, "  harness:", "  exclude_tasks: [t5]\n  harness:")
    edit(config, "    index:", '    select: {name: "t[0-3]"}\n    index:')
    for command in (("prepare",), ("harbor", "fetch")):
        code, text = run(*command, config)
        assert code == exits.CONFIG
        assert "environments.0.exclude_tasks: no task is called t5 among those of select" in text


def test_a_task_without_tests_is_found_by_validate(make_recipe: MakeRecipe, run: Callable[..., tuple[int, str]]) -> None:
    root = make_recipe()
    (root / "data/tasks/t1/tests/test.sh").unlink()
    assert run("config", "validate", root / "recipe.yaml") == (0, f"{root}/recipe.yaml: a recipe of 2 runs and 0 evaluations\n")
    code, text = run("config", "validate", "--tasks", root / "recipe.yaml")
    assert code == exits.CONFIG
    assert "t1: tests/test.sh" in text


def test_conversations_that_are_not_there_or_empty(make_recipe: MakeRecipe, run: Callable[..., tuple[int, str]]) -> None:
    root = make_recipe()
    (root / "data/chat.jsonl").write_text("")
    code, text = inputs(root, run, "sft")
    assert code == exits.CONFIG
    assert "../data/chat.jsonl: trainer_options.data: is empty" in text
    (root / "data/chat.jsonl").unlink()
    code, text = inputs(root, run, "sft")
    assert code == exits.CONFIG
    assert f"{root}/configs/sft.yaml: trainer_options.data: no such file or directory: ../data/chat.jsonl" in text


CHAT_FAULTS = {
    "no json": "not a JSON line",
    "[1]": 'needs {"messages": [...]}',
    '{"messages": 3}': 'needs {"messages": [...]}',
    '{"messages": [{"content": "x"}]}': "every message is an object with a role",
    '{"messages": [{"role": "user", "content": "x"}], "tools": 3}': "tools is a list of objects",
}


@pytest.mark.parametrize("line", CHAT_FAULTS)
def test_a_line_that_is_no_conversation(line: str, make_recipe: MakeRecipe, run: Callable[..., tuple[int, str]]) -> None:
    root = make_recipe()
    data = root / "data/chat.jsonl"
    data.write_text(data.read_text() + "\n" + line + "\n")
    config = root / "configs/sft.yaml"
    for command in (("config", "validate", "--tasks", config), ("prepare", config), ("train", config, "--run-dir", root / "run")):
        code, text = run(*command)
        assert (code, f"../data/chat.jsonl:3: {CHAT_FAULTS[line]}" in text) == (exits.CONFIG, True), text
    assert not (root / "run").exists()


def test_of_many_lines_that_are_no_conversations_the_first_are_told(tmp_path: Path) -> None:
    (tmp_path / "chat.jsonl").write_text("x\n" * 1000)
    with pytest.raises(ConfigError) as refused:
        read_conversations({"chat.jsonl": tmp_path / "chat.jsonl"})
    assert len(refused.value.problems) == 21
    assert str(refused.value.problems[-1]) == "chat.jsonl: 980 more lines are no conversations"


@pytest.mark.parametrize(
    ("link", "to"),
    [("loop", "loop"), ("inner/loop", "loop"), ("registry.json", "registry.json"), ("task.toml", "task.toml"), ("long", "x" * 300)],
)
def test_what_cannot_be_listed_of_a_dataset_is_a_fault_of_it(
    make_recipe: MakeRecipe, run: Callable[..., tuple[int, str]], link: str, to: str
) -> None:
    root = make_recipe()
    place = root / "data/tasks" / link
    place.parent.mkdir(exist_ok=True)
    place.symlink_to(to)
    code, text = run("config", "validate", root / "configs/rl.yaml")
    reason = os.strerror(errno.ENAMETOOLONG if link == "long" else errno.ELOOP)
    assert (code, f"{link}: cannot be read: {reason}" in text) == (exits.CONFIG, True), text
    assert f"{root}/configs/rl.yaml: environments.0.service_kwargs.dataset: " in text
    code, text = inputs(root, run)
    assert (code, f"{link}: cannot be read: {reason}" in text) == (exits.CONFIG, True), text


@pytest.mark.parametrize(
    ("old", "new", "key", "told"),
    [
        ("group_by: family", "group_by: [famly]", "holdout.group_by", "no task has a field famly (did you mean family?)"),
        ("group_by: family", "group_by: family, stratify_by: nope", "holdout.stratify_by", "no task has a field nope"),
        ("family]}]", "family]}, no.json]", "index", "no.json: cannot be read: no such file"),
        ("family]}]", "family]}]\n    select: {nope: 1}", "select", "select.nope: no task has this field"),
        ("family]}]", f"family]}}, {'x' * 300}.json]", "index", "an index file's path has at most 1024 bytes, and 255 between"),
        ("family]}]", "family]}]\n    tasks: ids.txt", "tasks", "ids.txt: is not UTF-8"),
        ("family]}]", "family]}]\n    tasks: [none.txt]", "tasks", "no task is called nobody"),
        (
            "family]}]",
            "family]}]\n    overlays: [good, bad]",
            "overlays.1",
            "bad/overlay.toml/edits: unknown key (did you mean edit?)",
        ),
    ],
)
def test_what_a_configuration_and_the_list_of_tasks_say_alone_is_validated(
    make_recipe: MakeRecipe, run: Callable[..., tuple[int, str]], old: str, new: str, key: str, told: str
) -> None:
    root = make_recipe()
    (root / "configs/ids.txt").write_bytes(b"\xff")
    (root / "configs/none.txt").write_text("nobody")
    for name, table in (("good", "edit"), ("bad", "edits")):
        (root / "configs" / name).mkdir()
        (root / "configs" / name / "overlay.toml").write_text(f'[[{table}]]\nfile = "instruction.md"\npattern = "D"\n')
    edit(root / "configs/rl.yaml", old, new)
    code, text = run("config", "validate", root / "configs/rl.yaml")
    assert code == exits.CONFIG and f"rl.yaml: environments.0.service_kwargs.{key}: " in text and told in text, text
    assert inputs(root, run)[0] == exits.CONFIG
