"""The page: drawn from receipts, the same bytes each time, hostile text harmless, missing values shown as missing."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from platoon.config.numbers import change, number, seconds
from platoon.report.data import report_of
from platoon.report.drawing import _DRAWINGS, Drawn, averaged, draw
from platoon.report.figures import CAPTIONS, FIGURES
from platoon.report.page import changes, render, write_report

pytestmark = pytest.mark.unit


def receipts(steps: int = 6) -> list[dict[str, Any]]:
    curve = [
        {
            "step": step,
            "reward": 0.3 + 0.05 * step,
            "rollouts": 64,
            "components": {"parsed": 0.6 + 0.04 * step, "state": 0.2 + 0.05 * step},
            "staleness": {"mean": 0.5, "max": 1},
            "seconds": {"wait": 2.0, "train": 1.0, "publish": 0.2, "total": 3.2},
            "tokens": {"prompt": 9000, "completion": 2000, "trained": 1900},
        }
        for step in range(1, steps + 1)
    ]
    example = {
        "task": "copy-3",
        "reward": 1.0,
        "messages": [
            {"role": "user", "content": "copy it"},
            {
                "role": "assistant",
                "content": "<script>alert(1)</script>",
                "tool_calls": [{"function": {"name": "bash", "arguments": '{"command": "cp a b"}'}}],
            },
            {"role": "tool", "content": "</pre><img src=x onerror=alert(2)>"},
        ],
        "test_output": "ok & done",
    }
    train = {"kind": "train", "run": "main", "trainer": "rl", "parent": {"run": "warm"}, "steps": steps, "seed": 1, "curve": curve}
    before = {"reward_mean": 0.31, "components": {"parsed": 0.6, "state": 0.22}, "rollouts": 128, "valid": 128, "errored": 0}
    after = {"reward_mean": 0.62, "components": {"parsed": 0.95, "state": 0.55}, "rollouts": 128, "valid": 127, "errored": 1}
    return [
        train,
        {"kind": "evaluation", "name": "before", "run": "warm", "figures": before, "tasks": [{"task": "t", "reward_mean": 0.3}]},
        {"kind": "evaluation", "name": "after", "run": "main", "figures": after, "tasks": [{"task": "t"}], "example": example},
    ]


def test_the_page_is_whole_and_the_same_each_time(tmp_path: Path) -> None:
    for name in ("one", "two"):
        write_report(report_of(receipts()), tmp_path / name / "report.html", tmp_path / name / "figures", "quickstart")
    first, second = ((tmp_path / name / "report.html").read_bytes() for name in ("one", "two"))
    assert first == second
    assert {path.stem for path in (tmp_path / "one/figures").iterdir()} == set(FIGURES)
    text = first.decode()
    assert not re.search(r"(?:src|href)\s*=\s*[\"']?https?:", text), "the page must need nothing else"
    assert text.count("<svg") == len(FIGURES) - 1
    assert 'class="absent">Not drawn: no run learned from conversations.<' in text and 'id="loss"' not in text
    assert "0.310 → 0.620" in text
    assert "+0.330" in text, "the part 'state' stands apart"


def drawn_lines(name: str, rows: list[dict[str, Any]]) -> dict[str, Any]:
    """The labelled lines of a figure."""
    from matplotlib.figure import Figure

    axes = Figure().subplots()
    assert _DRAWINGS[name](axes, report_of(rows)) == ""
    return {str(line.get_label()): line for line in axes.get_lines() if not str(line.get_label()).startswith("_")}


@pytest.mark.parametrize(("name", "labels"), [("tokens", ("replies sampled", "trained")), ("staleness", ("mean", "oldest"))])
def test_lines_that_lie_on_each_other_are_both_seen(name: str, labels: tuple[str, str]) -> None:
    lines = drawn_lines(name, receipts())
    below, above = (lines[label] for label in labels)
    assert below.get_linewidth() > above.get_linewidth() and below.is_dashed() != above.is_dashed()
    assert below.get_zorder() <= above.get_zorder()


def test_the_loss_of_each_warm_start_is_drawn_and_told() -> None:
    curve = [{"step": step, "loss": 7.0 / step, "tokens": {"trained": 400}} for step in range(1, 5)]
    rows = [{"kind": "train", "run": "warm", "trainer": "sft", "steps": 4, "curve": curve}, *receipts()]
    lines = drawn_lines("loss", rows)
    assert list(lines) == ["warm", "average", "each step"] and lines["warm"].get_xdata()[-1] == 4
    text = render(report_of(rows), dict.fromkeys(FIGURES, Drawn("<svg></svg>")))
    assert "loss 7.000 → 1.750" in text and "reward 0.350 → 0.600" in text


@pytest.mark.parametrize(
    ("values", "averages"),
    [
        ([], []),
        ([7.0], [7.0]),
        ([4.0, 1.0], [4.0, 1.0]),
        ([9.0, 3.0, 0.0], [9.0, 4.0, 0.0]),
        ([float(step) for step in range(20)], [float(step) for step in range(20)]),
    ],
)
def test_an_average_lies_where_the_values_lie(values: list[float], averages: list[float]) -> None:
    """It begins and ends where they do, and a steady slope is drawn as it is."""
    assert averaged(values) == averages


@pytest.mark.parametrize("name", ["reward", "loss"])
def test_a_curve_says_what_is_bold_and_what_is_faint(name: str) -> None:
    rows = (
        receipts()
        if name == "reward"
        else [{"kind": "train", "run": "warm", "trainer": "sft", "steps": 1, "curve": [{"step": 1, "loss": 7.0}]}]
    )
    lines = drawn_lines(name, rows)
    assert lines["average"].get_linewidth() > lines["each step"].get_linewidth()
    assert "Faint: each step; bold: the average" in CAPTIONS[name]


def test_long_names_leave_a_figure_its_room() -> None:
    rows = receipts()
    for row in rows:
        row["run"] += "-with-shuffled-advantages"
    rows += [{**rows[2], "name": f"after-{index}"} for index in range(3)]
    assert 'class="name">main-with-shuffled-advantages<' in render(report_of(rows), dict.fromkeys(FIGURES, Drawn("<svg></svg>")))
    for name in FIGURES:
        draw(name, report_of(rows))  # a figure whose legend takes all its room warns


@pytest.mark.parametrize(
    ("before", "after", "text", "kind"),
    [
        (0.424, 0.391, "−0.033", "fall"),
        (0.4, 0.4004, "0.000", "same"),
        (0.5, 0.4996, "0.000", "same"),
        (0.1, 1.2, "+1.100", "rise"),
    ],
)
def test_a_card_tells_a_fall_from_a_gain(before: float, after: float, text: str, kind: str) -> None:
    assert change(before, after) == text
    rows = receipts()
    for row, value in zip(rows[1:], (before, after), strict=True):
        row["figures"]["reward_mean"] = value
    assert f'<em class="{kind}">{text}</em>' in render(report_of(rows), dict.fromkeys(FIGURES, Drawn("<svg></svg>")))


def test_text_of_a_rollout_is_never_markup() -> None:
    text = render(report_of(receipts()), dict.fromkeys(FIGURES, Drawn("<svg></svg>")))
    assert "<script>" not in text
    assert "<img" not in text
    assert "ok &amp; done" in text


def test_a_figure_says_why_it_shows_nothing(tmp_path: Path) -> None:
    """In its file, and in one sentence of the page, which has no empty boxes and no table without rows."""
    write_report(report_of([]), tmp_path / "report.html", tmp_path / "figures")
    text = (tmp_path / "report.html").read_text()
    assert "Not drawn: no run trained from rewards; no " in text
    assert not re.search("<svg|<figure|<table", text)
    assert len(list((tmp_path / "figures").glob("*.svg"))) == len(FIGURES)


ZERO = {"mean": 0.0, "max": 0.0, "prompt": 0, "completion": 0, "trained": 0, "wait": 0.0, "train": 0.0, "publish": 0.0}
NOTHING = {
    "reward": "the mean reward of each step of main was 0",
    "evaluations": "the mean reward of each evaluation was 0",
    "loss": "no loss was a number",
    "tokens": "main had no tokens",
    "staleness": "no ages of rows, as main trained each on the weights that sampled it",
    "step_time": "the steps of main took no time",
}


@pytest.mark.parametrize("name", FIGURES)
def test_values_that_draw_no_picture_are_told_in_words(name: str) -> None:
    """Nothing but zeros is an axis around nothing, and what is no number leaves none."""
    rows = receipts()
    for point in rows[0]["curve"]:
        point["reward"] = 0.0
        point["components"] = dict.fromkeys(point["components"], 0.0)
        point.update({key: {part: ZERO.get(part, 0.0) for part in point[key]} for key in ("staleness", "seconds", "tokens")})
    for row in rows[1:]:
        row["figures"].update(reward_mean=0.0, components=dict.fromkeys(row["figures"]["components"], 0.0))
    warm = {"kind": "train", "run": "warm", "trainer": "sft", "steps": 1, "curve": [{"step": 1, "loss": "nan"}]}
    assert draw(name, report_of([warm, *rows])).nothing == NOTHING[name]


@pytest.mark.parametrize("name", ["reward", "loss", "tokens"])
def test_a_single_step_is_seen(name: str) -> None:
    warm = {"kind": "train", "run": "warm", "trainer": "sft", "steps": 1, "curve": [{"step": 1, "loss": 7.0}]}
    lines = drawn_lines(name, [warm, *receipts(1)])
    assert {line.get_marker() for label, line in lines.items() if label not in ("average", "each step")} == {"o"}


def test_the_policies_of_a_run_stand_in_the_table_where_there_are_several() -> None:
    rows = receipts()
    empty = dict.fromkeys(FIGURES, Drawn("<svg></svg>"))
    assert "policies</th>" not in render(report_of(rows), empty)
    rows[0]["policies"] = {"judge": {}, "helper": {}}
    text = render(report_of(rows), empty)
    assert '<th class="name">policies</th>' in text and '<td class="name">main, helper, judge</td>' in text


def test_times_are_named_for_what_they_are() -> None:
    text = render(report_of(receipts()), dict.fromkeys(FIGURES, Drawn("<svg></svg>")))
    assert text.count("<th>time in steps</th>") == text.count("<th>wall time</th>") == 1 and "<th>time</th>" not in text


@pytest.mark.parametrize(
    ("change_of", "is_change"),
    [
        ({}, True),
        ({"tasks": [{"task": "another"}]}, False),
        ({"run": "warm"}, False),
        ({"run": "beside"}, False),
    ],
    ids=["of its parent", "other tasks", "the same run", "a run beside it"],
)
def test_a_change_is_what_training_made_of_the_same_tasks(change_of: dict[str, Any], is_change: bool) -> None:
    rows = receipts()
    rows[2].update(change_of)
    assert bool(changes(report_of(rows))) == is_change


def test_evaluations_stand_with_the_parts_of_their_rewards() -> None:
    rows = receipts()
    rows[1]["figures"]["components"] = {"parsed": 0.6, "reward": 0.31, "<b>": 1.0}
    text = render(report_of(rows), dict.fromkeys(FIGURES, Drawn("<svg></svg>")))
    table = text[text.index("<h2>Evaluations</h2>") :]
    cells = [re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", row) for row in table.split("<tr>")[1:4]]
    assert cells[0][2:7] == ["mean reward", "&lt;b&gt;", "parsed", "state", "rollouts"]
    assert [row[2:6] for row in cells[1:]] == [["0.310", "1.000", "0.600", "–"], ["0.620", "–", "0.950", "0.550"]]


@pytest.mark.parametrize(("name", "rewards"), [("reward", (-2.0, 3.0)), ("evaluations", (-2.0, 3.0)), ("evaluations", (0.1, 0.2))])
def test_rewards_below_zero_and_above_one_are_in_sight(name: str, rewards: tuple[float, float]) -> None:
    from matplotlib.figure import Figure

    rows = receipts(2)
    for point, value in zip(rows[0]["curve"], rewards, strict=True):
        point["reward"] = value
    for row, value in zip(rows[1:], rewards, strict=True):
        row["figures"]["reward_mean"] = value
    axes = Figure().subplots()
    assert _DRAWINGS[name](axes, report_of(rows)) == ""
    bottom, top = axes.get_ylim()
    assert bottom <= min(0.0, *rewards) and top >= max(rewards)


def test_missing_is_not_zero() -> None:
    assert number(None) == "–"
    assert seconds(None) == "–"
    assert number(0.0, 2) == number(-0.001, 2) == "0.00"
    assert number(-1234.5, 1) == "−1,234.5"
    assert seconds(125) == "2 min 05 s"
    assert changes(report_of(receipts()[:2])) == ()
