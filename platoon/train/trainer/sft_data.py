"""Conversations for supervised training: read, rendered once, and put in an order that depends on seed and epoch alone.

A file is JSON lines, each `{"messages": [...], "tools": [...]}` (tools are optional). Errors name file and line.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from platoon.artifacts.reading import parse_json, read_regular
from platoon.config.text import short_path
from platoon.errors import ConfigError, Problem
from platoon.sampling.renderer import Renderer, RenderError

# Faults of one file that are told one by one.
TOLD_LINES = 20


@dataclass(frozen=True)
class Conversation:
    """One line of a data file. place: `file:line`, for messages."""

    messages: tuple[dict[str, Any], ...]
    tools: tuple[dict[str, Any], ...]
    place: str


@dataclass(frozen=True)
class RenderedConversation:
    """tokens_T: uint32. trained_T: bool, True on tokens a step trains towards. Both (T,), T at least 2."""

    tokens_T: npt.NDArray[np.uint32]
    trained_T: npt.NDArray[np.bool_]


def read_conversations(files: Mapping[str, Path]) -> list[Conversation]:
    """All conversations of the files, in order. Raises ConfigError with the first problems of every file.

    files: by their names for messages.
    """
    found: list[Conversation] = []
    problems: list[Problem] = []
    for name, path in files.items():
        try:
            lines = read_regular(path, None).splitlines()
        except OSError as error:
            rule = f"not a readable chat file: {error.strerror}"
            problems.append(Problem(rule, key="trainer_options.data", file=short_path(name)))
            continue
        faults: list[Problem] = []
        for number, line in enumerate(lines, 1):
            if not line.strip():
                continue
            rule, conversation = _parse(line, f"{name}:{number}")
            if conversation is not None:
                found.append(conversation)
            else:
                faults.append(Problem(rule, file=f"{name}:{number}"))
        problems += faults[:TOLD_LINES]
        if len(faults) > TOLD_LINES:
            problems.append(Problem(f"{len(faults) - TOLD_LINES} more lines are no conversations", file=name))
    if not found and not problems:
        problems.append(Problem("holds no conversation", key="trainer_options.data", file=", ".join(files)))
    if problems:
        raise ConfigError(problems)
    return found


def _parse(line: bytes, place: str) -> tuple[str, Conversation | None]:
    try:
        value = parse_json(line, unique_keys=True)
    except ValueError as error:
        return f"not a JSON line: {error}", None
    messages = value.get("messages") if isinstance(value, dict) else None
    if not isinstance(messages, list) or not messages:
        return 'needs {"messages": [...]} with at least one message', None
    if not all(isinstance(message, dict) and isinstance(message.get("role"), str) for message in messages):
        return "every message is an object with a role", None
    tools = value.get("tools") or []
    if not isinstance(tools, list) or not all(isinstance(tool, dict) for tool in tools):
        return "tools is a list of objects", None
    return "", Conversation(tuple(messages), tuple(tools), place)


def samples(conversations: Sequence[Conversation]) -> list[Conversation]:
    """The first conversation, and the first with tools, with a tool call, and with neither a system message nor tools."""
    kinds: list[Callable[[Conversation], bool]] = [
        lambda conversation: True,
        lambda conversation: bool(conversation.tools),
        lambda conversation: any(message.get("tool_calls") for message in conversation.messages),
        lambda conversation: not conversation.tools and conversation.messages[0]["role"] != "system",
    ]
    found = [next(filter(kind, conversations), None) for kind in kinds]
    return list({conversation.place: conversation for conversation in found if conversation is not None}.values())


def data_digest(conversations: Sequence[Conversation]) -> str:
    """`sha256:<hex>` over what the conversations say; not over paths or spacing."""
    hasher = hashlib.sha256(b"conversations/1\n")
    for conversation in conversations:
        value = [list(conversation.messages), list(conversation.tools)]
        hasher.update(f"{json.dumps(value, ensure_ascii=False, separators=(',', ':'))}\n".encode())
    return f"sha256:{hasher.hexdigest()}"


def render_all(
    conversations: Sequence[Conversation], renderer: Renderer, max_length: int | None
) -> tuple[list[RenderedConversation], int]:
    """Rendered conversations in order, cut to `max_length` tokens from the right; how many had nothing to train and were left out.

    Raises ConfigError, naming the line, for one the renderer refuses.
    """
    rendered, skipped = [], 0
    for conversation in conversations:
        try:
            tokens_T, trained_T = renderer.render_conversation(conversation.messages, conversation.tools)
        except RenderError as error:
            raise ConfigError(Problem(f"cannot be rendered: {error}", file=conversation.place)) from error
        tokens_T, trained_T = tokens_T[:max_length], trained_T[:max_length]
        if len(tokens_T) < 2 or not trained_T[1:].any():
            skipped += 1
            continue
        rendered.append(RenderedConversation(tokens_T, trained_T))
    return rendered, skipped


def epoch_order(count: int, seed: int, epoch: int) -> list[int]:
    """A permutation of range(count), a function of its arguments on every machine and version."""
    return sorted(range(count), key=lambda index: hashlib.sha256(f"{seed}:{epoch}:{index}".encode()).digest())


def batches(count: int, batch_size: int, steps: int, seed: int, first_step: int) -> Iterator[tuple[int, list[int]]]:
    """(epoch of the first item, indices) of the steps `first_step` to `steps` - 1 over an endless sequence of shuffled passes.

    Every step is full: one that reaches the end of a pass goes on in the next.
    """
    order_of: dict[int, list[int]] = {}
    for step in range(first_step, steps):
        places = range(step * batch_size, (step + 1) * batch_size)
        order_of = {epoch: order for epoch, order in order_of.items() if epoch >= places[0] // count}
        indices = []
        for place in places:
            epoch, index = divmod(place, count)
            if epoch not in order_of:
                order_of[epoch] = epoch_order(count, seed, epoch)
            indices.append(order_of[epoch][index])
        yield places[0] // count, indices
