"""From a folder of inputs to environments whose tasks can be read."""

from __future__ import annotations

import asyncio
import io
import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

import platoon.harness
from platoon import exits
from platoon.artifacts.row_log import append_json_line
from platoon.cli.train import _inputs as train_inputs
from platoon.errors import ConfigError, IdentityError, NotPreparedError
from platoon.host.console import Console
from platoon.pipeline.entries import entry_tasks
from platoon.pipeline.inputs import build_inputs, read_inputs
from platoon.pipeline.sources import read_sources
from platoon.site import Site
from platoon.train.config_defs.run import RunConfig
from platoon.train.launch import TrainRequest, _identity, train
from platoon.train.run_directory.identity import write_identity
from platoon.train.trainer.build import build_trainer

pytestmark = pytest.mark.unit


@pytest.mark.parametrize("manifest", [False, True])
def test_tasks_of_a_locked_dataset_come_from_the_cache(
    make_recipe: Callable[..., Path], tmp_path: Path, site: Site, console: Console, manifest: bool
) -> None:
    root = make_recipe()
    if manifest:
        (root / "splits.toml").write_text('train = ["t0", "t2", "t4", "t5"]\neval = ["t1", "t3"]\n')
        text = (root / "configs/rl.yaml").read_text()
        (root / "configs/rl.yaml").write_text(text.replace("holdout: {fraction: 0.3, group_by: family}", "splits: ../splits.toml"))
    inputs = build_inputs(root / "configs/rl.yaml", tmp_path / "inputs", site, console)
    config = RunConfig.model_validate_json(json.dumps(inputs.values))
    # Neither the dataset nor the manifest of splits is read again.
    (root / "data").rename(tmp_path / "gone")
    (root / "splits.toml").unlink(missing_ok=True)

    async def instructions() -> dict[str, str | None]:
        found = {}
        for split in ("train", "eval"):
            (entry,) = await entry_tasks(inputs, config.environments, split, root / "configs")
            found.update({name: (await entry.service.get_task(name)).goal for name in entry.tasks})
        return found

    assert asyncio.run(instructions()) == {f"t{number}": f"Do {number}.\n" for number in range(6)}


@pytest.fixture
def own_spec(make_recipe: Callable[..., Path]) -> Path:
    """The recipe with a harness spec of its own; the spec's path."""
    root = make_recipe()
    shutil.copytree(Path(platoon.harness.__file__).parent / "builtin/platoon_bash", root / "h", ignore=lambda *_: ["__pycache__"])
    path = root / "configs/rl.yaml"
    path.write_text(path.read_text().replace("harness: platoon-bash", "harness: ../h/harness.toml"))
    return root / "h/harness.toml"


ROW = {
    "name": "000001",
    "batch": 1,
    "state_path": "tinker://run/weights/000001",
    "sampler_path": "tinker://run/sampler_weights/000001",
    "rows_digest": "sha256:0",
}
SPEC_CHANGES = {
    "argv": ("harness.toml", "python3", "python3.11", "inputs.harness.tasks.launch.argv.2"),
    "comment": ("harness.toml", "name =", "# say\nname =", None),
    "asset": ("platoon_bash.py", "import json", "import json  # another", "inputs.harness.tasks.launch.assets."),
}


