"""Agents that wreck what grading stands on: their sandbox's /tmp and its whole root."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.envs.harbor.sessions import PASS, grade_after, sandboxes, write_task

pytestmark = pytest.mark.process

TESTS = 'test -d "$TMPDIR" && test ! -L "$TMPDIR" && test -w "$HOME" && mktemp >/dev/null && ' + PASS


@pytest.mark.parametrize(
    "command",
    [
        "rm -rf /tmp",
        "rm -rf /tmp; ln -s {outside} /tmp",
        "rm -rf /tmp; ln -s nowhere /tmp",
        "rm -rf /tmp; echo x > /tmp",
        "rm -rf /tmp; mkfifo /tmp",
        "rm -rf /tmp/home; ln -s {outside} /tmp/home",
        "chmod 000 /tmp",
        'chmod 000 "$PLATOON_SANDBOX_ROOT"',
    ],
)
def test_u72_a_wrecked_tmp_is_made_afresh_and_the_tests_score(tmp_path: Path, command: str):
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "kept").write_text("x")
    dataset = tmp_path / "dataset"
    write_task(dataset, "task", tests=TESTS)
    outcome = grade_after(dataset, command.format(outside=outside))
    assert (outcome.status, outcome.rewards) == ("scored", {"reward": 1.0}), outcome
    assert [path.name for path in outside.iterdir()] == ["kept"] and sandboxes(dataset) == []


@pytest.mark.parametrize(
    "command",
    [
        'rm -rf "$PLATOON_SANDBOX_ROOT"',
        'rm -rf "$PLATOON_SANDBOX_ROOT"; echo x > "$PLATOON_SANDBOX_ROOT"',
        'rm -rf "$PLATOON_SANDBOX_ROOT"; ln -s {outside} "$PLATOON_SANDBOX_ROOT"',
        'rm -rf "$(dirname "$PLATOON_SANDBOX_ROOT")"',
    ],
)
def test_u72_a_removed_root_is_a_zero_of_our_own(tmp_path: Path, command: str):
    outside = tmp_path / "outside"
    (outside / "app").mkdir(parents=True)
    dataset = tmp_path / "dataset"
    write_task(dataset, "task")
    outcome = grade_after(dataset, command.format(outside=outside))
    assert (outcome.status, outcome.reward, outcome.reason) == ("scored", 0.0, "workdir_missing"), outcome
    assert outcome.metadata["platoon_zero"] is True
    assert [path.name for path in outside.iterdir()] == ["app"] and sandboxes(dataset) == []
