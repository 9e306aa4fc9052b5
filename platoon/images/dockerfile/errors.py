"""The refusal of a Dockerfile."""

from __future__ import annotations

from platoon.config.credentials import hide_userinfo
from platoon.config.text import printable
from platoon.errors import PlatoonError


class DockerfileError(PlatoonError):
    """A Dockerfile that cannot be planned. line: 1-based line of the file, or None. why: one sentence."""

    def __init__(self, why: str, line: int | None = None, *, file: str = "Dockerfile") -> None:
        self.why, self.line, self.file = printable(hide_userinfo(why)), line, printable(file)
        super().__init__(self.sentence)

    @property
    def sentence(self) -> str:
        """File, line and reason on one line."""
        place = self.file if self.line is None else f"{self.file}:{self.line}"
        return f"{place}: {self.why}"
