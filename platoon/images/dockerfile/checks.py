"""What BuildKit refuses in an instruction whatever it builds on, and a plan would not notice: it has no use for it."""

from __future__ import annotations

import re

from platoon.config.text import clip
from platoon.images.dockerfile.parse import Instruction, fields, json_words, operands, split_flags, split_keyword
from platoon.images.dockerfile.scope import environment_pairs
from platoon.images.dockerfile.words import BadWordError, unquote

STAGE_NAME = re.compile(r"[a-z][a-z0-9_.-]*")
RUN_VALUES = {"network": ("default", "none", "host"), "security": ("sandbox", "insecure")}
JSON_FORMS = frozenset({"ADD", "CMD", "COPY", "ENTRYPOINT", "RUN", "SHELL", "VOLUME"})
NO_TRIGGERS = frozenset({"ONBUILD", "FROM", "MAINTAINER"})
_PORT = re.compile(r"([0-9]{1,5})(?:-([0-9]{1,5}))?(?:/(?:tcp|udp|sctp))?", re.IGNORECASE | re.ASCII)


def check_instruction(instruction: Instruction, escape: str) -> None:
    """Raises BadWordError. Text that holds variables is left to who expands it."""
    keyword = instruction.keyword
    flags, rest = split_flags(instruction)
    if keyword in JSON_FORMS:
        json_words(rest)
    if keyword == "ONBUILD":
        trigger = split_keyword(rest)[0].upper()
        if trigger in NO_TRIGGERS:
            raise BadWordError(f"ONBUILD takes no {trigger}")
    elif keyword == "RUN":
        for name, values in RUN_VALUES.items():
            if flags.get(name, values[0]) not in values:
                raise BadWordError(f"RUN --{name} is {', '.join(values)}, got {clip(flags[name], 20)}")
    elif keyword == "LABEL":
        environment_pairs(instruction, escape)
    elif keyword == "VOLUME":
        if any(not word.strip() for word in operands(rest)):
            raise BadWordError("VOLUME takes no empty path")
    elif keyword == "EXPOSE":
        for word in fields(rest):
            _check_port(word, escape)


def check_stage_name(name: str) -> None:
    """name: in lower case. Raises BadWordError."""
    if not STAGE_NAME.fullmatch(name):
        raise BadWordError(f"a stage's name is letters, digits, '_', '.' and '-' after a letter, got {clip(name, 40)}")


def _check_port(word: str, escape: str) -> None:
    if "$" in word:
        return
    text = unquote(word, escape)
    found = _PORT.fullmatch(text.rpartition(":")[2])
    if found is None or not int(found[1]) <= int(found[2] or found[1]) < 65536:
        raise BadWordError(f"EXPOSE takes ports up to 65535, with /tcp, /udp or /sctp, got {clip(text, 40)}")
