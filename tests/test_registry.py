"""Names of what a configuration can choose."""

from __future__ import annotations

from pathlib import Path

import pytest

from platoon import registry
from platoon.errors import ConfigError

pytestmark = pytest.mark.unit

BUILT_IN = {"ordered": "collections:OrderedDict"}


def test_a_built_in_name_and_code_of_ones_own() -> None:
    from collections import Counter, OrderedDict

    assert registry.find("table", "ordered", BUILT_IN, key="table") is OrderedDict
    assert registry.find("table", "collections:Counter", BUILT_IN, key="table") is Counter


def test_a_name_that_is_none_is_told_with_the_nearest_one() -> None:
    with pytest.raises(ConfigError, match=r"(?s)no table is called 'orderd'; there is: ordered.*did you mean ordered\?"):
        registry.find("table", "orderd", BUILT_IN, key="table")


@pytest.mark.parametrize("name", ["x" * 5000, "module:" + "x" * 5000])
def test_a_name_that_is_far_too_long_is_not_repeated(name: str) -> None:
    with pytest.raises(ConfigError, match=r"table: no table has a name of 50\d\d characters: 200 are the most$"):
        registry.find("table", name, BUILT_IN, key="table")
    with pytest.raises(ConfigError, match="200 are the most"):
        registry.load("table", name, key="table")


@pytest.mark.parametrize("reference", ["collections:Missing", "no_such_module:x", "collections:", ":x", "a b:c", "broken_module:x"])
def test_code_that_does_not_import_is_a_configuration_error(
    reference: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "broken_module.py").write_text("raise RuntimeError('at import')\n")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ConfigError, match="does not import"):
        registry.find("table", reference, BUILT_IN, key="table")
