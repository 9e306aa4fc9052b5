"""From a folder of inputs to environments whose tasks can be read."""

from __future__ import annotations

import asyncio
import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

import platoon.harness
from platoon.errors import ConfigError
from platoon.host.console import Console
from platoon.pipeline.entries import entry_tasks
from platoon.pipeline.inputs import build_inputs
from platoon.site import Site
from platoon.train.config_defs.run import RunConfig

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
