"""The refusal of a compose file: every problem found, each with the service and key it is of."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from platoon.config.credentials import hide_userinfo
from platoon.config.text import printable
from platoon.envs.harbor.format import TaskRefused

SHOWN_CHARACTERS = 300


class ComposeError(Exception):
    """One problem. place: `<service>.<key>`, or the file and line; filled in by who knows it. why: one sentence."""

    def __init__(self, why: str, place: str = "") -> None:
        self.why, self.place = why, place
        super().__init__(self.text)

    @property
    def text(self) -> str:
        text = printable(hide_userinfo(f"{self.place}: {self.why}" if self.place else self.why))
        return text if len(text) <= SHOWN_CHARACTERS else f"{text[: SHOWN_CHARACTERS - 1]}…"


class ComposeRefused(TaskRefused):
    """A compose file that is not planned; the refusal a lock records is the first of its problems."""

    def __init__(self, problems: Sequence[ComposeError]) -> None:
        super().__init__("compose", *dict.fromkeys(problem.text for problem in problems))


@dataclass
class Findings:
    """What planning one file found: problems, and notes of what is accepted without effect, each once, in order."""

    problems: list[ComposeError] = field(default_factory=list)
    notes: dict[str, None] = field(default_factory=dict)

    @contextmanager
    def at(self, *place: str) -> Iterator[None]:
        """Keeps a problem raised inside, at `place` where it names none, and goes on."""
        try:
            yield
        except ComposeError as error:
            self.problems.append(error if error.place else ComposeError(error.why, ".".join(place)))

    def note(self, place: str, text: str) -> None:
        self.notes[printable(f"{place}: {text}")] = None

    def check(self) -> None:
        """Raises ComposeRefused when there are problems."""
        if self.problems:
            raise ComposeRefused(self.problems)
