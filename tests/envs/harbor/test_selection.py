"""Which tasks of a dataset an entry takes: patterns, lists, indexes, splits, and what cannot be selected."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from platoon.envs.harbor.fetch import fetch
from platoon.envs.harbor.publish import HarborCache
from platoon.envs.harbor.sources.protocol import FetchTools
from platoon.envs.harbor.splits import split_lock
from platoon.errors import ConfigError
from tests.envs.harbor.conftest import make_dataset, options

pytestmark = pytest.mark.unit


MakeTask = Callable[..., Path]


def test_selection(make_task: MakeTask, tmp_path: Path, cache: HarborCache) -> None:
    data = make_dataset(make_task, tmp_path)
    (tmp_path / "some.txt").write_text("task-1  # why\n\ntask-3\n")
    (tmp_path / "more.json").write_text('{"train": ["task-0"]}')
    (data / "index.jsonl").write_text(
        '{"task_id": "task-0", "kind": 1}\n{"task_id": "task-3", "kind": 2}\n{"task_id": "gone", "kind": 2}\n'
    )
    assert fetch(options(tasks=["some.txt", "more.json"]), tmp_path, cache).lock.runnable == ("task-0", "task-1", "task-3")
    by_kind = fetch(options(index=["index.jsonl"], select={"index.kind": [2, 1]}), tmp_path, cache)
    assert by_kind.lock.runnable == ("task-0", "task-3")
    assert by_kind.lock.selection == {"tasks": {}, "select": {"index.kind": [2, 1]}, "selected": 2, "of": 4}
    assert fetch(options(select={"name": "task-[01]"}), tmp_path, cache).lock.runnable == ("task-0", "task-1")


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("l.txt", b"a#1\n"),
        ("l.txt", b"\xef\xbb\xbfa#1\n"),
        ("l.txt", b"\xef\xbb\xbf# a\n  # a\na#1 # a\n\t#a"),
        ("l.json", b'\xef\xbb\xbf["a#1"]'),
        ("l.toml", b'\xef\xbb\xbftrain = ["a#1"]'),
    ],
)
def test_allowlists_as_editors_leave_them(make_task: MakeTask, tmp_path: Path, cache: HarborCache, name: str, data: bytes) -> None:
    """With a byte order mark, and ids that hold the sign of a comment."""
    for task in ("a", "a#1"):
        make_task(task, root=tmp_path / "data")
    (tmp_path / name).write_bytes(data)
    assert fetch(options(tasks=name), tmp_path, cache).lock.runnable == ("a#1",)


@pytest.mark.parametrize(
    ("rows", "told"),
    [
        ([{"task_id": "t", "f": 1}, {"task_id": "other"}, {"task_id": "t", "f": 2}], "rows 1 and 3 give task t different values"),
        ([{"task_id": "t", "f": 1}, {"task_id": "t", "f": True}], "rows 1 and 2 give task t different values"),
        ([{"task_id": "x", "f": 1}, {"task_id": "x"}], "rows 1 and 2 give task x different values"),
        ([{"task_id": "t", "f": 1}, {"f": 1, "task_id": "t"}, {"task_id": "t", "f": 1, "untaken": 2}], None),
    ],
)
def test_rows_of_an_index_that_contradict_each_other(
    make_task: MakeTask, tmp_path: Path, cache: HarborCache, rows: list[dict[str, Any]], told: str | None
) -> None:
    make_task("t", root=tmp_path / "data")
    wanted = options(index=[{"path": "x.jsonl", "fields": ["f"]}])
    (tmp_path / "data/x.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    if told is None:
        assert fetch(wanted, tmp_path, cache).lock.tasks[0].index == {"f": 1}
        return
    with pytest.raises(ConfigError) as caught:
        fetch(wanted, tmp_path, cache)
    assert str(caught.value) == f"data: x.jsonl: {told} (leave one of them)"


@pytest.mark.parametrize(
    ("row", "fields", "told"),
    [
        ({"task_id": "zz", "f": 1}, None, ["no row is of a task of the dataset"]),
        ({"task_id": "t", "f": 1}, ["nope", "f", "gone"], ["no row of a task has the field nope, gone"]),
        ({"task_id": "t", "f": 1}, ["f"], []),
        ({"task_id": "t"}, None, []),
    ],
)
def test_an_index_that_adds_nothing_is_warned_of(
    make_task: MakeTask, tmp_path: Path, cache: HarborCache, row: dict[str, Any], fields: list[str] | None, told: list[str]
) -> None:
    make_task("t", root=tmp_path / "data")
    (tmp_path / "data/x.jsonl").write_text(json.dumps(row))
    said: list[str] = []
    fetch(options(index=[{"path": "x.jsonl", "fields": fields}]), tmp_path, cache, tools=FetchTools(cache, say=said.append))
    assert said == [f"warning: data: index x.jsonl: {why}" for why in told]


def test_metadata_that_no_task_has_is_warned_of(make_task: MakeTask, tmp_path: Path, cache: HarborCache) -> None:
    make_task("a", {"task.toml": "[metadata]\nfamily = 1\n"}, tmp_path / "data")
    make_task("b", root=tmp_path / "data")
    said: list[str] = []
    wanted = options(index=[{"metadata": ["family", "famly"]}, {"metadata": ["kind"]}])
    fetch(wanted, tmp_path, cache, tools=FetchTools(cache, say=said.append))
    assert said == ["warning: data: index metadata: no task has the field famly, kind"]


INDEX = {"index": ["x.json"]}


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"tasks": "unknown.txt"}, "tasks (unknown.txt): no task is called nobody"),
        ({"tasks": "none.txt"}, "none.txt: cannot be read"),
        ({"select": {"kind": 1}}, "select.kind: no task has this field"),
        ({"tasks": "near.txt"}, "tasks (near.txt): no task is called task1 (did you mean task-1?)"),
        ({"tasks": "nothing.txt"}, "nothing.txt: tasks: lists no task"),
        ({"select": {"name": ["task-1", "x*"]}}, 'select.name: no task is called "x*"'),
        ({"select": {"name": "tsk-1"}}, 'select.name: no task is called "tsk-1" (did you mean "task-1"?)'),
        ({**INDEX, "select": {"kind": ["easy", "hrad"]}}, 'select.kind: no task has the value "hrad" (did you mean "hard"?)'),
        ({**INDEX, "select": {"number": "1"}}, 'select.number: no task has the value "1" (did you mean 1?)'),
        ({**INDEX, "select": {"text": 1}}, 'select.text: no task has the value 1 (did you mean "1"?)'),
        ({**INDEX, "select": {"text": "null"}}, 'select.text: no task has the value "null"'),
        ({**INDEX, "select": {"index.number": [True]}}, "select.index.number: no task has the value true"),
        ({**INDEX, "select": {"kind": "easy", "number": 2}}, "select: no task is selected"),
        *(({"index": [{"metadata": [name]}]}, f"metadata.{name} is no scalar") for name in ("list", "nan", "inf", "large")),
        (
            {"index": [{"metadata": ["list"]}, "x.json"], "select": {"list": 1}},
            "select.list: comes from [metadata], which is read of",
        ),
        (
            {"index": ["gone.json"]},
            "data/gone.json: cannot be read: no such file (a file of index: is one of the dataset, and named",
        ),
        *(({"index": [path]}, "must stay inside the dataset (a file of index: is one") for path in ("../x.json", "/x.json")),
        ({"dataset": "nowhere"}, "nowhere: no such directory"),
        ({"dataset": "empty"}, "empty: holds no task"),
    ],
)
def test_what_cannot_be_selected(make_task: MakeTask, tmp_path: Path, cache: HarborCache, more: dict[str, Any], words: str) -> None:
    make_task("t", {"task.toml": "[metadata]\nlist = [1]\nnan = nan\ninf = -inf\nlarge = 1e999\n"}, tmp_path / "data")
    (tmp_path / "empty").mkdir()
    for name in ("task-1", "task-2"):
        make_task(name, root=tmp_path / "data")
    (tmp_path / "data/x.json").write_text(
        '{"task-1": {"kind": "easy", "number": 1, "text": "1"}, "task-2": {"kind": "hard", "number": 2}}'
    )
    for name, text in {"unknown": "nobody\n", "near": "task1\n", "nothing": "# none\n"}.items():
        (tmp_path / f"{name}.txt").write_text(text)
    with pytest.raises(ConfigError) as caught:
        fetch(options(**more), tmp_path, cache)
    assert words in str(caught.value)


def test_ids_of_indexes_and_single_tasks(make_task: MakeTask, tmp_path: Path, cache: HarborCache) -> None:
    data = make_dataset(make_task, tmp_path, 2)
    make_task("deep", root=data / "group")
    assert [row.name for row in fetch(options(), tmp_path, cache).lock.tasks] == ["group/deep", "task-0", "task-1"]
    (data / "task-index.json").write_text('{"one": {"task_path": "task-1", "kind": "a"}}')
    (row,) = fetch(options(), tmp_path, cache).lock.tasks
    assert (row.name, row.source_path, row.index) == ("one", "task-1", {"kind": "a"})
    (data / "registry.json").write_text('[{"name": "d", "version": "1", "tasks": [{"name": "reg", "path": "task-0"}]}]')
    assert [row.name for row in fetch(options(), tmp_path, cache).lock.tasks] == ["reg"]
    make_task("single", {"task.toml": '[task]\nname = "org/single"\n'}, tmp_path)
    assert [row.name for row in fetch(options(dataset="single"), tmp_path, cache).lock.tasks] == ["org/single"]


@pytest.mark.parametrize("path", ["/etc", "../x", "a/../../x"])
def test_paths_of_indexes_stay_inside(make_task: MakeTask, tmp_path: Path, cache: HarborCache, path: str) -> None:
    data = make_dataset(make_task, tmp_path, 1)
    (data / "task-index.json").write_text(f'{{"one": {{"task_path": "{path}"}}}}')
    with pytest.raises(ConfigError, match="must stay inside the dataset"):
        fetch(options(), tmp_path, cache)


@pytest.mark.parametrize(
    ("more", "told"),
    [
        ({"tasks": "l.json"}, "l.json: is not JSON: Expecting value"),
        ({"tasks": "l.toml"}, "l.toml: is not TOML: "),
    ],
)
def test_lists_of_another_form(make_task: MakeTask, tmp_path: Path, cache: HarborCache, more: dict[str, Any], told: str) -> None:
    make_task("t", root=tmp_path / "data")
    for name in ("l.json", "l.toml", "l.yaml"):
        (tmp_path / name).write_text("train: [t]\n")
    with pytest.raises(ConfigError) as caught:
        fetch(options(**more), tmp_path, cache)
    assert told in str(caught.value)
    assert "tasks takes TOML from a file whose name ends in .toml, else JSON" in str(caught.value)
    with pytest.raises(ConfigError, match=r"l\.yaml: is not JSON: .* \(splits takes TOML from a file whose name"):
        split_lock(fetch(options(), tmp_path, cache).lock, options(splits="l.yaml"), tmp_path)


@pytest.mark.parametrize("option", ["tasks", "splits"])
@pytest.mark.parametrize(
    ("suffix", "text"), [("json", '{"train": ["t"], "train": ["u"]}'), ("toml", 'train = ["t"]\ntrain = ["u"]\n')]
)
def test_a_list_file_with_a_key_twice(
    make_task: MakeTask, tmp_path: Path, cache: HarborCache, option: str, suffix: str, text: str
) -> None:
    """The ids of the first would be lost."""
    for name in ("t", "u"):
        make_task(name, root=tmp_path / "data")
    (tmp_path / f"l.{suffix}").write_text(text)
    wanted = options(**{option: f"l.{suffix}"})
    with pytest.raises(ConfigError, match=rf"l\.{suffix}: is not {suffix.upper()}: .*(the key 'train' is given twice|overwrite)"):
        split_lock(fetch(wanted, tmp_path, cache).lock, wanted, tmp_path)


def test_split_manifests(make_task: MakeTask, tmp_path: Path, cache: HarborCache) -> None:
    make_dataset(make_task, tmp_path, 2)
    make_task("bad", {"instruction.md": None}, tmp_path / "data")
    lock = fetch(options(), tmp_path, cache).lock
    (tmp_path / "splits.toml").write_text('train = ["task-1"]\neval = ["task-0"]\n')
    splits = split_lock(lock, options(splits="splits.toml"), tmp_path)
    assert splits.ids("eval") == ("task-0",)
    with pytest.raises(ConfigError, match="known here: eval, train"):
        splits.ids("test")
    assert split_lock(lock, options(), tmp_path).ids("anything") == ("task-0", "task-1")
    (tmp_path / "splits.json").write_text('{"train": ["task-9", "bad"]}')
    with pytest.raises(ConfigError) as caught:
        split_lock(lock, options(splits="splits.json"), tmp_path)
    assert len(caught.value.problems) == 2
