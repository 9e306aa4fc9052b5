"""`adapter:` the program that generates a dataset, at a commit."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Annotated

from pydantic import Field, field_validator

from platoon.config.addresses import GIT_SCHEMES, check_address, check_without_credentials, is_address
from platoon.config.model import ConfigModel
from platoon.envs.harbor.sources.reference import check_inner_path, is_commit
from platoon.errors import Problem

OUTPUT = "{output}"
CHECKOUT = "{repo}"
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


class AdapterOptions(ConfigModel):
    """`adapter:` in place of `dataset`: a program of a repository that writes task directories."""

    repo: str
    """git URL, or a local repository relative to the configuration file"""
    commit: str
    """full commit, the pin; a local repository is taken at it too"""
    path: str = ""
    """directory of the adapter in the repository, where the command runs"""
    command: Annotated[list[str], Field(min_length=1)]
    """program and first arguments"""
    args: list[str] = Field(default_factory=list)
    """more arguments; `{output}` and `{repo}` become directories, and without `{output}` `--output-dir` is appended"""
    env: dict[str, str] = Field(default_factory=dict)
    """more environment variables; `${NAME}` takes a variable of the fetching host, which is recorded by name alone"""
    sparse: list[str] | None = None
    """check out these paths alone; all of the repository when unset"""

    @field_validator("command", "args")
    @classmethod
    def _are_words(cls, words: list[str]) -> list[str]:
        if any("\0" in word for word in words):
            raise ValueError("a word holds no NUL")
        return words

    def checks(self) -> Iterator[Problem]:
        # Here and not in validators: what those refuse is shown, and an address may hold a secret.
        try:
            check_without_credentials(self.repo)
            if is_address(self.repo):
                check_address(self.repo, GIT_SCHEMES)
        except ValueError as error:
            yield Problem(str(error), key="repo")
        else:
            if not self.repo or any(character in self.repo for character in "\0\n\r"):
                yield Problem("must be a git URL or a path", key="repo")
        if not is_commit(self.commit):
            yield Problem("must be a full commit of 40 or 64 lower-case hex digits", key="commit")
        for key, paths in (("path", [self.path]), ("sparse", self.sparse or [])):
            for path in paths:
                try:
                    check_inner_path(path)
                except ValueError as error:
                    yield Problem(str(error), key=key)
        if not self.command[0]:
            yield Problem("must begin with a program", key="command")
        for name, value in self.env.items():
            if not _VARIABLE.fullmatch(name) or "\0" in value:
                yield Problem("must be a variable's name and a text without NUL", key="env")
