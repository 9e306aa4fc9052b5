"""Datasets that mean harm: refused with file, key and rule, before any of them is read whole; nothing of the host is copied."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from platoon.envs.harbor import content
from platoon.envs.harbor.fetch import fetch
from platoon.envs.harbor.lock import HarborLock
from platoon.envs.harbor.options import HarborOptions
from platoon.envs.harbor.publish import HarborCache
from platoon.envs.harbor.sources import listing
from platoon.errors import ConfigError, PlatoonError
from tests.envs.harbor.fakes.locks import make_lock, make_row

pytestmark = pytest.mark.unit

MakeTask = Callable[..., Path]
SECRET = "of the host alone\n"


@pytest.fixture
def data(tmp_path: Path, make_task: MakeTask) -> Path:
    (tmp_path / "secret").write_text(SECRET)
    (tmp_path / "secrets").mkdir()
    (tmp_path / "secrets/task.toml").write_text(SECRET)
    make_task("good", root=tmp_path / "data")
    return tmp_path / "data"


def refused(tmp_path: Path, cache: HarborCache, **more: Any) -> str:
    """What a fetch says. Nothing of the host may be in the cache, and no lock."""
    with pytest.raises(PlatoonError) as caught:
        fetch(HarborOptions.parse({"dataset": "data", **more}), tmp_path, cache)
    assert not (cache.root / "locks").exists()
    assert not any(SECRET in path.read_text() for path in cache.root.rglob("*") if path.is_file())
    assert all(line.isprintable() for line in str(caught.value).splitlines())
    return str(caught.value)


@pytest.mark.parametrize(
    ("place", "words"),
    [
        ("task.toml", "data/bad: task.toml: a link to ../../secret leaves the task"),
        ("instruction.md", "data/bad: instruction.md: a link to ../../secret leaves the task"),
        (".gitignore", "data/bad: .gitignore: a link to ../../secret leaves the task"),
        ("environment/x", "data/bad: environment/x: a link to ../../../secret leaves the task"),
        ("tests/deep/x", "data/bad: tests/deep/x: a link to ../../../../secret leaves the task"),
        ("steps/one/x", "data/bad: steps/one/x: a link to ../../../../secret leaves the task"),
        ("solution", "data/bad: solution: a link to ../../secrets leaves the task"),
    ],
)
def test_h024_u41_links_in_every_place(
    data: Path, make_task: MakeTask, tmp_path: Path, cache: HarborCache, place: str, words: str
) -> None:
    task = make_task("bad", {place: None} if place in ("task.toml", "instruction.md") else None, data)
    path = task / place
    path.parent.mkdir(parents=True, exist_ok=True)
    target = tmp_path / ("secrets" if place == "solution" else "secret")
    path.symlink_to(os.path.relpath(target, path.parent))
    assert words in refused(tmp_path, cache)


def test_settings_that_are_no_file_hide_no_task(data: Path, make_task: MakeTask, tmp_path: Path, cache: HarborCache) -> None:
    make_task("folder", {"task.toml": None, "instruction.md": "Do another.\n"}, data).joinpath("task.toml").mkdir()
    lock = fetch(HarborOptions.parse({"dataset": "data"}), tmp_path, cache).lock
    assert lock.by_name["folder"].refused == "task_config: task.toml: is missing, or no file"
    shutil.rmtree(cache.root)
    os.mkfifo(make_task("pipe", {"task.toml": None}, data) / "task.toml")
    assert "data/pipe: task.toml: is neither file nor directory" in refused(tmp_path, cache)


def test_links_through_links(data: Path, make_task: MakeTask, tmp_path: Path, cache: HarborCache) -> None:
    task = make_task("bad", root=data)
    (task / "tests/one").symlink_to("two")
    (task / "tests/two").symlink_to("../../../secret")
    text = refused(tmp_path, cache)
    assert "tests/one: a link to two leaves the task" in text
    assert "tests/two: a link to ../../../secret leaves the task" in text


@pytest.mark.parametrize(
    ("files", "words"),
    [
        (
            {"registry.json": [{"name": "d", "tasks": [{"name": "x", "path": "../secrets"}]}]},
            "data/registry.json: ../secrets: a task's path must stay inside",
        ),
        (
            {"registry.json": [{"name": "d", "tasks": [{"name": "x", "path": "/etc"}]}]},
            "data/registry.json: /etc: a task's path must stay inside",
        ),
        ({"registry.json": [{"name": "d", "tasks": [{"name": "x", "path": "a/../../secrets"}]}]}, "must stay inside the dataset"),
        ({"registry.json": [{"name": "a\nb", "path": "x", "tasks": [{"name": "a\nb", "path": "good"}]}]}, "a task's id is UTF-8"),
        ({"registry.json": [{"name": "d", "tasks": [{"name": "x", "path": "go\0od"}]}]}, "a task's path is UTF-8 on one line"),
        ({"registry.json": [{"name": "d", "tasks": [{"name": "x", "path": "link"}]}]}, "data: task x is a link"),
        ({"registry.json": [{"name": "d", "tasks": [{"name": "x", "path": "link/inner"}]}]}, "data: task x is a link"),
        ({"registry.json": [{"name": "d", "tasks": [{"name": "x", "path": "good/task.toml"}]}]}, "is no directory"),
        ({"registry.json": [{"name": "d", "tasks": [{"name": "x", "path": "x", "git_url": "u"}]}]}, "in another repository"),
        ({"registry.json": [{"name": "d", "tasks": {}}]}, "must list datasets with their tasks"),
        ({"registry.json": [{"name": "d", "tasks": [{"name": "x", "path": "good"}] * 2}]}, "two tasks are called x"),
        ({"task-index.json": {"x": {"task_path": "../secrets"}}}, "data/task-index.json: ../secrets: a task's path must stay"),
        ({"task-index.json": {"..": {}}}, "data/task-index.json: ..: a task's id is a relative path"),
        ({"task-index.json": {"x": {"task_path": 5}}}, "data/task-index.json: x.task_path: must be text, got 5"),
        ({"task-index.json": {"x": {}}}, "data/task-index.json: task x: x is no directory of the dataset"),
        (
            {"registry.json": [{"name": "d", "tasks": [{"name": "x", "path": "nope"}]}]},
            "data/registry.json: task x: nope is no directory of the dataset",
        ),
        ({"task-index.json": ["x"]}, 'data/task-index.json: must map task ids to their fields, got ["x"]'),
        ({"task-index.json": {"x": 1, "y": {}}}, 'data/task-index.json: must map task ids to their fields, got {"x": 1}'),
        ({"registry.json": 5}, "data/registry.json: must list datasets with their tasks, got 5"),
        (
            {"registry.json": [{"tasks": [{"name": "x"}]}]},
            "data/registry.json: 0.tasks.0: a task has a name and a path, both texts, got",
        ),
    ],
)
def test_u41_paths_of_index_files(data: Path, tmp_path: Path, cache: HarborCache, files: dict[str, Any], words: str) -> None:
    (data / "link").symlink_to("../secrets")
    for name, value in files.items():
        (data / name).write_text(json.dumps(value))
    assert words in refused(tmp_path, cache)


@pytest.mark.parametrize("name", ["registry.json", "task-index.json", "more.jsonl", "task.toml"])
def test_index_files_that_are_links_out(data: Path, tmp_path: Path, cache: HarborCache, name: str) -> None:
    (data / name).symlink_to("../secret")
    more = {"index": ["more.jsonl"]} if name == "more.jsonl" else {}
    assert f"data/{name}: is a link that leaves the dataset" in refused(tmp_path, cache, **more)


@pytest.mark.parametrize(
    "text", ['{"a": {}, "a": {}}', "[" * 100_000, '{"a": NaN}', '{"a": 1e999}', "\ufeff{}x", '{"a": {"b": 1, "b": 2}}']
)
def test_json_that_is_not_what_it_seems(data: Path, tmp_path: Path, cache: HarborCache, text: str) -> None:
    (data / "task-index.json").write_text(text)
    assert "task-index.json" in refused(tmp_path, cache)


@pytest.mark.parametrize("name", ["task-index.json", "registry.json", "more.jsonl"])
def test_index_files_of_very_many_values(
    data: Path, tmp_path: Path, cache: HarborCache, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setattr(listing, "HOLDER_LIMIT", 40)
    (data / name).write_text('{"a": [' + "{},\n" * 20 + "[]," * 20 + "1]}")
    more = {"index": ["more.jsonl"]} if name == "more.jsonl" else {}
    assert f"data/{name}: holds more than 40 mappings and lists" in refused(tmp_path, cache, **more)


def test_a_task_file_of_a_gigabyte_is_not_read(
    data: Path, make_task: MakeTask, tmp_path: Path, cache: HarborCache, monkeypatch: pytest.MonkeyPatch
) -> None:
    with (make_task("bad", root=data) / "task.toml").open("ab") as file:
        file.truncate(1 << 30)
    hashed = content.read_contents

    def only_good(directory: Path) -> Any:
        assert directory.name != "bad", "it would be read whole"
        return hashed(directory)

    monkeypatch.setattr("platoon.envs.harbor.take.read_contents", only_good)
    assert "data/bad: task.toml: has 1073741824 bytes, more than 1048576" in refused(tmp_path, cache)


def test_a_dataset_that_is_one_such_task(tmp_path: Path, cache: HarborCache, make_task: MakeTask) -> None:
    with (make_task("data") / "task.toml").open("ab") as file:
        file.truncate(1 << 30)
    assert "data/task.toml: has more than" in refused(tmp_path, cache)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (".".join("a" * 20_000) + " = 1\n", "data/.: task.toml: is nested deeper than 200 levels"),
        ("[[a]]\n" * 100_000, "data/.: task.toml: has keys of more than 20000 parts in all"),
        ("#" * 1_000_000 + "\n" + "k = 1\n" * 100_000, "task.toml: has 1600001 bytes, more than 1048576"),
    ],
)
def test_a_dataset_that_is_one_task_whose_settings_cost(
    tmp_path: Path, cache: HarborCache, make_task: MakeTask, text: str, words: str
) -> None:
    """Its settings are read for its name before it is taken."""
    make_task("data", {"task.toml": text})
    try:
        (row,) = fetch(HarborOptions.parse({"dataset": "data"}), tmp_path, cache).lock.tasks
        said = f"data/{row.source_path}: {str(row.refused).removeprefix('task_config: ')}"
    except ConfigError as error:
        said = str(error)
    assert words in said


@pytest.mark.parametrize("nested", [False, True])
def test_tasks_of_very_many_files(
    data: Path, make_task: MakeTask, tmp_path: Path, cache: HarborCache, monkeypatch: pytest.MonkeyPatch, nested: bool
) -> None:
    monkeypatch.setattr(content, "FILE_LIMIT", 40)
    make_task("bad", {f"tests/{number // 10 if nested else ''}/f{number}": "" for number in range(60)}, data)
    text = refused(tmp_path, cache)
    assert "data/bad: tests: the task holds more than 40 files" in text
    assert len(text.splitlines()) == 1


# Sparse files, which take no room here and all of it where they are copied.
BULKY = {
    "one file": ({"tests/a": 11}, {}, "tests: the task holds"),
    "several": ({"environment/a": 4, "solution/b/c": 4, "tests/d": 4}, {}, "solution: the task holds"),
    "links": ({"environment/a": 4}, {"environment/b": "a", "tests/c": "../environment/a"}, "tests: the task holds"),
    "at the top": ({"trajectory.json": 11}, {}, "trajectory.json: the task holds"),
    "at the top and below": ({"README.md": 6, "environment/a": 6}, {}, "environment: the task holds"),
}


@pytest.mark.parametrize("case", BULKY)
def test_tasks_of_very_many_bytes(data: Path, make_task: MakeTask, tmp_path: Path, cache: HarborCache, case: str) -> None:
    sizes_gib, links, words = BULKY[case]
    task = make_task("bad", root=data)
    for name in (*sizes_gib, *links):
        (task / name).parent.mkdir(parents=True, exist_ok=True)
    for name, size_gib in sizes_gib.items():
        with (task / name).open("wb") as file:
            file.truncate(size_gib << 30)
    for name, target in links.items():
        (task / name).symlink_to(target)
    text = refused(tmp_path, cache)
    assert f"data/bad: {words} more than 10737418240" in text
    assert "(put large data in the image" in text
    assert len(text.splitlines()) == 1


def test_ten_gibibytes_are_a_task(make_task: MakeTask) -> None:
    task = make_task("good")
    with (task / "tests/data").open("wb") as file:
        file.truncate((10 << 30) - 4096)
    assert not list(content.tree_problems(task, "good"))


def test_trees_without_end(data: Path, make_task: MakeTask, tmp_path: Path, cache: HarborCache) -> None:
    task = make_task("bad", root=data)
    (task / "/".join(["environment", *["d"] * 120])).mkdir(parents=True)
    assert "data/bad: environment: is nested deeper than 100 directories" in refused(tmp_path, cache)


@pytest.mark.parametrize("name", [b"a\nb", b"\xff\xfe", b"a\rb"])
@pytest.mark.parametrize("where", ["file", "directory", "task"])
def test_names_that_do_not_list(
    data: Path, make_task: MakeTask, tmp_path: Path, cache: HarborCache, name: bytes, where: str
) -> None:
    text = os.fsdecode(name)
    if where == "task":
        make_task(text, root=data)
    else:
        path = make_task("bad", root=data) / "tests" / text
        path.mkdir() if where == "directory" else path.write_text("x")
    assert "UTF-8 on one line" in refused(tmp_path, cache)


@pytest.mark.parametrize("name", ["tasks", ".tmp", "locks", ".locks", "known"])
def test_u42_a_planted_link_in_the_cache(data: Path, tmp_path: Path, cache: HarborCache, name: str) -> None:
    """Nothing is written through it."""
    (tmp_path / "elsewhere").mkdir()
    cache.root.mkdir(parents=True)
    (cache.root / name).symlink_to(tmp_path / "elsewhere")
    with pytest.raises(PlatoonError, match=rf"harbor/{name}: is a link \(remove it"):
        fetch(HarborOptions.parse({"dataset": "data"}), tmp_path, cache)
    assert list((tmp_path / "elsewhere").iterdir()) == []


def test_a_cache_on_another_disk(data: Path, tmp_path: Path, cache: HarborCache) -> None:
    """The site's cache may be a link; what is below it is ours."""
    (tmp_path / "disk").mkdir()
    cache.root.parent.symlink_to(tmp_path / "disk")
    assert fetch(HarborOptions.parse({"dataset": "data"}), tmp_path, cache).copied == 1


@pytest.mark.parametrize("digest", ["sha256:../../x", "sha256:" + "A" * 64, "x", ""])
def test_locks_whose_digests_are_paths(digest: str) -> None:
    data = make_lock(make_row()).to_bytes().replace(b'"digest":"sha256:' + b"0" * 64, f'"digest":"{digest}'.encode())
    with pytest.raises(ConfigError, match="lock: task t: digest: must match"):
        HarborLock.from_bytes(data, "lock")
