"""The life of a draw, as one transition table, and the ledger that enforces it.

    drawn -> started -> settled -> queued -> taken -> consumed | stale | failed
                                \\-> rejected
    drawn -> skipped | lost

A step that is dropped whole puts its taken groups back (taken -> queued). A draw leaves the ledger with its fate; until then it is
outstanding and a capture holds it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum

from platoon.train.dispatch.draw import Draw, DrawKey, Fate
from platoon.train.dispatch.settled import SettledGroup


class State(StrEnum):
    DRAWN = "drawn"
    STARTED = "started"
    SETTLED = "settled"
    REJECTED = "rejected"
    QUEUED = "queued"
    TAKEN = "taken"
    CONSUMED = "consumed"
    STALE = "stale"
    FAILED = "failed"
    SKIPPED = "skipped"
    LOST = "lost"


TRANSITIONS: Mapping[State, frozenset[State]] = {
    State.DRAWN: frozenset({State.STARTED, State.SKIPPED, State.LOST}),
    State.STARTED: frozenset({State.SETTLED}),
    State.SETTLED: frozenset({State.QUEUED, State.REJECTED}),
    State.QUEUED: frozenset({State.TAKEN}),
    State.TAKEN: frozenset({State.CONSUMED, State.STALE, State.FAILED, State.QUEUED}),
    **{end: frozenset() for end in (State.REJECTED, State.CONSUMED, State.STALE, State.FAILED, State.SKIPPED, State.LOST)},
}
FATES: Mapping[State, Fate] = {
    State.REJECTED: Fate.REJECTED,
    State.CONSUMED: Fate.CONSUMED,
    State.STALE: Fate.STALE,
    State.FAILED: Fate.FAILED,
    State.SKIPPED: Fate.SKIPPED,
    State.LOST: Fate.LOST,
}
ENDS: Mapping[Fate, State] = {fate: state for state, fate in FATES.items()}
PIPELINE = (State.STARTED, State.SETTLED, State.QUEUED)


@dataclass
class Entry:
    """A draw on its way. settled: its group from SETTLED on. order: the running number of its settlement."""

    draw: Draw
    state: State
    settled: SettledGroup | None = None
    order: int = -1


class Ledger:
    """Every outstanding draw of a run and its state. `on_fate` hears each draw that ends, once."""

    def __init__(self, on_fate: Callable[[Draw, Fate], None] = lambda draw, fate: None) -> None:
        self._entries: dict[DrawKey, Entry] = {}
        self._counts: Counter[State] = Counter()
        self._on_fate = on_fate
        self._settlements = 0

    def enter(self, draw: Draw) -> None:
        """A new draw. Raises ValueError for a key that is outstanding."""
        if draw.key in self._entries:
            raise ValueError(f"draw {draw.key} is outstanding already")
        self._entries[draw.key] = Entry(draw, State.DRAWN)
        self._counts[State.DRAWN] += 1

    def enter_settled(self, group: SettledGroup) -> None:
        """A group that an earlier start kept: it waits for a step, behind those entered before it."""
        self.enter(group.draw)
        self._entries[group.draw.key].settled = group
        for state in (State.STARTED, State.SETTLED, State.QUEUED):
            self.move(group.draw.key, state)

    def settle(self, group: SettledGroup) -> None:
        entry = self._entry(group.draw.key)
        self.move(group.draw.key, State.SETTLED)
        entry.settled = group

    def move(self, key: DrawKey, state: State) -> None:
        """Raises ValueError for a draw that is not outstanding or a transition that the table does not have."""
        entry = self._entry(key)
        if state not in TRANSITIONS[entry.state]:
            raise ValueError(f"draw {key} cannot go from {entry.state} to {state}")
        self._counts[entry.state] -= 1
        entry.state = state
        if state is State.SETTLED:
            entry.order = self._settlements
            self._settlements += 1
        if state in FATES:
            del self._entries[key]
            self._on_fate(entry.draw, FATES[state])
        else:
            self._counts[state] += 1

    def count(self, *states: State) -> int:
        return sum(self._counts[state] for state in states)

    @property
    def pipeline(self) -> int:
        """Groups started and not taken."""
        return self.count(*PIPELINE)

    def entries(self, *states: State) -> Iterator[Entry]:
        """Outstanding draws in the states given (all without one), in the order they entered."""
        return (entry for entry in self._entries.values() if not states or entry.state in states)

    def state(self, key: DrawKey) -> State:
        return self._entry(key).state

    def _entry(self, key: DrawKey) -> Entry:
        try:
            return self._entries[key]
        except KeyError:
            raise ValueError(f"no outstanding draw {key}") from None
