"""Tools as environments offer them and results as agents read them (the MCP shapes)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

ToolAccess = Literal["read_only", "no_terminal", "full"]


@dataclass(frozen=True)
class ToolSpec:
    """terminal: a call ends the episode. read_only: never changes the environment's state. meta: handed on as MCP `_meta`."""

    name: str
    description: str
    input_schema: Mapping[str, Any]
    terminal: bool = False
    read_only: bool = False
    meta: Mapping[str, Any] | None = None

    def as_function(self) -> dict[str, Any]:
        """The entry of a Chat Completions `tools` list."""
        function = {"name": self.name, "description": self.description, "parameters": dict(self.input_schema)}
        return {"type": "function", "function": function}


@dataclass(frozen=True)
class ToolResult:
    """content: MCP content blocks. finished: the environment ended the episode. reward: what this call earned, if anything."""

    content: Sequence[Mapping[str, Any]]
    is_error: bool = False
    finished: bool = False
    reward: float | None = None
    metadata: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def text(cls, text: str, *, is_error: bool = False) -> ToolResult:
        return cls(({"type": "text", "text": text},), is_error=is_error)

    def as_text(self) -> str:
        """Text blocks joined by newlines; any other block as its type in brackets."""
        parts = []
        for block in self.content:
            kind = block.get("type")
            parts.append(str(block.get("text", "")) if kind == "text" else f"[{block.get('mimeType') or kind}]")
        return "\n".join(parts)
