"""Options of a Harbor entry: what belongs together, what is refused and with which hint."""

from __future__ import annotations

from typing import Any

import pytest

from platoon.envs.harbor.options import HarborOptions, Refuse
from platoon.errors import ConfigError

pytestmark = pytest.mark.unit


def test_defaults() -> None:
    options = HarborOptions.parse({"dataset": "data/tasks"})
    assert (options.workdir, options.tool_timeout_s, options.agent_user, options.refuse.effective_sidecars) == (
        "/app",
        300,
        "refuse",
        False,
    )
    assert HarborOptions.parse({"dataset": "d", "refuse": {"stack": "sidecars"}}).refuse.effective_sidecars


@pytest.mark.parametrize(
    ("value", "texts"),
    [
        ({}, ["c.yaml: e.dataset: is required: what the entry serves"]),
        ({"dataset": "d", "dataset_dir": "e"}, ["e.dataset_dir: excludes dataset"]),
        (
            {"task_dirs": ["x"], "select": {"a": 1}, "holdout": {"fraction": 0.5, "group_by": "g"}},
            ["e.select: needs dataset or adapter", "e.holdout: needs dataset, adapter or lock"],
        ),
        ({"dataset": "s3://org/name"}, ["e.dataset: is of no known kind, s3:"]),
        ({"dataset": "git+https://x/y@z#../p"}, ["e.dataset: a path in a repository has no '..'"]),
        ({"dataset": "a\nb"}, ["must be a path or a reference"]),
        ({"dataset": "d", "lock": "https://x/y"}, ["e.lock: must be a path"]),
        ({"dataset": "d", "tasks": ""}, ['e.tasks: must be a path, got ""']),
        (
            {"dataset": "d", "tasks": ["a", ""], "overlays": [""], "index": ["", {"path": ""}]},
            ['e.tasks.1: must be a path, got ""', "e.overlays.0: must be a path", "e.index.0: must be", "e.index.1: must be"],
        ),
        ({"dataset": "d", "splits": ""}, ['e.splits: must be a path, got ""']),
        ({"task_dirs": [""]}, ['e.task_dirs.0: must be a path, got ""']),
        (
            {"dataset": "d", "holdout": {"fraction": 0.5, "group_by": []}},
            ["e.holdout.group_by: must be text or must be a list of at least 1 item, got []"],
        ),
        (
            {"dataset": "d", "holdout": {"fraction": 0.5, "group_by": "g", "stratify_by": ""}},
            ['e.holdout.stratify_by: must be text of at least 1 character, got ""'],
        ),
        ({"dataset": "d", "registry": "r.json"}, ["e.registry: needs a dataset harbor://name@version"]),
        (
            {"dataset_dir": "d", "lock": "l", "overlays": ["o"]},
            ["e.overlays: needs dataset or adapter", "e.lock: excludes dataset_dir"],
        ),
        ({"dataset": "d", "splits": "s", "holdout": {"fraction": 0.5, "group_by": "g"}}, ["e.holdout: excludes splits"]),
        (
            {"dataset": "d", "holdout": {"fraction": 1.5, "group_by": 3}},
            ["e.holdout.fraction: must be below 1, got 1.5", "e.holdout.group_by: must be"],
        ),
        ({"dataset": "d", "datset": "x"}, ["e.datset: unknown key (did you mean dataset?)"]),
        (
            {"dataset": "d", "adapter": {"repo": "r", "commit": "c" * 40, "command": ["x"]}},
            ["e.adapter: excludes dataset"],
        ),
        ({"dataset": "d", "image_map": "x"}, ["e.image_map: was removed (the image map is an input of the run)"]),
        ({"dataset": "d", "refuse": {"gpu": True}}, ["e.refuse.gpu: unknown key (did you mean gpus?)"]),
        (
            {"dataset": "d", "refuse": {"bogus": True}},
            [f"e.refuse.bogus: unknown key (known here: {', '.join(sorted(Refuse.model_fields))})"],
        ),
        ({"dataset": "d", "refuse": {"gpus": 1}}, ["e.refuse.gpus: must be true or false, got 1"]),
        ({"dataset": "d", "select": {"flags.os": "linux"}}, ["e.select.flags.os: selects by index fields"]),
        (
            {"dataset": "d", "index": [{"metadata": ["name", "kind"]}], "select": {"name": "a*", "index.kind": "easy"}},
            ["e.select.index.kind: comes from [metadata], which is read of tasks once they are selected (select by name, "],
        ),
        ({"dataset": "d", "network_policy": "foo"}, ["e.network_policy: must be one of task or none"]),
        ({"dataset": "d", "tool_timeout_s": 0}, ["e.tool_timeout_s: must be above 0, got 0"]),
    ],
)
def test_refusals(value: dict[str, Any], texts: list[str]) -> None:
    with pytest.raises(ConfigError) as caught:
        HarborOptions.parse(value, key="e", file="c.yaml")
    for text in texts:
        assert text in str(caught.value)
    assert len(caught.value.problems) == len(texts)
