"""The site file: which one is read, what it may say, what its paths are relative to."""

from __future__ import annotations

from pathlib import Path

import pytest

from platoon.errors import ConfigError
from platoon.site import load_site

pytestmark = pytest.mark.unit


@pytest.fixture(autouse=True)
def _no_users_file(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    for name in ("PLATOON_SITE", "PLATOON_HARBOR_CACHE", "PLATOON_TOOLCHAINS"):
        monkeypatch.delenv(name, raising=False)


def write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def test_defaults_without_a_file() -> None:
    site = load_site()
    assert (site.file, site.runs, site.provider) == (None, None, None)
    assert site.cache == Path("~/.cache/platoon").expanduser()


def test_the_option_wins_over_the_variable_over_the_users_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path / "config/platoon/site.yaml", "cache: users\n")
    assert load_site().cache == tmp_path / "config/platoon/users"
    monkeypatch.setenv("PLATOON_SITE", str(write(tmp_path / "b.yaml", "cache: variable\n")))
    assert load_site().cache == tmp_path / "variable"
    assert load_site(write(tmp_path / "c/site.yaml", "cache: ../option\n")).cache == tmp_path / "option"


def test_paths_expand(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BIG", "/scratch/me")
    site = load_site(
        write(tmp_path / "s.yaml", "cache: ${BIG}/cache\nruns: $BIG/runs\nprovider: docker\nprovider_options: {gpu: true}\n")
    )
    assert site.cache == Path("/scratch/me/cache")
    assert site.runs == Path("/scratch/me/runs")
    assert site.provider_options == {"gpu": True}


def test_refusals_come_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NOT_SET", raising=False)
    path = write(tmp_path / "s.yaml", "cache: $NOT_SET/x\nprovider_options: {gpu: true}\n")
    with pytest.raises(ConfigError) as caught:
        load_site(path)
    assert [problem.key for problem in caught.value.problems] == ["cache", "provider_options"]
    with pytest.raises(ConfigError, match="did you mean cache"):
        load_site(write(tmp_path / "t.yaml", "cahce: x\n"))
    with pytest.raises(ConfigError, match="is no site file: no such file or directory"):
        load_site(tmp_path / "none.yaml")


def test_removed_variables_refuse(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PLATOON_TOOLCHAINS", "/x")
    with pytest.raises(ConfigError, match="PLATOON_TOOLCHAINS: was removed"):
        load_site()
