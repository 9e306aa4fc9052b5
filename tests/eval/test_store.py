"""The output directory of an evaluation."""

from __future__ import annotations

from pathlib import Path

import pytest

from platoon.errors import ConfigError
from platoon.eval.store import EvaluationStore

pytestmark = pytest.mark.unit


def test_elapsed_time_is_that_of_all_starts_and_a_torn_one_is_none(tmp_path: Path) -> None:
    store = EvaluationStore(tmp_path, {})
    store.add_elapsed(1.5)
    store.add_elapsed(2.0)
    with (tmp_path / "starts.jsonl").open("a") as file:
        file.write('{"sec')
    assert store.elapsed_s() == 3.5


@pytest.mark.parametrize("row", ["[]", "{}", '{"seconds": "x"}', '{"seconds": -1}', '{"seconds": NaN}', '{"seconds": 1e300}'])
def test_a_start_that_is_none_is_refused_by_its_line(row: str, tmp_path: Path) -> None:
    (tmp_path / "starts.jsonl").write_text(f'{{"seconds": 1}}\n{row}\n')
    with pytest.raises(ConfigError, match=r"starts\.jsonl:2: .*delete the line"):
        EvaluationStore(tmp_path, {}).elapsed_s()
