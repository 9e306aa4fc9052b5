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


@pytest.mark.parametrize("text", ["", "0m", "-5m", "soon", "5 weeks", "٣h"])
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


def refused(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    """What `platoon train` says when it refuses with 78."""
    with pytest.raises(SystemExit) as end:
        main(["train", *arguments])
    text = capsys.readouterr().err
    assert end.value.code == 78, text
    return text


@pytest.mark.parametrize(
    ("place", "rule"),
    [
        ("a\nb", "characters that do not print"),
        ("a\x1b[31m", "characters that do not print"),
        ("b\udcff", "characters that do not print"),
        ("x" * 256, "longer than 1024 bytes, or 255 in one name"),
        ("/".join(["x" * 200] * 8), "longer than 1024 bytes"),
        ("file", "cannot be made"),
        ("file/below", "is no directory"),
        ("nowhere/run", "is no directory"),
        (".tinker", "lies in"),
        (".tinker/checkpoints/x", "where checkpoints of embedded services are"),
        ("held", "holds runs itself, such as main"),
        ("/", "is the root of the file system"),
    ],
)
def test_a_place_where_no_run_can_live_is_refused_and_nothing_is_made(
    place: str, rule: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").touch()
    (tmp_path / "nowhere").symlink_to("gone")
    (tmp_path / "held" / "main").mkdir(parents=True)
    (tmp_path / "held" / "main" / "identity.json").touch()
    (tmp_path / "rl.yaml").write_text("train: {}\n")
    (tmp_path / "site.yaml").write_text("cache: cache\nruns: .\n")
    before = sorted(tmp_path.rglob("*"))
    text = refused(["rl.yaml", "--site", "site.yaml", f"--run-dir={place}"], capsys)
    assert ": --run-dir: " in text and rule in text and "name a directory of the run's own" in text
    assert sorted(tmp_path.rglob("*")) == before


@pytest.mark.parametrize(("key", "site"), [("log_path", "cache: cache"), ("runs", "cache: cache\nruns: file")])
def test_a_root_of_runs_where_no_run_can_live_is_refused_by_its_key(
    key: str, site: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "rl.yaml").write_text(f"train: {{}}\nlog_path: {tmp_path}/file\n" if key == "log_path" else "train: {}\n")
    (tmp_path / "site.yaml").write_text(f"{site}\n")
    text = refused([str(tmp_path / "rl.yaml"), "--site", str(tmp_path / "site.yaml")], capsys)
    assert f"file/rl/run: {key}: cannot be made: {tmp_path}/file is no directory" in text


@pytest.mark.parametrize(
    "stats", ['{trial_name: "a/b"}', "{experiment_name: ..}", "[]", "7", '{trial_name: ["x"]}', '{experiment_name: "a\\nb"}']
)
def test_names_of_a_run_that_are_none_are_told_with_every_other_fault(
    stats: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "sft.yaml").write_text(f"train: {{model_name: x, renderer_name: y, batch_sise: 3}}\ntrainer: sft\nstats: {stats}\n")
    (tmp_path / "site.yaml").write_text("runs: runs\ncache: cache\n")
    text = refused([str(tmp_path / "sft.yaml"), "--site", str(tmp_path / "site.yaml")], capsys)
    assert "stats" in text and "train.batch_sise" in text and not (tmp_path / "runs").exists()


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


@pytest.mark.parametrize("name", ["../x", ".tinker", "x" * 65, "", "a\nb", "a\n", "eval-x", "Main", "a/b"])
@pytest.mark.parametrize("command", [["train", "--run"], ["eval", "--name"]])
def test_a_name_that_is_none_is_a_fault_of_usage(command: list[str], name: str, capsys: pytest.CaptureFixture[str]) -> None:
    if command[0] == "eval" and name == "eval-x":
        name = "-x"
    with pytest.raises(SystemExit) as end:
        main([command[0], "x.yaml", f"{command[1]}={name}"])
    assert end.value.code == 64
    assert "is no name" in capsys.readouterr().err
