"""Splits reasoning from the rest of a reply by a pair of tags."""

from __future__ import annotations

ReasoningTags = tuple[str, str]
THINK_TAGS: ReasoningTags = ("<think>", "</think>")


def split_reasoning(text: str, tags: ReasoningTags | None, in_reasoning: bool, call_tag: str | None = None) -> tuple[str, str]:
    """(reasoning, rest). Reasoning counts only at the start of a reply, or where the prompt opened it.

    Reasoning that is never closed ends where the first `call_tag` stands, else with the text.
    """
    if tags is None:
        return "", text
    opening, closing = tags
    body = text
    if not in_reasoning:
        lead = text.lstrip()
        if not lead.startswith(opening):
            return "", text
        body = lead[len(opening) :]
    elif body.lstrip().startswith(opening):
        body = body.lstrip()[len(opening) :]
    end = body.find(closing)
    if end >= 0:
        return body[:end].strip("\n"), body[end + len(closing) :].lstrip("\n")
    call = body.find(call_tag) if call_tag else -1
    if call >= 0:
        return body[:call].strip("\n"), body[call:]
    return body.strip("\n"), ""
