from __future__ import annotations

import pytest

from platoon.train.workflow.stragglers import MemberClock, deadlines

pytestmark = pytest.mark.unit


@pytest.mark.parametrize(
    ("members", "quorum", "expected"),
    [
        # Together: one deadline from the moment the quorum settled.
        ([(0, 3), (0, 5), (0, None), (0, None)], 2, [None, None, 15, 15]),
        # Nothing can be said before the quorum settled.
        ([(0, 3), (0, None), (0, None)], 2, [None, None, None]),
        # A late start is added; a start after the quorum counts from itself; no start, no deadline.
        ([(0, 3), (2, None), (4, None), (None, None)], 1, [None, 15, 14, None]),
        # Any outcome settles, in any order.
        ([(0, 9), (0, 1), (0, None)], 2, [None, None, 19]),
    ],
)
def test_deadlines(members: list[tuple[float | None, float | None]], quorum: int, expected: list[float | None]) -> None:
    assert deadlines([MemberClock(*item) for item in members], quorum, 10) == expected


def test_without_a_timeout_nobody_is_given_up() -> None:
    assert deadlines([MemberClock(0, 1), MemberClock(0)], 1, None) == [None, None]
