"""The command's own work: durations, the directory of a run, refusals by exit code."""

from __future__ import annotations

from pathlib import Path

import click
import pytest

from platoon.cli.main import main
from platoon.cli.train import Duration, _run_directory
from platoon.errors import ConfigError
from platoon.site import Site

pytestmark = pytest.mark.unit


@pytest.mark.parametrize(("text", "seconds"), [("720m", 43200), ("12h", 43200), ("90s", 90), ("5", 300), ("0.5h", 1800)])
def test_durations(text: str, seconds: float) -> None:
    assert Duration().convert(text, None, None) == seconds


@pytest.mark.parametrize("text", ["", "0m", "-5m", "soon", "5 weeks"])
def test_no_durations(text: str) -> None:
    with pytest.raises(click.BadParameter):
        Duration().convert(text, None, None)


def test_where_a_run_lies(tmp_path: Path) -> None:
    config = tmp_path / "rl.yaml"
    config.write_text("train: {}\n")
    site, bare = Site(cache=tmp_path, runs=tmp_path / "runs"), Site(cache=tmp_path)
    assert _run_directory(config, (), "main", None, site) == (tmp_path / "runs" / "main", tmp_path / "runs")
    assert _run_directory(config, (), "main", tmp_path / "own", site) == (tmp_path / "own", tmp_path)
    assert _run_directory(config, (), None, None, site) == (tmp_path / "runs" / "rl" / "run", tmp_path / "runs")
    named = (f"log_path={tmp_path}/logs", "stats.trial_name=7th")
    assert _run_directory(config, named, None, None, site) == (tmp_path / "logs" / "rl" / "7th", tmp_path / "logs")
    with pytest.raises(ConfigError, match="log_path: nothing says where runs go"):
        _run_directory(config, (), "main", None, bare)


def test_runs_of_any_name_share_the_checkpoints_that_evaluations_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    config = tmp_path / "rl.yaml"
    config.write_text("train: {}\n")
    site = Site(cache=tmp_path, runs=tmp_path / "runs")
    for name, run_dir in (("main", None), (None, None), (None, tmp_path / "elsewhere" / "own")):
        _, runs = _run_directory(config, (), name, run_dir, site)
        assert site.state_dir(runs) == site.state_dir() == tmp_path / "runs" / ".tinker"
    bare = Site(cache=tmp_path)
    _, runs = _run_directory(config, ("log_path=runs",), None, None, bare)
    assert bare.state_dir(runs) == bare.state_dir() == tmp_path / "runs" / ".tinker"


def test_a_faulty_configuration_exits_78_and_writes_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config = tmp_path / "sft.yaml"
    config.write_text("train: {model_name: x, renderer_name: y, batch_sise: 3}\ntrainer: 7\n")
    site = tmp_path / "site.yaml"
    site.write_text("runs: runs\ncache: cache\n")
    with pytest.raises(SystemExit) as end:
        main(["train", str(config), "--site", str(site)])
    text = capsys.readouterr().err
    assert end.value.code == 78
    assert "train.batch_sise" in text and "batch_size" in text and "trainer" in text
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize("name", ["../x", ".tinker", "", "a\nb", "a\n", "eval-x", "Main", "a/b"])
@pytest.mark.parametrize("command", [["train", "--run"], ["eval", "--name"]])
def test_a_name_that_is_none_is_a_fault_of_usage(command: list[str], name: str, capsys: pytest.CaptureFixture[str]) -> None:
    if command[0] == "eval" and name == "eval-x":
        name = "-x"
    with pytest.raises(SystemExit) as end:
        main([command[0], "x.yaml", f"{command[1]}={name}"])
    assert end.value.code == 64
    assert "is no name" in capsys.readouterr().err
