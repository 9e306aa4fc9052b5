"""An import that is begun early is the import everybody gets, and its failure is told where the module is needed."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

import pytest

from platoon.host.imports import begin_import
from tests.processes import wait_for

pytestmark = pytest.mark.unit


def test_a_module_is_imported_once_and_a_failure_comes_where_it_is_needed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "slow_module.py").write_text(
        "import time\nfrom pathlib import Path\n"
        "with (Path(__file__).parent / 'imports').open('a') as file:\n    file.write('once ')\ntime.sleep(0.1)\nvalue = 1\n"
    )
    (tmp_path / "broken_module.py").write_text("raise ImportError('broken')\n")
    begin_import("broken_module")
    begin_import("slow_module")
    wait_for(lambda: "slow_module" in sys.modules)
    assert importlib.import_module("slow_module").value == 1
    assert (tmp_path / "imports").read_text() == "once "
    with pytest.raises(ImportError, match="broken"):
        importlib.import_module("broken_module")
