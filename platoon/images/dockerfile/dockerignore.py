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

from platoon.images.dockerfile.errors import DockerfileError

PATTERN_LIMIT = 10_000


def compile_ignore(text: str) -> Callable[[str], bool]:
    """Whether a file, by its path relative to the context, is ignored. Raises DockerfileError for a pattern that is none."""
    patterns: list[tuple[re.Pattern[str], bool]] = []
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
            patterns.append((re.compile(_regex(pattern), re.DOTALL), takes_back))
        except (re.error, ValueError):
            raise DockerfileError(f"{pattern[:60]} is no pattern", number, file=".dockerignore") from None

    def ignored(path: str) -> bool:
        parts = path.split("/")
        prefixes = ["/".join(parts[:count]) for count in range(1, len(parts) + 1)]
        verdict = False
        for expression, takes_back in patterns:
            # A pattern can change the verdict only one way, so only those that would are tried.
            if takes_back == verdict and any(expression.fullmatch(prefix) for prefix in prefixes):
                verdict = not takes_back
        return verdict

    return ignored


def _cleaned(pattern: str) -> str:
    pattern = posixpath.normpath(pattern) if pattern else ""
    pattern = pattern.lstrip("/")
    return "" if pattern == "." else pattern


def _regex(pattern: str) -> str:
    out: list[str] = []
    position = 0
    while position < len(pattern):
        character = pattern[position]
        if character == "*":
            if pattern[position + 1 : position + 2] == "*":
                position += 2
                if pattern[position : position + 1] == "/":
                    position += 1
                # `**` alone at the end takes everything; before more it takes any number of whole directories.
                out.append(".*" if position >= len(pattern) else "(?:.*/)?")
                continue
            out.append("[^/]*")
        elif character == "?":
            out.append("[^/]")
        elif character == "\\":
            position += 1
            if position >= len(pattern):
                raise ValueError
            out.append(re.escape(pattern[position]))
        elif character == "[":
            close = pattern.index("]", position + 2)
            inner = pattern[position + 1 : close]
            negated = inner.startswith("^")
            body = re.sub(r"([\[\]&~|])", r"\\\1", inner[negated:])
            out.append(f"(?!/)[{'^' if negated else ''}{body}]")
            position = close
        else:
            out.append(re.escape(character))
        position += 1
    return "".join(out)
