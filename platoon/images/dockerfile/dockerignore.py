"""`.dockerignore`: which files of a context a build does not see, by the rules of the engine's pattern matcher.

Each line is a pattern relative to the context's root (a leading `/` means nothing): `*` and `?` stop at `/`, `**` crosses it, `[…]`
is a class, `\\` escapes, `#` begins a comment line, `!` takes files back. A pattern matches a path or any of its parents; the last
pattern that matches decides. Unlike git's, a pattern without a slash matches at the root alone, and a file below an ignored
directory can be taken back.

    ignored = compile_ignore("**/*.log\\n!keep.log\\n")
    ignored("a/b.log"), ignored("keep.log")  ->  (True, False)
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable
from functools import lru_cache

from platoon.images.dockerfile.errors import DockerfileError

PATTERN_LIMIT = 10_000
REGEX_REPEATS = 3
# A pattern's answers: the files of one directory ask for the same parents.
DIRECTORIES_KEPT = 256

Token = str
STAR, ALL, DIRECTORIES = "*", "**", "**/"
_EXPRESSIONS = {STAR: "[^/]*", ALL: ".*", DIRECTORIES: "(?:.*/)?"}


def compile_ignore(text: str) -> Callable[[str], bool]:
    """Whether a file, by its path relative to the context, is ignored. Raises DockerfileError for a pattern that is none."""
    patterns: list[tuple[Callable[[str], bool], bool]] = []
    for number, line in enumerate(text.removeprefix("\ufeff").splitlines(), 1):
        if len(patterns) > PATTERN_LIMIT:
            raise DockerfileError(f"has more than {PATTERN_LIMIT} patterns", number, file=".dockerignore")
        pattern = line.strip()
        if not pattern or line.startswith("#"):
            continue
        takes_back = pattern.startswith("!")
        pattern = pattern[1:].strip() if takes_back else pattern
        pattern = _cleaned(pattern)
        if not pattern:
            if takes_back:
                raise DockerfileError("a single ! takes nothing back", number, file=".dockerignore")
            continue
        try:
            tokens = _tokens(pattern)
        except ValueError:
            raise DockerfileError(f"{pattern[:60]} is no pattern", number, file=".dockerignore") from None
        patterns.append((_matcher(tokens), takes_back))

    def ignored(path: str) -> bool:
        parts = path.split("/")
        prefixes = ["/".join(parts[:count]) for count in range(1, len(parts) + 1)]
        verdict = False
        for matches, takes_back in patterns:
            # A pattern can change the verdict only one way, so only those that would are tried.
            if takes_back == verdict and any(map(matches, prefixes)):
                verdict = not takes_back
        return verdict

    return ignored


def _cleaned(pattern: str) -> str:
    pattern = posixpath.normpath(pattern) if pattern else ""
    pattern = pattern.lstrip("/")
    return "" if pattern == "." else pattern


def _tokens(pattern: str) -> list[Token]:
    """The pattern's pieces: regular expressions for one character, or the marks of what repeats. Raises ValueError."""
    tokens: list[Token] = []
    position = 0
    while position < len(pattern):
        character = pattern[position]
        if pattern.startswith("**", position):
            position += 2
            if pattern[position : position + 1] == "/":
                position += 1
            # `**` at the end takes everything; before more it takes any number of whole directories.
            tokens.append(ALL if position >= len(pattern) else DIRECTORIES)
            continue
        if character == "*":
            tokens.append(STAR)
        elif character == "?":
            tokens.append("[^/]")
        elif character == "\\":
            position += 1
            if position >= len(pattern):
                raise ValueError
            tokens.append(re.escape(pattern[position]))
        elif character == "[":
            close = pattern.index("]", position + 2)
            inner = pattern[position + 1 : close]
            body = re.sub(r"([\[\]&~|])", r"\\\1", inner.removeprefix("^"))
            token = f"(?!/)[{'^' if inner.startswith('^') else ''}{body}]"
            try:
                re.compile(token)
            except re.error:
                raise ValueError from None
            tokens.append(token)
            position = close
        else:
            tokens.append(re.escape(character))
        position += 1
    return tokens


def _matcher(tokens: list[Token]) -> Callable[[str], bool]:
    """A regular expression where it cannot explode, else a walk over sets of states, whose cost is pattern times path."""
    repeats = [token for token in tokens if token in _EXPRESSIONS]
    if len(repeats) <= REGEX_REPEATS:
        whole = re.compile("".join(_EXPRESSIONS.get(token, token) for token in tokens), re.DOTALL)
        return lru_cache(DIRECTORIES_KEPT)(lambda path: whole.fullmatch(path) is not None)
    steps = [token if token in _EXPRESSIONS else re.compile(token, re.DOTALL) for token in tokens]
    return lru_cache(DIRECTORIES_KEPT)(lambda path: _walk(steps, path))


def _walk(steps: list[str | re.Pattern[str]], path: str) -> bool:
    states = _entered({0}, steps)
    for character in path:
        entered: set[int] = set()
        stayed: set[int] = set()
        for state in states:
            step = steps[state] if state < len(steps) else ""
            if not isinstance(step, str):
                entered |= {state + 1} if step.fullmatch(character) else set()
            elif step and (step != STAR or character != "/"):
                stayed.add(state)
                # A repeat may end after each character it takes; one of directories only after a whole one.
                entered |= {state + 1} if step != DIRECTORIES or character == "/" else set()
        states = stayed | _entered(entered, steps)
        if not states:
            return False
    return len(steps) in states


def _entered(states: set[int], steps: list[str | re.Pattern[str]]) -> set[int]:
    """The states, and those behind repeats that take nothing."""
    found = set(states)
    for state in states:
        reached = state
        while reached < len(steps) and isinstance(steps[reached], str):
            reached += 1
            found.add(reached)
    return found
