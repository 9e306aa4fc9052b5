"""What a benchmark's limits say of a row, and when a run fails for one."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from bench import layers, run
from bench import measure as timing
from bench.case import Bound, Case, Peer
from bench.measure import OTHER_PROCESSOR, Row, row_of, small_limit
from bench.page import SECTIONS, page

pytestmark = pytest.mark.unit

SECTION = next(iter(SECTIONS))


def row(peer: Peer, ours_ms: float, theirs_ms: float = 10.0, *, small: bool = False, peak_mb: float = 1.0) -> Row:
    case = Case("kernel", "data", lambda: None, (peer,), peak_limit_mb=2.0)
    return row_of(case, peer, (ours_ms, ours_ms), (theirs_ms, theirs_ms), small=small, peak_mb=peak_mb)


def test_a_peer_without_a_limit_is_a_floor_by_name() -> None:
    assert Peer("floor: reading it").limit is None
    with pytest.raises(ValueError, match="a peer that is no floor has a limit"):
        Peer("numpy")


@pytest.mark.parametrize(
    ("ours_ms", "peak_mb", "holds", "bound"),
    [
        (14.0, 1.0, True, ""),
        (19.0, 1.0, False, SECTION),
        (21.0, 1.0, False, ""),
        (19.0, 3.0, False, ""),
        (14.0, 3.0, False, ""),
    ],
)
def test_a_limit_is_missed_for_a_known_reason_up_to_its_ratio(ours_ms: float, peak_mb: float, holds: bool, bound: str) -> None:
    found = row(Peer("floor: libzstd", limit=1.5, bound=Bound(SECTION, 2.0)), ours_ms, peak_mb=peak_mb)
    assert (found["holds"], found["bound"], found["limit"]) == (holds, bound, 1.5)


@pytest.mark.parametrize(("ours_ms", "code"), [(14.0, 0), (19.0, 0), (21.0, 1)])
def test_a_run_fails_for_what_nothing_explains(
    ours_ms: float, code: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    found = row(Peer("floor: libzstd", limit=1.5, bound=Bound(SECTION, 2.0)), ours_ms)

    def rows_of(name: str, *, small: bool) -> Iterator[Row]:
        yield found

    monkeypatch.setattr(run, "rows_of", rows_of)
    assert run.main(["merge"]) == code
    assert ("missed: kernel" in capsys.readouterr().err) == (not found["holds"])


def test_the_page_leads_from_a_miss_to_its_section() -> None:
    found = row(Peer("floor: libzstd", limit=1.5, bound=Bound(SECTION, 2.0)), 19.0)
    anchor = SECTION.lower().replace(" ", "-")
    assert f"| 1.90 | 1.5, **missed**: [{SECTION.lower()}](#{anchor}) |" in page([found])
    with pytest.raises(KeyError):
        page([{**found, "bound": "no section"}])


def test_a_bound_names_a_section_of_the_page() -> None:
    assert layers.SECTION in SECTIONS


def test_the_small_run_judges_each_row_by_its_own_limit() -> None:
    assert small_limit(Peer("numpy", limit=0.4, small_limit=0.5)) == 0.5 * OTHER_PROCESSOR
    assert small_limit(Peer("numpy", limit=0.4)) == 0.4 * OTHER_PROCESSOR
    assert small_limit(Peer("numpy", limit=0.4, bound=Bound(SECTION, 0.6))) == 0.6 * OTHER_PROCESSOR
    assert not row(Peer("numpy", limit=0.4, bound=Bound(SECTION, 0.6), small_limit=0.3), 4.5, small=True)["holds"]


def test_the_small_run_judges_no_ratio_of_wall_times() -> None:
    assert small_limit(Peer("one thread", limit=0.6, by="wall")) is None
    assert small_limit(Peer("the time it may take", limit=1.0, by="wall", fixed_ms=50.0)) == 1.0


def test_the_small_run_takes_more_turns_before_a_miss_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(timing, "MEASURED_S", 0.0)
    calls: list[None] = []

    def holds(limit: float, *, small: bool) -> tuple[bool, int]:
        calls.clear()
        peer = Peer("numpy", lambda: None, limit)
        found = timing.measure(Case("kernel", "data", lambda: calls.append(None), (peer,)), small=small, peak_mb=1.0)
        return found[0]["holds"], len(calls)

    once = 2 + timing.ROUNDS
    assert holds(1e9, small=True) == (True, once)
    assert holds(1e-9, small=False) == (False, once)
    assert holds(1e-9, small=True) == (False, 2 + timing.SMALL_ATTEMPTS * timing.ROUNDS)
