"""Words of Dockerfiles: splitting, quotes, and expansion of variables as BuildKit's shell rules have them.

A value may be unknown (None): it depends on the base image, whose environment a plan does not know. Whatever uses one is unknown.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from platoon.config.text import clip
from platoon.images.dockerfile.patterns import BadPatternError, replaced, trimmed

BACKSLASH = "\\"
NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
# What follows the `$` of a variable in braces, up to its first operand.
_BRACED = re.compile(rf"\{{(?:(?P<name>{NAME.pattern})(?P<operator>:?[-+?#%]|//?)?)?")
# The kernel hands no longer variable or argument to a program.
RESULT_LIMIT = 128 * 1024
NESTING_LIMIT = 20
# Two kinds of blanks, as BuildKit has them. SPACES end words of ARG, ENV and LABEL and stand around a line and its arguments;
# between the words of all other instructions, and behind a keyword and an option, only FIELD_SPACES count.
FIELD_SPACES = "\t\v\f\r "
SPACES = f"{FIELD_SPACES}\n\x85\xa0\u1680{''.join(map(chr, range(0x2000, 0x200B)))}\u2028\u2029\u202f\u205f\u3000"
FIELD_BREAK = re.compile(rf"[{FIELD_SPACES}]+")

# Name to whether it is set, and its value: None where no plan can know it.
Lookup = Callable[[str], "tuple[bool, str | None]"]
# Where a `$` stands to what it begins there, None where no plan can know it, and where the word goes on.
VariableAt = Callable[[int], "tuple[str | None, int]"]


class BadWordError(ValueError):
    """Text that is no word: an open quote or brace, an operator that is not known, or a pattern that is none."""


def split_words(text: str, escape: str) -> Iterator[str]:
    """Words of ARG, ENV and LABEL: at unquoted blanks, quotes and escapes kept as written."""
    word: list[str] = []
    quote = ""
    position = 0
    while position < len(text):
        character = text[position]
        if character == escape and quote != "'":
            word.append(text[position : position + 2])
            position += 2
            continue
        if quote:
            quote = "" if character == quote else quote
        elif character in "'\"":
            quote = character
        elif character in SPACES:
            if word:
                yield "".join(word)
                word = []
            position += 1
            continue
        word.append(character)
        position += 1
    if word:
        yield "".join(word)


def unquote(word: str, escape: str) -> str:
    """A word without its quotes and escapes; variables stay as written. Raises BadWordError for an open quote."""
    return "".join(text or "" for text, _ in _pieces(word, escape, lambda position: ("$", position + 1)))


def expand(word: str, escape: str, lookup: Lookup) -> str | None:
    """A word with quotes removed and variables replaced; None when one of them is unknown. Raises BadWordError."""
    return _expand(word, escape, lookup, 0)


def _expand(word: str, escape: str, lookup: Lookup, depth: int, *, is_pattern: bool = False) -> str | None:
    if depth > NESTING_LIMIT:
        raise BadWordError(f"defaults are nested deeper than {NESTING_LIMIT} levels")
    pieces = _pieces(word, escape, lambda position: _variable(word, position, escape, lookup, depth), keeps_escapes=is_pattern)
    out, size = [], 0
    for text, is_variable in pieces:
        size += len(text or "") if is_variable else 0
        if size > RESULT_LIMIT:
            raise _too_long(word)
        out.append(text)
    return None if None in out else "".join(text or "" for text in out)


def _too_long(word: str) -> BadWordError:
    return BadWordError(f"{clip(word)} becomes longer than {RESULT_LIMIT} characters")


def deferred_text(word: str, escape: str) -> str:
    """A word without quotes whose variables still expand.

    A literal `$` becomes `\\$`, backslashes before a `$` are doubled, and a name that only a quote or an escape ended gets braces.
    Raises BadWordError for an open quote or brace.
    """
    out: list[str] = []
    slashes = 0
    for text, is_variable in _pieces(word, escape, lambda position: _deferred_variable(word, position, escape)):
        if is_variable or text == "$":
            out.append(BACKSLASH * slashes + ("" if is_variable else BACKSLASH))
        out.append(text or "")
        if text:
            slashes = slashes + 1 if text == BACKSLASH else 0
    return "".join(out)


def _pieces(word: str, escape: str, variable: VariableAt, *, keeps_escapes: bool = False) -> Iterator[tuple[str | None, bool]]:
    """Pieces of a word without quotes and escapes, and whether `variable` gave them. Raises BadWordError for an open quote."""
    quote = ""
    position = 0
    while position < len(word):
        character = word[position]
        if character == escape and quote != "'":
            following = word[position + 1 : position + 2]
            if keeps_escapes:
                yield escape, False
            if quote == '"' and following not in ('"', "$", escape):
                yield escape, False
            yield following, False
            position += 2
        elif character == quote or (not quote and character in "'\""):
            quote = "" if character == quote else character
            position += 1
        elif character == "$" and quote != "'":
            text, position = variable(position)
            yield text, True
        else:
            yield character, False
            position += 1
    if quote:
        raise BadWordError(f"an open quote in {clip(word)}")


def _deferred_variable(word: str, position: int, escape: str) -> tuple[str, int]:
    """A variable as a session reads it, and where the word goes on."""
    end = _variable_end(word, position, escape)
    text = word[position:end]
    if text.startswith("${") and escape != BACKSLASH and (escape in text or BACKSLASH in text):
        raise BadWordError(f"{clip(text, 40)} is expanded by the build")
    ended = word[end : end + 1]
    if text.startswith("${") or not ended or ended not in f"'\"{escape}":
        return text, end
    # What follows would be read as its name, or as more of it. A `$` without a name is a dollar.
    return f"${{{text[1:]}}}" if len(text) > 1 else f"{BACKSLASH}$", end


def _variable_end(word: str, position: int, escape: str) -> int:
    if (braced := _BRACED.match(word, position + 1)) is not None:
        return _operands(word, braced, escape)[1]
    found = NAME.match(word, position + 1) or re.compile(r"[0-9]").match(word, position + 1)
    return found.end() if found is not None else position + 1


def expand_deferred(value: str, variables: dict[str, str]) -> str:
    """What a session makes of a deferred value, with the operators of BuildKit; `\\$` is a dollar, unset expands to nothing.

    Raises BadWordError for an open brace, an unknown operator, and a result that is too long.
    """
    out: list[str] = []
    position = size = 0
    while position < len(value):
        run = re.compile(r"\\*").match(value, position)
        assert run is not None
        slashes, after = len(run[0]), run.end()
        if value[after : after + 1] != "$":
            out.append(run[0] + value[after : after + 1])
            position = after + 1
            continue
        out.append(BACKSLASH * (slashes // 2))
        if slashes % 2:
            out.append("$")
            position = after + 1
            continue
        text, position = _variable(value, after, BACKSLASH, lambda name: (name in variables, variables.get(name, "")), 0)
        out.append(text or "")
        size += len(out[-1])
        if size > RESULT_LIMIT:
            raise _too_long(value)
    return "".join(out)


def _variable(text: str, position: int, escape: str, lookup: Lookup, depth: int) -> tuple[str | None, int]:
    """The value of the variable at a `$`, and where the text goes on."""
    braced = _BRACED.match(text, position + 1)
    if braced is None:
        found = NAME.match(text, position + 1) or re.compile(r"[0-9]").match(text, position + 1)
        if found is None:
            return "$", position + 1
        return lookup(found[0])[1], found.end()
    name, operator = braced["name"], braced["operator"]
    if name is None:
        raise BadWordError(f"no variable name in {text[position : position + 40]}")
    words, end = _operands(text, braced, escape)
    is_set, value = lookup(name)
    if operator is None:
        if words != [""]:
            raise BadWordError(f"an operator that is not known here in {text[position : position + 40]}")
        return value, end
    is_pattern = operator[-1] in "#%/"
    operands = [_expand(word, escape, lookup, depth + 1, is_pattern=is_pattern) for word in words]
    if is_pattern:
        return _matched(name, operator, value, operands), end
    return _applied(name, operator, is_set, value, operands[0]), end


def _operands(text: str, braced: re.Match[str], escape: str) -> tuple[list[str], int]:
    """What an operator is followed by, as written, and where the text goes on behind the brace."""
    words, start = [], braced.end()
    for stop in "/}" if (braced["operator"] or "").startswith("/") else "}":
        end = _closing(text, start, escape, stop)
        words.append(text[start:end])
        start = end + 1
    return words, start


def _applied(name: str, operator: str, is_set: bool, value: str | None, word: str | None) -> str | None:
    if is_set and value is None:
        return None
    holds = is_set and (not operator.startswith(":") or value != "")
    if operator.endswith("+"):
        return word if holds else ""
    if operator.endswith("?") and not holds:
        raise BadWordError(f"{name} has no value, and needs one: {clip(word or 'no reason is given')}")
    return value if holds else word


def _matched(name: str, operator: str, value: str | None, operands: list[str | None]) -> str | None:
    known = [operand for operand in operands if operand is not None]
    if value is None or len(known) < len(operands):
        return None
    pattern = known[0]
    try:
        if operator.startswith("/"):
            return replaced(value, pattern, known[1], every=operator == "//")
        # As BuildKit has it, even where the second sign is quoted or a variable's.
        longest = pattern.startswith(operator[-1])
        return trimmed(value, pattern[longest:], at_end=operator.endswith("%"), longest=longest)
    except BadPatternError as error:
        raise BadWordError(f"${{{name}{operator}…}}: {error}") from None


def _closing(text: str, position: int, escape: str, stop: str) -> int:
    """Where what begins at a position ends: at the first `stop` that is neither quoted nor in a variable's braces."""
    opened = [stop]
    while position < len(text):
        character, closes = text[position], opened[-1]
        if character == escape and closes != "'":
            position += 2
            continue
        if character == closes:
            opened.pop()
            if not opened:
                return position
        elif text.startswith("${", position) and closes != "'":
            opened.append("}")
            position += 1
        elif character in "'\"" and closes not in "'\"":
            opened.append(character)
        position += 1
    raise BadWordError(f"{'an open brace' if stop == '}' else f'no {stop} behind the pattern'} in {clip(text)}")