@pytest.mark.parametrize("change", SPEC_CHANGES)
def test_what_a_harness_spec_says_is_part_of_the_run(
    change: str, own_spec: Path, tmp_path: Path, site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("platoon.train.launch._start", lambda *_, **__: pytest.fail("nothing may start"))
    monkeypatch.setattr("platoon.train.launch._write_receipt", lambda *_, **__: True)
    config = own_spec.parent.parent / "configs/rl.yaml"

    def start() -> int:
        with Console(stream=io.StringIO()) as console:
            request = TrainRequest("main", tmp_path / "runs/main", tmp_path, train_inputs(config, (), None, site, console))
            if not request.run_dir.exists():
                write_identity(request.run_dir, _identity(request, build_trainer(request.inputs), None))
                append_json_line(request.run_dir / "checkpoints.jsonl", ROW)
            return train(request, console)

    assert start() == exits.DONE
    name, old, new, key = SPEC_CHANGES[change]
    file = own_spec.parent / name
    before = file.read_text()
    assert old in before
    file.write_text(before.replace(old, new, 1))
    if key is None:
        assert start() == exits.DONE
    else:
        files = sorted((tmp_path / "runs").rglob("*"))
        with pytest.raises(IdentityError) as refusal:
            start()
        assert refusal.value.exit_code == exits.CONFIG
        assert any(problem.key.startswith(key) for problem in refusal.value.problems), str(refusal.value)
        assert sorted((tmp_path / "runs").rglob("*")) == files
        file.write_text(before)
        assert start() == exits.DONE


@pytest.mark.parametrize("served", ["dataset", "dataset_dir"])
def test_only_tasks_that_are_trained_on_are_part_of_the_run(
    make_recipe: Callable[..., Path], site: Site, console: Console, served: str
) -> None:
    root = make_recipe()
    config = root / "configs/rl.yaml"
    text = config.read_text().replace("    index: [{metadata: [family]}]\n    holdout: {fraction: 0.3, group_by: family}\n", "")
    (root / "splits.toml").write_text('train = ["t0", "t2"]\neval = ["t1", "t3", "t4", "t5"]\n')
    config.write_text(text.replace("dataset:", f"{served}:") + "    splits: ../splits.toml\n")

    def tasks() -> dict[str, str]:
        return dict(train_inputs(config, (), None, site, console).tasks["tasks"])

    before = tasks()
    assert list(before) == ["t0", "t2"]
    (root / "data/tasks/t1/instruction.md").write_text("Do another thing.\n")
    assert tasks() == before
    (root / "data/tasks/t2/instruction.md").write_text("Do another thing.\n")
    assert {name for name, digest in tasks().items() if digest != before[name]} == {"t2"}


def test_inputs_name_what_a_harness_spec_said_when_they_were_made(
    own_spec: Path, tmp_path: Path, site: Site, console: Console
) -> None:
    root = own_spec.parent.parent
    config = root / "configs/rl.yaml"
    made = build_inputs(config, tmp_path / "inputs", site, console)
    [locked] = json.loads((tmp_path / "inputs/datasets.lock.json").read_text())["harnesses"]
    assert locked["environment"] == "tasks" and locked["digest"].startswith("sha256:")
    assert read_inputs(tmp_path / "inputs", site, root / "configs").digests == made.digests
    # The workflow asks for the lock again when one of these changed.
    assert {str(own_spec), str(own_spec.parent / "platoon_bash.py")} <= set(read_sources(config).data)
    own_spec.write_text(own_spec.read_text().replace("python3", "python3.11"))
    with pytest.raises(NotPreparedError, match=r"environment tasks: its harness spec says something else .*platoon prepare"):
        read_inputs(tmp_path / "inputs", site, root / "configs")
    assert build_inputs(config, tmp_path / "again", site, console).digests != made.digests


def test_inputs_of_a_named_harness_name_none(
    make_recipe: Callable[..., Path], tmp_path: Path, site: Site, console: Console
) -> None:
    build_inputs(make_recipe() / "configs/rl.yaml", tmp_path / "inputs", site, console)
    assert set(json.loads((tmp_path / "inputs/datasets.lock.json").read_text())) == {"rule", "harbor", "chat"}


def test_a_harness_is_checked_and_its_spec_found_before_anything_is_played(
    make_recipe: Callable[..., Path], tmp_path: Path, site: Site, console: Console
) -> None:
    root = make_recipe()
    shutil.copytree(Path(platoon.harness.__file__).parent / "builtin/platoon_bash", root / "h")
    path = root / "configs/rl.yaml"
    path.write_text(path.read_text().replace("harness: platoon-bash", "harness: ../h/harness.toml"))
    inputs = build_inputs(path, tmp_path / "inputs", site, console)
    config = RunConfig.model_validate_json(json.dumps(inputs.values))
    (entry,) = asyncio.run(entry_tasks(inputs, config.environments, "train", root / "configs"))
    assert entry.config.harness is not None
    assert Path(entry.config.harness).samefile(root / "h/harness.toml")
    (root / "h/harness.toml").unlink()
    with pytest.raises(ConfigError, match=r"environments\.0\.harness"):
        asyncio.run(entry_tasks(inputs, config.environments, "train", root / "configs"))


@pytest.mark.parametrize("excludes", [False, True])
def test_a_split_without_a_task_is_refused_with_its_cause(
    make_recipe: Callable[..., Path], tmp_path: Path, site: Site, console: Console, excludes: bool
) -> None:
    root = make_recipe()
    for file in root.glob("data/tasks/*/environment/n.txt"):
        file.write_text("the same\n")
    path = root / "configs/rl.yaml"
    text = path.read_text().replace("holdout: {fraction: 0.3, group_by: family}", "splits: ../splits.json") if excludes else ""
    (root / "splits.json").write_text('{"eval": ["t1"]}')
    path.write_text((text + "  exclude_tasks: [t1]\n") if excludes else path.read_text())
    inputs = build_inputs(path, tmp_path / "inputs", site, console)
    config = RunConfig.model_validate_json(json.dumps(inputs.values))
    with pytest.raises(ConfigError) as caught:
        asyncio.run(entry_tasks(inputs, config.environments, "eval", root / "configs"))
    (problem,) = caught.value.problems
    shared = "3 of the 3 groups share a file (environment/n.txt) and are held out together or not at all"
    where = "environments.0.exclude_tasks" if excludes else "environments.0.service_kwargs.holdout.ignore_inputs"
    why = " but those that are excluded" if excludes else f": {shared}"
    assert (problem.key, problem.rule) == (where, f"split 'eval' lists no task{why}")
    warning = f"warning: tasks: no task is left to eval: {shared}"
    assert (warning in (tmp_path / "console.txt").read_text()) != excludes
