"""A base's tokenizer on the server: where its directory is, and decoding for stop strings."""

from __future__ import annotations

from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from platoon.local.bases import Base
from platoon.local.sequences import StopRule

if TYPE_CHECKING:
    from tokenizers import Tokenizer


class Tokens:
    """The tokenizer of one base."""

    def __init__(self, base: Base, directory: Path) -> None:
        self.base = base
        self.directory = directory

    @cached_property
    def _tokenizer(self) -> Tokenizer:
        from tokenizers import Tokenizer

        return Tokenizer.from_str(self.base.tokenizer_json)

    def decode(self, tokens: list[int]) -> str:
        return str(self._tokenizer.decode(tokens, skip_special_tokens=False))

    def stop_rule(self, stop: str | list[int] | list[str] | None) -> StopRule:
        """None stops at the end of the turn, [] at nothing; ids and strings stop in addition to the end of the turn."""
        if stop == []:
            return StopRule()
        given: list[int | str] = [stop] if isinstance(stop, str) else list(stop or [])
        ids = {self.base.stop_token, *(item for item in given if isinstance(item, int))}
        return StopRule(frozenset(ids), tuple(item for item in given if isinstance(item, str)), self.decode)
