"""Values of options that do not parse: a wrong command line, whichever command it is."""

from __future__ import annotations

import pytest

from platoon import exits
from platoon.cli.main import main

pytestmark = pytest.mark.unit


@pytest.mark.parametrize(
    "line",
    [
        "images owners image.tar --platform /",
        "images owners image.tar --platform linux",
        "images owners image.tar --platform linux/arm/v7/x",
        "harbor plan task --refuse gpus",
        "harbor plan task --refuse gpus=[",
        "harbor plan task --refuse gpus=3",
        "harbor plan task --refuse nothing=true",
        "harbor plan task --index field",
        "harbor fetch config.yaml --workers 0",
        "sandbox reap run --option key",
        "rollout config.yaml --task task --seed one",
        "eval config.yaml --name Name",
        "eval config.yaml --time-budget soon",
        "train config.yaml --run eval-name",
        "train config.yaml --time-budget 0m",
        "local serve --port 65536",
        "local serve --threads none",
        "local serve --session-timeout-s 1",
    ],
)
def test_it_is_usage(line: str, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = line.split()
    with pytest.raises(SystemExit) as stop:
        main(arguments)
    option = arguments[-2]
    error = capsys.readouterr().err
    assert stop.value.code == exits.USAGE
    assert f"Error: Invalid value for '{option}'" in error or f"Error: Invalid value for {option}" in error
