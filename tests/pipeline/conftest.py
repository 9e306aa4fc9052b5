"""A small recipe: a warm start on conversations and a run on a Harbor dataset, in a folder of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from platoon.cli.main import main
from platoon.host.console import Console
from platoon.site import Site

MakeRecipe = Callable[..., Path]

RECIPE = "runs:\n  warm: {config: configs/sft.yaml}\n  main: {config: configs/rl.yaml, from: warm}\n"
BASE = "train: {model_name: local/small, renderer_name: chat_template, max_training_steps: 3}\ntinker_base_url: local\n"
SFT = "extends: base.yaml\ntrainer: sft\ntrainer_options: {data: ../data/chat.jsonl}\n"
RL = """
extends: base.yaml
train: {batch_size: 2, workflow_config: {group_size: 4}}
environments:
- name: tasks
  service: harbor
  harness: platoon-bash
  service_kwargs:
    dataset: ../data/tasks
    provider: process
    index: [{metadata: [family]}]
    holdout: {fraction: 0.3, group_by: family}
"""


@pytest.fixture
def make_recipe(tmp_path: Path) -> MakeRecipe:
    """Writes the recipe's folder, or another one beside it, and returns it."""

    def make(place: str = "clone") -> Path:
        root = tmp_path / place / "recipe"
        files = {
            "recipe.yaml": RECIPE,
            "configs/base.yaml": BASE,
            "configs/sft.yaml": SFT,
            "configs/rl.yaml": RL,
            "data/chat.jsonl": '{"messages": [{"role": "user", "content": "hé"}, {"role": "assistant", "content": "yo"}]}\n',
        }
        for number in range(6):
            task = f"data/tasks/t{number}"
            files[f"{task}/task.toml"] = f'[metadata]\nfamily = "f{number // 2}"\n'
            files[f"{task}/instruction.md"] = f"Do {number}.\n"
            files[f"{task}/environment/n.txt"] = f"{number}\n"
            files[f"{task}/tests/test.sh"] = "#!/bin/bash\ntrue\n"
        for name, text in files.items():
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            (root / name).write_text(text, encoding="utf-8")
        return root

    return make


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(cache=tmp_path / "cache")


@pytest.fixture
def console(tmp_path: Path) -> Iterator[Console]:
    with (tmp_path / "console.txt").open("w") as stream, Console(stream=stream) as console:
        yield console


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, str]]:
    """Runs a command of the command line; exit code and everything it told."""
    (tmp_path / "site.yaml").write_text("cache: cache\n")
    monkeypatch.setenv("PLATOON_SITE", str(tmp_path / "site.yaml"))
    monkeypatch.chdir(tmp_path)

    def call(*arguments: object) -> tuple[int, str]:
        with pytest.raises(SystemExit) as stop:
            main([str(argument) for argument in arguments])
        captured = capsys.readouterr()
        assert isinstance(stop.value.code, int)
        return stop.value.code, captured.out + captured.err

    return call
