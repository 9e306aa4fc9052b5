"""A Dockerfile's text as instructions, read as BuildKit reads it: directives, continuations, comments, here-documents.

Assumes nothing of the text. Guarantees that an instruction's `arguments` hold no continuation, no comment line and no blank around
them, and that the text of a here-document stands beside it unread.

    parse_dockerfile("FROM alpine\nRUN <<EOF\necho a\nEOF\n").instructions[1].heredocs[0].body  ->  "echo a\n"
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from platoon.artifacts.reading import parse_json
from platoon.config.text import clip
from platoon.images.dockerfile.errors import DockerfileError
from platoon.images.dockerfile.words import BACKSLASH, SPACES, BadWordError, split_words, unquote

SIZE_LIMIT_BYTES = 1024 * 1024
INSTRUCTION_LIMIT = 10_000
FLAG_LIMIT = 200
KEYWORDS = frozenset(
    (
        *("ADD", "ARG", "CMD", "COPY", "ENTRYPOINT", "ENV", "EXPOSE", "FROM", "HEALTHCHECK", "LABEL"),
        *("MAINTAINER", "ONBUILD", "RUN", "SHELL", "STOPSIGNAL", "USER", "VOLUME", "WORKDIR"),
    )
)
WITH_HEREDOCS = frozenset({"ADD", "COPY", "RUN"})
WITH_FLAGS = frozenset({"ADD", "COPY", "FROM", "HEALTHCHECK", "RUN"})
DIRECTIVES = frozenset({"syntax", "escape", "check"})

_DIRECTIVE = re.compile(r"#\s*([A-Za-z][A-Za-z0-9]*)\s*=\s*(.+)", re.ASCII)
_HEREDOC = re.compile(r"[0-9]*<<(-?)([^<]+)", re.DOTALL)
_FLAG = re.compile(r"--[A-Za-z]")


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
        return "\n".join([f"{self.keyword} {self.arguments}".rstrip(), *bodies])


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
    lines = [line.removesuffix("\r") for line in text.removeprefix("\ufeff").split("\n")]
    if lines and not lines[-1]:
        lines.pop()
    directives, escape = _directives(lines, file)
    instructions = tuple(_instructions(lines, escape, file))
    if not instructions:
        raise DockerfileError("holds no instruction", file=file)
    return Dockerfile(directives, escape, instructions)


def _directives(lines: list[str], file: str) -> tuple[tuple[str, ...], str]:
    written: list[str] = []
    values: dict[str, str] = {}
    for number, line in enumerate(lines, 1):
        found = _DIRECTIVE.fullmatch(line.strip())
        if found is None or (name := found[1].lower()) not in DIRECTIVES:
            break
        if name in values:
            raise DockerfileError(f"the directive {name} is given twice", number, file=file)
        values[name] = found[2]
        written.append(line.strip())
    escape = values.get("escape", BACKSLASH)
    if escape not in (BACKSLASH, "`"):
        raise DockerfileError(f"the escape character is \\ or `, got {escape[:20]}", file=file)
    return tuple(written), escape


def _instructions(lines: list[str], escape: str, file: str) -> Iterator[Instruction]:
    # An escape that is itself escaped continues nothing.
    continuation = re.compile(rf"(^|[^{re.escape(escape)}]){re.escape(escape)}[ \t]*$")
    position, count = 0, 0
    while position < len(lines):
        start, line = position + 1, lines[position].lstrip()
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
        if instruction is None:
            continue
        count += 1
        if count > INSTRUCTION_LIMIT:
            raise DockerfileError(f"has more than {INSTRUCTION_LIMIT} instructions", start, file=file)
        try:
            openings = list(_heredoc_openings(instruction, escape))
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
    stripped = line.strip()
    return not stripped or stripped.startswith("#")


def _instruction(text: str, line: int, file: str) -> Instruction | None:
    words = text.strip().split(None, 1)
    if not words:
        return None
    keyword = _keyword(words[0])
    if keyword not in KEYWORDS:
        raise DockerfileError(f"unknown instruction {words[0][:40]}", line, file=file)
    arguments = words[1].strip() if len(words) > 1 else ""
    if not arguments:
        raise DockerfileError(f"{keyword} needs an argument", line, file=file)
    return Instruction(keyword, arguments, line)


def _keyword(word: str) -> str:
    """In upper case; letters that merely become one of ASCII there, such as a dotless i, make no keyword."""
    return word.upper() if word.isascii() else word


def _heredoc_openings(instruction: Instruction, escape: str) -> Iterator[tuple[str, bool, bool]]:
    """Delimiter, whether tabs are stripped, whether the body expands; of each here-document in order."""
    keyword, arguments = instruction.keyword, instruction.arguments
    if keyword == "ONBUILD":
        words = arguments.split(None, 1)
        keyword, arguments = _keyword(words[0]), words[1] if len(words) > 1 else ""
    if keyword not in WITH_HEREDOCS or "<<" not in arguments or json_words(arguments) is not None:
        return
    for word in split_words(arguments, escape):
        found = _HEREDOC.fullmatch(word)
        if found is not None and (name := unquote(found[2], escape)):
            yield name, bool(found[1]), name == found[2]


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
    """The operands of the JSON form, None where the arguments are not in it. Raises BadWordError for a NUL that JSON escapes."""
    if not arguments.startswith("["):
        return None
    try:
        value = parse_json(arguments)
    except ValueError:
        return None
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        return None
    if any("\0" in item for item in value):
        raise BadWordError("holds a NUL character")
    return value


def split_flags(instruction: Instruction) -> tuple[dict[str, str], str]:
    """The `--name[=value]` options that begin an instruction (`""` without a value; the last of a name counts), and the rest.

    Variables and whatever quotes an option's own quotes leave in a value stay, for who expands it. Raises BadWordError for a word
    that is none, and for too many options.
    """
    flags: dict[str, str] = {}
    rest = instruction.arguments
    count = 0
    while instruction.keyword in WITH_FLAGS and _FLAG.match(rest):
        count += 1
        if count > FLAG_LIMIT:
            raise BadWordError(f"{instruction.keyword} has more than {FLAG_LIMIT} options")
        word, rest = _first_option(rest)
        name, _, value = word[2:].partition("=")
        # `--mount` may be repeated; each counts, so they are kept apart by a line break, which no flag holds.
        flags[name] = f"{flags[name]}\n{value}" if name == "mount" and name in flags else value
    if rest.startswith("-- "):
        rest = rest[3:].lstrip()
    return flags, rest


def _first_option(text: str) -> tuple[str, str]:
    """The option that begins a text, without its quotes and backslashes, and what follows it.

    BuildKit takes them off before anything expands the value, in single quotes too, and the file's own escape character is none
    here: `--chown=\\$U` is the variable, `--chown=\\\\$U` a dollar.
    """
    word: list[str] = []
    quote = ""
    position = 0
    while position < len(text) and (quote or text[position] not in SPACES):
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
    return "".join(word), text[position:].lstrip()


def operands(rest: str, escape: str) -> list[str]:
    """The words of an instruction after its flags: the JSON form's, or the text's, quotes kept."""
    words = json_words(rest)
    return words if words is not None else list(split_words(rest, escape))
