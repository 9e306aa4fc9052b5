"""What tests of faults do with a recipe: change a text, add an evaluation, resolve and lock as the rules do."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path


def inputs(root: Path, run: Callable[..., tuple[int, str]], name: str = "rl") -> tuple[int, str]:
    """Resolve and lock, as the rules call them."""
    code, text = run("resolve", root / f"configs/{name}.yaml", "--out", "results/config.yaml")
    if code:
        return code, text
    return run("lock", "results/config.yaml", "--base", root / "configs", "--out", "results/datasets.lock.json")


def edit(path: Path, old: str, new: str) -> None:
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))


def evaluation(root: Path, **changes: object) -> Path:
    """An evaluation of the recipe's tasks, with other top-level values or other options of its entry."""
    splits = changes.pop("splits", None)
    options: dict[str, object] = {"dataset": "../data/tasks", "provider": "process"}
    if splits is None:
        options |= {"index": [{"metadata": ["family"]}], "holdout": {"fraction": 0.3, "group_by": "family"}}
    else:
        (root / "data/splits.json").write_text(json.dumps(splits))
        options["splits"] = "../data/splits.json"
    values = {
        "inference": {"model_name": "local/small", "renderer_name": "chat_template"},
        "environments": [{"service": "harbor", "harness": "platoon-bash", "service_kwargs": options}],
        "tinker_base_url": "local",
        **changes,
    }
    config = root / "configs/eval.yaml"
    config.write_text(json.dumps(values))
    return config
