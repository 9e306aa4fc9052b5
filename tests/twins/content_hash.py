"""Twin of the content hash and its pattern language (`docs/reference/content-hash.md`)."""

from __future__ import annotations

import hashlib
import os
import re
from pathlib import Path

FILES = ("task.toml", "instruction.md", "README.md", "trajectory.json")
DIRECTORIES = ("environment", "tests", "solution", "steps")
DEFAULTS = "__pycache__/\n*.pyc\n.DS_Store\n*.swp\n*.swo\n*~\n"


def content_hash(root: Path) -> tuple[str, list[str]]:
    """The hash and the paths that entered, for a tree without links out of it."""
    ignore = root / ".gitignore"
    text = ignore.read_text("utf-8") if ignore.is_file() else DEFAULTS
    is_ignored(text, "any")  # a broken pattern is an error even where there is no file to test
    candidates = [name for name in FILES if (root / name).is_file()]
    for directory in DIRECTORIES:
        for folder, _, names in os.walk(root / directory):
            paths = (Path(folder) / name for name in names)
            candidates += [path.relative_to(root).as_posix() for path in paths if path.is_file()]
    entered = sorted(path for path in candidates if not is_ignored(text, path))
    lines = [path.encode() + b"\0" + hashlib.sha256((root / path).read_bytes()).hexdigest().encode() + b"\n" for path in entered]
    return hashlib.sha256(b"".join(lines)).hexdigest(), entered


def is_ignored(text: str, path: str) -> bool:
    """True where the last pattern that matches is not a negation. ValueError for a broken pattern."""
    verdict = False
    for line in text.splitlines():
        pattern = line if line.endswith("\\ ") else line.rstrip()
        if not pattern or pattern.startswith("#"):
            continue
        is_negated = pattern.startswith("!")
        if re.match(translate(pattern.removeprefix("!") if is_negated else pattern), path, re.DOTALL):
            verdict = not is_negated
    return verdict


def translate(pattern: str) -> str:
    """A regular expression that matches, from the start of a path, what the pattern matches."""
    if not pattern:
        raise ValueError("an empty pattern")
    if pattern in ("/", "*", "**", "**/*", "/**"):
        return ""
    if pattern in ("**/", "*/", "**/*/"):
        return ".*/"
    is_directory_only = pattern.endswith("/")
    body = pattern.removesuffix("/")
    is_anchored = "/" in body
    segments = body.removeprefix("/").split("/")
    if not is_anchored:
        segments.insert(0, "**")
    if is_directory_only:
        segments.append("**")
    segments = [segment for index, segment in enumerate(segments) if (segment, segments[index - 1 : index]) != ("**", ["**"])]
    if segments in (["**"], ["**", "*", "**"]):
        return ".*/"
    if segments == ["**", "*"]:
        return ""
    expression = ""
    for index, segment in enumerate(segments):
        is_last = index == len(segments) - 1
        if segment == "**":
            expression += "(?:.+/)?" if index == 0 else "/" if is_last else "(?:/.+)?"
            continue
        expression += "/" if index > 0 and not (index == 1 and segments[0] == "**") else ""
        expression += "[^/]+" if segment == "*" else glob(segment)
        if is_last:
            expression += r"\Z" if segment == "*" else r"(?:/|\Z)"
    return expression


def glob(segment: str) -> str:
    """A regular expression for one path segment."""
    out, index = "", 0
    while index < len(segment):
        character = segment[index]
        index += 1
        if character == "\\":
            if index == len(segment):
                raise ValueError("an escape of nothing")
            out += re.escape(segment[index])
            index += 1
        elif character == "*":
            out += "[^/]*"
        elif character == "?":
            out += "[^/]"
        elif character == "[" and (found := re.match(r"([!^]?)(\]?[^\]]*)\]", segment[index:])):
            if not found[2]:
                out += re.escape("[")
                continue
            out += f"[{'^' if found[1] else ''}{members(found[2])}]"
            index += found.end()
        else:
            out += re.escape(character)
    return out


def members(text: str) -> str:
    """The members of a class, with everything that means something to `re` escaped but ranges."""
    out, index = "", 0
    while index < len(text):
        if text[index + 1 : index + 2] == "-" and index + 2 < len(text):
            if text[index + 2] < text[index]:
                raise ValueError("a range that runs backwards")
            out += f"{re.escape(text[index])}-{re.escape(text[index + 2])}"
            index += 3
        else:
            out += re.escape(text[index])
            index += 1
    return out
