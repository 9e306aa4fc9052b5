"""The hold-out against the vectors of its rule, and the properties that make it safe."""

from __future__ import annotations

import hashlib
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from platoon.artifacts.digests import sha256_bytes
from platoon.envs.harbor.holdout import HoldOutRow, eval_digest, split
from platoon.envs.harbor.options import HoldOut
from platoon.errors import ConfigError

pytestmark = pytest.mark.unit


def row(
    name: str, group: str | None = None, *, files: dict[str, str] | None = None, runnable: bool = True, **index: object
) -> HoldOutRow:
    return HoldOutRow(name, {**({"group": group} if group is not None else {}), **index}, runnable, files or {})


def test_eval_digest() -> None:
    assert eval_digest(["t2", "t1"]) == "56b91a1c7d24246d95264b7601d24ec7bc1babe7da4d7b685f076b530b58c74b"


def test_groups_are_ranked_by_seeded_hash() -> None:
    rows = [row("a", "groupA"), row("b", "groupB")]
    # sha256("0\0groupA") starts 69, sha256("0\0groupB") 7b: A is held out first and fills the one place.
    assert split(rows, HoldOut(fraction=0.5, group_by="group")).eval == ("a",)
    # sha256("7\0groupA") starts 20.
    assert split(rows, HoldOut(fraction=0.5, group_by="group", seed=7)).eval == ("a",)


def test_the_fraction_is_taken_as_the_decimal_written() -> None:
    rows = [row(f"t{number}", f"g{number}") for number in range(100)]
    assert len(split(rows, HoldOut(fraction=0.07, group_by="group")).eval) == 7


def test_groups_that_share_an_input_file_stay_together() -> None:
    shared, empty = sha256_bytes(b"x\n"), sha256_bytes(b"")
    rows = [
        row("a", "g1", files={"environment/x": shared}),
        row("b", "g2", files={"environment/y": shared, "environment/empty": empty}),
        row("c", "g3", files={"environment/empty": empty}),
    ]
    result = split(rows, HoldOut(fraction=0.34, group_by="group"))
    # Two of three places are needed for g1 and g2 together; the empty file joins nothing.
    assert set(result.eval) in ({"a", "b"}, {"c"})
    apart = split(rows, HoldOut(fraction=0.01, group_by="group", ignore_inputs=["environment/[xy]"]))
    assert len(apart.eval) == 1


@pytest.mark.parametrize(
    ("rows", "fraction", "key", "told"),
    [
        (
            [
                row(f"t{n}", f"g{n}", files={"environment/in.txt": "sha256:same", "environment/own": f"sha256:{n}"})
                for n in range(39)
            ],
            0.97,
            "holdout.ignore_inputs",
            "39 of the 39 groups share a file (environment/in.txt) and are held out together or not at all",
        ),
        ([row(f"t{n}", "g") for n in range(4)], 0.5, "holdout.fraction", "every group has more tasks than are to be held out"),
        ([row("t", "g")], 0.5, "holdout.fraction", "every group is held out"),
        ([row("a", "groupA", runnable=False), row("b", "groupB")], 0.5, "holdout", "all its tasks are refused: a"),
        ([row("a", "groupA"), row("b", "groupB", runnable=False)], 0.5, "holdout", "all its tasks are refused: b"),
        ([row("a", "g", runnable=False)], 0.5, "holdout.fraction", "no task can run"),
        ([row("a", "groupA"), row("b", "groupB")], 0.5, "", ""),
    ],
)
def test_a_side_without_a_task_is_told_with_its_cause(rows: list[HoldOutRow], fraction: float, key: str, told: str) -> None:
    empty = split(rows, HoldOut(fraction=fraction, group_by="group")).empty
    assert ((empty.key, empty.rule) if empty is not None else ("", "")) == (key, told)


def test_strata_each_keep_their_share() -> None:
    rows = [row(f"t{number}", f"g{number}", level="easy" if number < 30 else "hard") for number in range(40)]
    result = split(rows, HoldOut(fraction=0.2, group_by="group", stratify_by="level"))
    levels = [int(name[1:]) < 30 for name in result.eval]
    assert (levels.count(True), levels.count(False)) == (6, 2)


def test_what_a_task_lacks_is_named() -> None:
    rows = [row("a"), row("b", "g"), row("refused", runnable=False), HoldOutRow("old", {"group": "g"}, True, None)]
    with pytest.raises(ConfigError) as caught:
        split(rows, HoldOut(fraction=0.5, group_by=["group", "family"], stratify_by="level"))
    texts = [str(problem) for problem in caught.value.problems]
    assert (
        "holdout.group_by: task a has no field group or family (give every task one, or leave out those without by tasks or select)"
        in texts
    )
    assert "holdout.stratify_by: 2 tasks, b first, have no field level (known here: group)" in texts
    assert any("old" in text and "fetch it again" in text for text in texts)
    with pytest.raises(ConfigError, match=r"holdout\.group_by: no task has a field grup \(did you mean group\?\)"):
        split([row("b", "g")], HoldOut(fraction=0.5, group_by=["group", "grup"]))
    assert not any("refused" in text for text in texts)
    with pytest.raises(ConfigError, match="matches no input file"):
        split([row("b", "g")], HoldOut(fraction=0.5, group_by="group", ignore_inputs=["*.none"]))


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 6), st.integers(0, 2), st.integers(0, 8), st.booleans()), max_size=40),
    st.floats(0.01, 0.99),
    st.integers(0, 5),
)
def test_whole_groups_no_shared_files_any_order(tasks: list[tuple[int, int, int, bool]], fraction: float, seed: int) -> None:
    rows = [
        row(
            f"t{place}",
            f"g{group}",
            files={"f": f"sha256:{hashlib.sha256(bytes([file])).hexdigest()}"} if file < 5 else {},
            s=stratum,
            runnable=ok,
        )
        for place, (group, stratum, file, ok) in enumerate(tasks)
    ]
    options = HoldOut(fraction=fraction, group_by="group", stratify_by="s", seed=seed)
    result = split(rows, options)
    shuffled = list(rows)
    random.Random(seed).shuffle(shuffled)
    assert split(shuffled, options) == result
    by_name = {item.name: item for item in rows}
    assert sorted(result.train + result.eval) == sorted(item.name for item in rows if item.runnable)
    sides = [{(by_name[name].index["group"]) for name in side} for side in (result.train, result.eval)]
    assert not sides[0] & sides[1]
    files = [
        {digest for name in side for digest in (by_name[name].input_files or {}).values()} for side in (result.train, result.eval)
    ]
    assert not files[0] & files[1]
