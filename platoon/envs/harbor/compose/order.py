"""In which order a stack's services start: dependencies before dependants, names decide among equals."""

from __future__ import annotations

import heapq
from collections.abc import Collection, Mapping

from platoon.envs.harbor.compose.errors import ComposeError

MAIN = "main"


def start_order(dependencies: Mapping[str, Collection[str]]) -> tuple[str, ...]:
    """The services in order; `main` last when nothing depends on it. Raises ComposeError with the cycle.

    dependencies: every service, with those of them it waits for.
    """
    waiting = {name: set(needed) for name, needed in dependencies.items()}
    waited_for = {needed for others in waiting.values() for needed in others}
    held_back = MAIN in waiting and MAIN not in waited_for
    ready = [name for name, needed in waiting.items() if not needed and not (held_back and name == MAIN)]
    heapq.heapify(ready)
    order: list[str] = []
    while ready:
        name = heapq.heappop(ready)
        order.append(name)
        for other, needed in waiting.items():
            if name in needed:
                needed.discard(name)
                if not needed and not (held_back and other == MAIN):
                    heapq.heappush(ready, other)
    if held_back and not waiting[MAIN]:
        order.append(MAIN)
    if len(order) < len(waiting):
        cycle = find_cycle({name: dependencies[name] for name in waiting if name not in order})
        raise ComposeError(f"the services wait for each other: {' -> '.join(cycle)}", f"{cycle[0]}.depends_on")
    return tuple(order)


def find_cycle(dependencies: Mapping[str, Collection[str]]) -> list[str]:
    """A cycle, its first name repeated at the end; begins at the smallest name from which one is reached."""
    for start in sorted(dependencies):
        path, seen = [start], {start}
        while True:
            following = sorted(name for name in dependencies[path[-1]] if name in dependencies)
            if not following:
                break
            if following[0] in seen:
                cycle = path[path.index(following[0]) :]
                smallest = cycle.index(min(cycle))
                cycle = cycle[smallest:] + cycle[:smallest]
                return [*cycle, cycle[0]]
            path.append(following[0])
            seen.add(following[0])
    return [MAIN, MAIN]
