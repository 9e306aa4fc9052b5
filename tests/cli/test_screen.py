"""Tables where there is no standard output."""

from __future__ import annotations

import sys

import pytest

from platoon.cli.screen import PIPED_WIDTH, say, screen

pytestmark = pytest.mark.unit


def test_a_closed_standard_output_is_no_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdout", None)
    console = screen()
    assert console.width == PIPED_WIDTH
    say(console, "text")
