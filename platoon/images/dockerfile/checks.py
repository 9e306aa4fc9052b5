"""What BuildKit refuses in an instruction whatever it builds on, and a plan would not notice: it has no use for it."""

from __future__ import annotations

import re

from platoon.config.text import clip
from platoon.images.dockerfile.parse import Instruction, operands, split_flags
from platoon.images.dockerfile.words import BadWordError, unquote

STAGE_NAME = re.compile(r"[a-z][a-z0-9_.-]*")
RUN_FLAGS = frozenset({"mount", "network", "security", "device"})
MOUNT_TYPES = frozenset({"bind", "cache", "tmpfs", "secret", "ssh"})
SWITCHES = frozenset({"link", "parents", "keep-git-dir", "unpack"})
NO_TRIGGERS = frozenset({"ONBUILD", "FROM", "MAINTAINER"})
_PORT = re.compile(r"([0-9]{1,5})(?:-([0-9]{1,5}))?(?:/(?:tcp|udp|sctp))?", re.IGNORECASE | re.ASCII)


def check_instruction(instruction: Instruction, escape: str) -> None:
    """Raises BadWordError. Text that holds variables is left to who expands it."""
    keyword = instruction.keyword
    if keyword == "ONBUILD":
        trigger = instruction.arguments.split(None, 1)[0].upper()
        if trigger in NO_TRIGGERS:
            raise BadWordError(f"ONBUILD takes no {trigger}")
    elif keyword == "RUN":
        _check_run(instruction)
    elif keyword in ("COPY", "ADD"):
        for name, value in split_flags(instruction)[0].items():
            if name in SWITCHES and value.lower() not in ("", "true", "false"):
                raise BadWordError(f"--{name} is true or false, got {clip(value, 20)}")
    elif keyword == "VOLUME":
        if any(not word.strip() for word in operands(instruction.arguments, escape)):
            raise BadWordError("VOLUME takes no empty path")
    elif keyword == "EXPOSE":
        for word in operands(instruction.arguments, escape):
            _check_port(word, escape)


def check_stage_name(name: str) -> None:
    """name: in lower case. Raises BadWordError."""
    if not STAGE_NAME.fullmatch(name):
        raise BadWordError(f"a stage's name is letters, digits, '_', '.' and '-' after a letter, got {clip(name, 40)}")


def _check_run(instruction: Instruction) -> None:
    flags, _ = split_flags(instruction)
    if unknown := sorted(set(flags) - RUN_FLAGS):
        raise BadWordError(f"RUN has no option --{clip(unknown[0], 40)}")
    for mount in flags.get("mount", "").split("\n"):
        for option in mount.split(","):
            name, _, value = option.partition("=")
            if name.lower() == "type" and "$" not in value and value.lower() not in MOUNT_TYPES:
                raise BadWordError(f"RUN --mount has no type {clip(value, 20) or 'without a name'}")


def _check_port(word: str, escape: str) -> None:
    if "$" in word:
        return
    text = unquote(word, escape)
    found = _PORT.fullmatch(text.rpartition(":")[2])
    if found is None or not int(found[1]) <= int(found[2] or found[1]) < 65536:
        raise BadWordError(f"EXPOSE takes ports up to 65535, with /tcp, /udp or /sctp, got {clip(text, 40)}")
