"""What a rollout came to, as a person reads it: the agents as a tree, each step with what was said, called and answered.

Texts are of models, tasks and programs: what does not print is escaped. Each is one line, cut with a count of what is left out, or
whole.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from platoon.config.numbers import score
from platoon.config.text import counted, printable
from platoon.core.outcome import fault_text

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.tree import Tree

    from platoon.core.outcome import Outcome
    from platoon.core.trajectory import Trajectory
    from platoon.episodes.result import RolloutResult

SHOWN_CHARACTERS = 160


def rollout_view(result: RolloutResult, *, whole: bool) -> Iterator[RenderableType]:
    """The tree of agents, what the tests wrote, the outcome, and the parts of the reward."""
    from rich.text import Text

    if (tree := _tree(list(result.collection.trajectories.values()), whole)) is not None:
        yield tree
    outcome = result.outcome
    if test_output := str(outcome.metadata.get("test_output") or "").strip():
        yield Text(f"tests: {_shown(test_output, whole)}")
    yield Text(f"{_outcome(outcome, whole)}, {counted(result.calls, 'call')}, {result.seconds['total']:.1f} s")
    parts = [f"{printable(name)} {score(value)}" for name, value in outcome.rewards.items() if name != outcome.primary]
    if outcome.status == "scored" and parts:
        yield Text(f"of it: {', '.join(parts)}")


def _outcome(outcome: Outcome, whole: bool) -> str:
    if outcome.reward is None:
        why = fault_text(outcome.failure_kind, outcome.explanation, outcome.status)
        return f"{outcome.status}, {_shown(why, whole)}; no reward" if why != outcome.status else f"{why}, no reward"
    why = f" ({_shown(outcome.explanation, whole)})" if outcome.explanation else ""
    return f"{outcome.status}{why}, reward {score(outcome.reward)}"


def _tree(trajectories: Sequence[Trajectory], whole: bool) -> Tree | None:
    from rich.text import Text
    from rich.tree import Tree

    branches: dict[str, Tree] = {}
    for trajectory in trajectories:
        label = Text(_line(trajectory, whole, alone=len(trajectories) == 1))
        parent = None if trajectory.parent_info is None else branches.get(trajectory.parent_info.id)
        branch = branches[trajectory.id] = Tree(label) if parent is None else parent.add(label)
        for number, step in enumerate(trajectory.steps):
            said = branch.add(Text(f"{number + 1}. {_said(step.misc, whole)}"))
            for answer in _answers(trajectory, number):
                said.add(Text(_shown(answer, whole) or "(an empty answer)"))
        if "oracle" in trajectory.misc:
            _add_oracle(branch, trajectory.misc["oracle"], whole)
    return next(iter(branches.values()), None)


def _add_oracle(branch: Tree, ran: Mapping[str, Any], whole: bool) -> None:
    """What the reference solution came to, and what it wrote."""
    from rich.text import Text

    end = "stopped at its time limit" if ran["timed_out"] else f"exit code {ran['exit_code']}"
    branch.add(Text(f"ran solution/solve.sh: {end}")).add(Text(_shown(ran["output"], whole) or "(it wrote nothing)"))


def _line(trajectory: Trajectory, whole: bool, *, alone: bool) -> str:
    """An agent in one line. alone: the only one, whose outcome is the rollout's, which is told below the tree."""
    steps = counted(len(trajectory.steps), "step")
    if alone and not trajectory.steps:
        parts = ["oracle" if "oracle" in trajectory.misc else "no model call"]
    elif alone:
        parts = [trajectory.misc["agent"]["role"], steps]
    else:
        parts = [f"{trajectory.misc['agent']['role']} {trajectory.id[:8]}", steps, f"reward {score(trajectory.reward)}"]
        parts.append(trajectory.misc["outcome"]["status"])
        if trajectory.error_message:
            parts.append(_shown(trajectory.error_message, whole))
    return ", ".join(parts) + (f": {_shown(trajectory.task.goal, whole)}" if trajectory.task.goal else "")


def _said(misc: Mapping[str, Any], whole: bool) -> str:
    message = misc["message"]
    said = [_shown(_text(message), whole)] if _text(message) else []
    for call in message.get("tool_calls") or ():
        said.append(_shown(f"{call['function']['name']}({call['function']['arguments']})", whole))
    return "; ".join(said) or "(nothing)"


def _answers(trajectory: Trajectory, number: int) -> list[str]:
    """What tools answered to a step: as the next step was shown it, else as the environment gave it."""
    following = trajectory.steps[number + 1].misc.get("observed", ()) if number + 1 < len(trajectory.steps) else ()
    if shown := [_text(message) for message in following if message.get("role") == "tool"]:
        return shown
    call_id = trajectory.steps[number].misc["action_misc"]["completion_id"]
    return [call["text"] for call in trajectory.misc.get("tool_calls", ()) if call["after_call_id"] == call_id]


def _text(message: Mapping[str, Any]) -> str:
    """The text of a message, whose content is a text, parts of which some are texts, or nothing."""
    content = message.get("content") or ""
    if isinstance(content, str):
        return content
    return "".join(str(part.get("text", "")) for part in content if isinstance(part, Mapping))


def _shown(text: str, whole: bool) -> str:
    if whole:
        return "\n".join(printable(line.expandtabs()) for line in text.strip().splitlines())
    line = printable(" ".join(text.split()))
    more = len(line) - SHOWN_CHARACTERS
    return line if more <= 0 else f"{line[:SHOWN_CHARACTERS]}… ({more} more)"
