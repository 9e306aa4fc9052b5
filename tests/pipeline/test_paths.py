"""Every path a configuration can hold: what is not there, of another kind, or can be no path is refused by its key."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from platoon.config.files import named_path
from platoon.errors import ConfigError
from platoon.pipeline.recipe import open_recipe
from platoon.pipeline.resolve import resolve
from platoon.pipeline.sources import read_sources
from platoon.site import Site

pytestmark = pytest.mark.unit

LONG, DEEP, NOBODY = "x" * 5000, "y/" * 3000, "~no-such-user/x"
FILE, DIRECTORY, PIPE, LOOP = "file.toml", "directory.toml", "pipe.toml", "loop.toml"
BASE: dict[str, Any] = {
    "train": {"model_name": "local/small", "renderer_name": "chat_template", "max_training_steps": 1, "batch_size": 1},
    "tinker_base_url": "local",
}
OF_DIRECTORIES = ("dataset", "dataset_dir", "task_dirs", "overlays", "repo")
OF_FILES = ("data", "harness", "tasks", "splits", "lock", "registry", "extends")


def config_of(key: str, path: str) -> dict[str, Any]:
    """A configuration in which `key` names `path`."""
    entry: dict[str, Any] = {"service": "harbor", "harness": "platoon-bash", "service_kwargs": {"dataset": "tasks"}}
    options = entry["service_kwargs"]
    if key == "extends":
        return {"extends": path, **BASE}
    if key == "data":
        return {**BASE, "trainer": "sft", "trainer_options": {"data": path}}
    if key == "harness":
        entry["harness"] = path
    elif key == "repo":
        entry["service_kwargs"] = {"adapter": {"repo": path, "commit": "0" * 40, "command": ["make"]}}
    elif key == "registry":
        entry["service_kwargs"] = {"dataset": "harbor://a@1", "registry": path}
    elif key in ("dataset_dir", "task_dirs"):
        entry["service_kwargs"] = {key: [path] if key == "task_dirs" else path}
    else:
        options[key] = [path] if key == "overlays" else path
    return {**BASE, "environments": [entry]}


def refusal(root: Path, key: str, path: str) -> str:
    """What a configuration is refused with; the workflow, which reads what it names, says nothing of it."""
    config = root / "c.yaml"
    config.write_text(json.dumps(config_of(key, path)))
    before = sorted(root.rglob("*"))
    read_sources(config)
    with pytest.raises(ConfigError) as refused:
        resolve(config, Site(cache=root / "cache", provider="process"))
    assert sorted(root.rglob("*")) == before
    text = str(refused.value)
    assert len(text) < 1200 and "\x1b" not in text, text
    return text


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / FILE).write_text("a text of the user's\n")
    (tmp_path / DIRECTORY).mkdir()
    os.mkfifo(tmp_path / PIPE)
    (tmp_path / LOOP).symlink_to(LOOP)
    (tmp_path / "tasks").mkdir()
    return tmp_path


@pytest.mark.parametrize("path", [LONG, DEEP, LOOP], ids=["long", "deep", "loop"])
@pytest.mark.parametrize("key", OF_DIRECTORIES + OF_FILES)
def test_what_can_be_no_path(key: str, path: str, root: Path) -> None:
    text = refusal(root, key, f"{path}.toml" if key == "harness" and path != LOOP else path)
    assert "cannot be read" in text


@pytest.mark.parametrize("key", [key for key in OF_DIRECTORIES + OF_FILES if key != "lock"])
def test_a_home_of_nobody(key: str, root: Path) -> None:
    text = refusal(root, key, f"{NOBODY}.toml")
    assert f"{NOBODY}.toml" in text and "o such file or directory" in text


@pytest.mark.parametrize("key", OF_DIRECTORIES)
def test_a_file_or_a_pipe_where_a_directory_is_wanted(key: str, root: Path) -> None:
    for name in (FILE, PIPE):
        assert f"is no directory: {name}" in refusal(root, key, name)


@pytest.mark.parametrize("key", OF_FILES)
def test_a_directory_or_a_pipe_where_a_file_is_wanted(key: str, root: Path) -> None:
    for name in (DIRECTORY, PIPE):
        text = refusal(root, key, name)
        assert "is no regular file" in text or "is a directory" in text.lower()


def test_a_lock_takes_the_place_of_no_other_file(root: Path) -> None:
    told = f"service_kwargs.lock: is no lock, and would be overwritten: {FILE} (move it away, or name another file)"
    assert told in refusal(root, "lock", FILE)
    assert (root / FILE).read_text() == "a text of the user's\n"


@pytest.mark.parametrize(
    ("path", "fault"),
    [
        pytest.param(LONG, "cannot be read (File name too long)", id="long"),
        pytest.param(DEEP, "cannot be read (File name too long)", id="deep"),
        pytest.param(NOBODY, "no such file", id="nobody"),
        pytest.param(DIRECTORY, "is a folder", id="directory"),
        pytest.param(PIPE, "is no regular file", id="pipe"),
    ],
)
def test_configurations_and_recipes_that_are_no_files(path: str, fault: str, root: Path) -> None:
    recipe = root / "recipe.yaml"
    recipe.write_text(json.dumps({"runs": {"a": {"config": path}}}))
    for named, told in ((recipe, f"runs.a.config: {fault}: "), (root / path, "")):
        with pytest.raises(ConfigError) as refused:
            open_recipe(named)
        assert told in str(refused.value) and len(str(refused.value)) < 1200


def test_a_configuration_that_cannot_be_read_is_refused_before_any_rule(root: Path) -> None:
    """With every other one of the recipe, each fault once."""
    recipe = root / "recipe.yaml"
    recipe.write_text("runs: {a: {config: a.yaml}, b: {config: b.yaml}, c: {config: b.yaml}, d: {config: d.yaml}}\n")
    (root / "a.yaml").write_text("train: {\n")
    (root / "b.yaml").write_text("extends: gone.yaml\ntrain: {}\n")
    (root / "d.yaml").write_text("trian: {}\n")
    with pytest.raises(ConfigError) as refused:
        open_recipe(recipe)
    told = [str(problem) for problem in refused.value.problems]
    assert len(told) == 3
    assert told[0].startswith(f"{root}/a.yaml:2: is not YAML 1.2")
    assert told[1] == f"{root}/gone.yaml: cannot be read: No such file or directory ({root}/b.yaml extends it)"
    assert told[2].startswith(f"{recipe}: runs.d.config: {root}/d.yaml: is neither a training configuration")


def test_homes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/somebody")
    assert named_path("~/x", Path("base")) == Path("/home/somebody/x")
    assert named_path(NOBODY, Path("base")) == Path("base") / NOBODY
    assert named_path("x", Path("base")) == Path("base/x")
