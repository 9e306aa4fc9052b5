"""The `--mount` options of a RUN, read as BuildKit reads them."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Mapping

from platoon.config.text import clip
from platoon.images.dockerfile.parse import Instruction, split_flags
from platoon.images.dockerfile.words import BadWordError

# The default first.
MOUNT_TYPES = ("bind", "cache", "tmpfs", "secret", "ssh")
_SWITCHES = frozenset({"readonly", "ro", "readwrite", "rw", "required"})
_KEYS = _SWITCHES | {
    *("type", "from", "source", "src", "target", "dst", "destination"),
    *("id", "sharing", "size", "mode", "uid", "gid", "env"),
}


def mounts(instruction: Instruction) -> Iterator[Mapping[str, str]]:
    """The options of each mount: keys in lower case, values as written. Raises BadWordError for what is no mount."""
    flags, _ = split_flags(instruction)
    for text in flags["mount"].split("\n") if "mount" in flags else ():
        try:
            (words,) = csv.reader([text], strict=True)
        except (csv.Error, ValueError):
            raise BadWordError(f"RUN --mount has options with commas between them, got {clip(text, 40)}") from None
        options = {}
        for word in words or [""]:
            key, equals, value = word.partition("=")
            key = key.lower()
            if key not in _KEYS or (not equals and key not in _SWITCHES):
                raise BadWordError(f"RUN --mount has no option {clip(word, 40) or 'without a name'}")
            options[key] = value
        if "$" not in (kind := options.get("type", MOUNT_TYPES[0])) and kind.lower() not in MOUNT_TYPES:
            raise BadWordError(f"RUN --mount has no type {clip(kind, 20) or 'without a name'}")
        yield options


def binds_context(mount: Mapping[str, str]) -> bool:
    """Whether a mount may show files of the context: one without `from` of type bind, or of a type that a variable gives."""
    return not mount.get("from") and mount.get("type", MOUNT_TYPES[0]).lower() not in MOUNT_TYPES[1:]
