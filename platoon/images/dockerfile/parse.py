"""A Dockerfile's text as instructions, read as BuildKit reads it: directives, continuations, comments, here-documents.

Assumes nothing of the text. Guarantees that an instruction's `arguments` hold no continuation, no comment line and no blank around
them, and that the text of a here-document stands beside it unread.

    parse_dockerfile("FROM alpine\nRUN <<EOF\necho a\nEOF\n").instructions[1].heredocs[0].body  ->  "echo a\n"
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from platoon.artifacts.reading import parse_json
from platoon.config.text import clip
from platoon.images.dockerfile.errors import DockerfileError
from platoon.images.dockerfile.words import BACKSLASH, FIELD_BREAK, FIELD_SPACES, SPACES, BadWordError, split_words, unquote

SIZE_LIMIT_BYTES = 1024 * 1024
INSTRUCTION_LIMIT = 10_000
FLAG_LIMIT = 200
LINE_LIMIT_BYTES = 65_535
KEYWORDS = frozenset(
    (
        *("ADD", "ARG", "CMD", "COPY", "ENTRYPOINT", "ENV", "EXPOSE", "FROM", "HEALTHCHECK", "LABEL"),
        *("MAINTAINER", "ONBUILD", "RUN", "SHELL", "STOPSIGNAL", "USER", "VOLUME", "WORKDIR"),
    )
)
WITH_HEREDOCS = frozenset({"ADD", "COPY", "RUN"})
# Options by instruction. Those of SWITCHES need no value; those of REPEATED may be given again, and their values are joined.
OPTIONS: Mapping[str, frozenset[str]] = {
    "ADD": frozenset({"chown", "chmod", "link", "checksum", "keep-git-dir", "exclude", "unpack"}),
    "COPY": frozenset({"from", "chown", "chmod", "link", "parents", "exclude"}),
    "FROM": frozenset({"platform"}),
    "HEALTHCHECK": frozenset({"interval", "timeout", "start-period", "start-interval", "retries"}),
    "RUN": frozenset({"mount", "network", "security", "device"}),
}
SWITCHES = frozenset({"link", "parents", "keep-git-dir", "unpack"})
REPEATED = frozenset({"mount", "device", "exclude"})
DIRECTIVES = frozenset({"syntax", "escape", "check"})

_DIRECTIVE = re.compile(rf"#[{SPACES}]*([A-Za-z][A-Za-z0-9]*)[\t\f\r ]*=[\t\f\r ]*(.+?)[\t\f\r ]*")
_HEREDOC = re.compile(r"[0-9]*<<(-?)([^<]+)", re.DOTALL)


@dataclass(frozen=True)
class Heredoc:
    """One here-document: its delimiter, whether variables in it expand, and its lines (tabs stripped under `<<-`)."""

    name: str
    expands: bool
    body: str


@dataclass(frozen=True)
class Instruction:
    """keyword: in capitals. arguments: continuations joined, stripped. line: 1-based line it begins at."""

    keyword: str
    arguments: str
    line: int
    heredocs: tuple[Heredoc, ...] = ()

    @property
    def has_several_heredocs(self) -> bool:
        return len(self.heredocs) > 1

    @property
    def text(self) -> str:
        """As it enters a build key: keyword, arguments, then the bodies of here-documents.

        With several bodies each is ended by its delimiter: joined alone, the files `a` and `b` would read as `a\\nb` and nothing.
        """
        bodies = [heredoc.body + (heredoc.name if self.has_several_heredocs else "") for heredoc in self.heredocs]
        return "\n".join([f"{self.keyword} {self.arguments}", *bodies])


@dataclass(frozen=True)
class Dockerfile:
    """directives: the lines as written, stripped. escape: the escape character."""

    directives: tuple[str, ...]
    escape: str
    instructions: tuple[Instruction, ...]


def parse_dockerfile(text: str, *, file: str = "Dockerfile") -> Dockerfile:
    """The instructions of a text. Raises DockerfileError, naming the line."""
    if len(text) > SIZE_LIMIT_BYTES:
        raise DockerfileError(f"has more than {SIZE_LIMIT_BYTES} characters", file=file)
    if "\0" in text:
        raise DockerfileError("holds a NUL character", text[: text.index("\0")].count("\n") + 1, file=file)
    lines = [line.rstrip("\r") for line in text.removeprefix("\ufeff").split("\n")]
    if lines and not lines[-1]:
        lines.pop()
    for number, line in enumerate(lines, 1):
        if len(line) > LINE_LIMIT_BYTES or (not line.isascii() and len(line.encode("utf-8", "replace")) > LINE_LIMIT_BYTES):
            raise DockerfileError(f"a line has more than {LINE_LIMIT_BYTES} bytes", number, file=file)
    directives, escape = _directives(lines, file)
    instructions = tuple(_instructions(lines, escape, file))
    if not instructions:
        raise DockerfileError("holds no instruction", file=file)
    return Dockerfile(directives, escape, instructions)


def _directives(lines: list[str], file: str) -> tuple[tuple[str, ...], str]:
    written: list[str] = []
    values: dict[str, str] = {}
    for number, line in enumerate(lines, 1):
        found = _DIRECTIVE.fullmatch(line.lstrip(SPACES))
        if found is None or (name := found[1].lower()) not in DIRECTIVES:
            break
        if name in values:
            raise DockerfileError(f"the directive {name} is given twice", number, file=file)
        values[name] = found[2]
        written.append(line.strip(SPACES))
    escape = values.get("escape", BACKSLASH)
    if escape not in (BACKSLASH, "`"):
        raise DockerfileError(f"the escape character is \\ or `, got {escape[:20]}", file=file)
    return tuple(written), escape


def _instructions(lines: list[str], escape: str, file: str) -> Iterator[Instruction]:
    # An escape that is itself escaped continues nothing.
    continuation = re.compile(rf"(^|[^{re.escape(escape)}]){re.escape(escape)}[ \t]*$")
    position, count = 0, 0
    while position < len(lines):
        start, line = position + 1, lines[position].lstrip(SPACES)
        position += 1
        if not line or line.startswith("#"):
            continue
        joined = []
        continues = continuation.search(line)
        while continues and position <= len(lines):
            joined.append(line[: continues.start()] + continues[1])
            while position < len(lines) and _is_nothing(lines[position]):
                position += 1
            if position == len(lines):
                line = ""
                break
            line = lines[position]
            position += 1
            continues = continuation.search(line)
        instruction = _instruction("".join([*joined, line]), start, file)
        count += 1
        if count > INSTRUCTION_LIMIT:
            raise DockerfileError(f"has more than {INSTRUCTION_LIMIT} instructions", start, file=file)
        try:
            openings = list(_heredoc_openings(instruction))
        except BadWordError as error:
            raise DockerfileError(str(error), start, file=file) from None
        if openings:
            heredocs = []
            for name, strips, expands in openings:
                ended = _body(lines, position, name, strips=strips)
                if ended is None:
                    raise DockerfileError(f"the here-document {name[:40]} has no end", start, file=file)
                body, position = ended
                heredocs.append(Heredoc(name, expands, body))
            instruction = Instruction(instruction.keyword, instruction.arguments, start, tuple(heredocs))
        yield instruction


def _is_nothing(line: str) -> bool:
    stripped = line.strip(SPACES)
    return not stripped or stripped.startswith("#")


def _instruction(text: str, line: int, file: str) -> Instruction:
    word, arguments = split_keyword(text)
    keyword = _keyword(word)
    if keyword not in KEYWORDS:
        raise DockerfileError(f"unknown instruction {clip(word, 40) or '(a continued line without one)'}", line, file=file)
    if not arguments:
        raise DockerfileError(f"{keyword} needs an argument", line, file=file)
    return Instruction(keyword, arguments, line)


def split_keyword(text: str) -> tuple[str, str]:
    """The first word of a line, as written, and the rest."""
    word, *rest = FIELD_BREAK.split(text.strip(SPACES), 1)
    return word, "".join(rest).strip(SPACES)


def _keyword(word: str) -> str:
    """In upper case; letters that merely become one of ASCII there, such as a dotless i, make no keyword."""
    return word.upper() if word.isascii() else word


def _heredoc_openings(instruction: Instruction) -> Iterator[tuple[str, bool, bool]]:
    """Delimiter, whether tabs are stripped, whether the body expands; of each here-document in order.

    As BuildKit finds them: a backslash is the escape whatever the directive says, and a line with an open quote has none.
    """
    keyword, arguments = instruction.keyword, instruction.arguments
    if keyword == "ONBUILD":
        word, arguments = split_keyword(arguments)
        keyword = _keyword(word)
    if keyword not in WITH_HEREDOCS or "<<" not in arguments or json_words(arguments) is not None or _has_open_quote(arguments):
        return
    yield from filter(None, map(heredoc_opening, split_words(arguments, BACKSLASH)))


def heredoc_opening(word: str) -> tuple[str, bool, bool] | None:
    """Delimiter, whether tabs are stripped, whether the body expands; None for another word. Raises BadWordError."""
    found = _HEREDOC.fullmatch(word)
    name = "" if found is None else unquote(found[2], BACKSLASH)
    return None if found is None or not name else (name, bool(found[1]), name == found[2])


def _has_open_quote(text: str) -> bool:
    try:
        unquote(text, BACKSLASH)
    except BadWordError:
        return True
    return False


def _body(lines: list[str], position: int, name: str, *, strips: bool) -> tuple[str, int] | None:
    """The text up to the delimiter and the line after it; None when the file ends first."""
    body: list[str] = []
    while position < len(lines):
        line = lines[position].lstrip("\t") if strips else lines[position]
        position += 1
        if line == name:
            return "".join(f"{item}\n" for item in body), position
        body.append(line)
    return None


def json_words(arguments: str) -> list[str] | None:
    """The operands of the JSON form, None where the arguments are not in it.

    Raises BadWordError for a list of anything but text, and for a NUL that JSON escapes.
    """
    if not arguments.startswith("["):
        return None
    try:
        value = parse_json(arguments, parse_constant=_no_constant)
    except ValueError:
        return None
    if not isinstance(value, list):
        return None
    if not all(isinstance(item, str) for item in value):
        raise BadWordError(f"a JSON form holds text alone, got {clip(arguments)}")
    if any("\0" in item for item in value):
        raise BadWordError("holds a NUL character")
    return value


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is no JSON")


def split_flags(instruction: Instruction) -> tuple[dict[str, str], str]:
    """The `--name[=value]` options that begin an instruction (`""` without a value), and the rest.

    Variables and whatever quotes an option's own quotes leave in a value stay, for who expands it. Raises BadWordError for one that
    the instruction has not, that is given twice, or that lacks its value.
    """
    flags: dict[str, str] = {}
    keyword, rest = instruction.keyword, instruction.arguments
    count = 0
    while rest.startswith("--"):
        count += 1
        if count > FLAG_LIMIT:
            raise BadWordError(f"{keyword} has more than {FLAG_LIMIT} options")
        word, rest = _first_option(rest)
        if word == "--":
            break
        name, equals, value = word[2:].partition("=")
        if name not in OPTIONS.get(keyword, ()):
            raise BadWordError(f"{keyword} has no option --{clip(name, 40)}")
        if not equals and name not in SWITCHES:
            raise BadWordError(f"{keyword} --{name} needs a value")
        if name in SWITCHES and (value.lower() not in ("", "true", "false") or (equals and not value)):
            raise BadWordError(f"--{name} is true or false, got {clip(value, 20)}")
        if name in flags and name not in REPEATED:
            raise BadWordError(f"{keyword} has --{name} twice")
        # Each counts, so they are kept apart by a line break, which no option holds.
        flags[name] = f"{flags[name]}\n{value}" if name in flags else value
    return flags, rest.strip(SPACES)


def _first_option(text: str) -> tuple[str, str]:
    """The option that begins a text, without its quotes and backslashes, and what follows it.

    BuildKit takes them off before anything expands the value, in single quotes too, and the file's own escape character is none
    here: `--chown=\\$U` is the variable, `--chown=\\\\$U` a dollar. It reads them byte by byte, so they are of ASCII.
    """
    word: list[str] = []
    quote = ""
    position = 0
    while position < len(text) and (quote or text[position] not in FIELD_SPACES):
        character = text[position]
        position += 1
        if character == BACKSLASH:
            word.append(text[position : position + 1])
            position += 1
        elif character == quote:
            quote = ""
        elif not quote and character in "'\"":
            quote = character
        else:
            word.append(character)
    if quote:
        raise BadWordError(f"an open quote in {clip(text)}")
    if not text[:position].isascii():
        raise BadWordError(f"an option is of ASCII, got {clip(text[:position])}")
    return "".join(word), text[position:].lstrip(FIELD_SPACES)


def operands(rest: str) -> list[str]:
    """The words of a COPY, ADD or VOLUME after its options: the JSON form's, or the text's."""
    words = json_words(rest)
    return words if words is not None else fields(rest)


def fields(rest: str) -> list[str]:
    """The words of an instruction but ARG, ENV and LABEL: at blanks, in quotes too, quotes kept."""
    return FIELD_BREAK.split(rest)
