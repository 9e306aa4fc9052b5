"""Names of images as registries and builders take them, and the one platform that images are of. Pure.

reference_fault("registry.example:5000/team/app:1.0")  ->  None
"""

from __future__ import annotations

import re

from platoon.config.credentials import holds_userinfo
from platoon.config.text import show

PLATFORM = "linux/amd64"
REFERENCE_LIMIT = 600
NAME_LIMIT = 255

# The grammar of the distribution project: [domain[:port]/]path[:tag][@digest].
_LABEL = r"[A-Za-z0-9](?:[A-Za-z0-9-]*[A-Za-z0-9])?"
_DOMAIN = rf"(?:{_LABEL}(?:\.{_LABEL})*|\[[0-9A-Fa-f:.]+\])(?::[0-9]+)?"
_PATH = r"[a-z0-9]+(?:(?:\.|__?|-+)[a-z0-9]+)*"
_REFERENCE = re.compile(
    rf"(?P<name>(?:{_DOMAIN}/)?{_PATH}(?:/{_PATH})*)(?::[A-Za-z0-9_][A-Za-z0-9_.-]{{0,127}})?"
    r"(?:@(?:sha256:[0-9a-f]{64}|sha384:[0-9a-f]{96}|sha512:[0-9a-f]{128}))?"
)
# As containerd reads platforms; what says no architecture would be the builder's.
_ARCHITECTURE = "(?:amd64|x86[_-]64)"
_OUR_PLATFORM = re.compile(rf"{_ARCHITECTURE}|linux/{_ARCHITECTURE}(?:/v1)?", re.IGNORECASE | re.ASCII)
_IDENTIFIER = re.compile(r"[0-9a-f]{64}")


def is_our_platform(text: str) -> bool:
    """Whether a text is a way to write `PLATFORM`."""
    return _OUR_PLATFORM.fullmatch(text) is not None


def reference_fault(text: str) -> str | None:
    """Why a text names no image, a rule that shows no secret; None when it does."""
    if holds_userinfo(text):
        return "an image reference holds no user or password (registries have logins of their own)"
    found = _REFERENCE.fullmatch(text) if len(text) <= REFERENCE_LIMIT else None
    if found is None or len(found["name"]) > NAME_LIMIT or _IDENTIFIER.fullmatch(found["name"]):
        return f"an image reference is such as registry/name:tag or name@digest, the name in lower case, got {show(text)}"
    return None
