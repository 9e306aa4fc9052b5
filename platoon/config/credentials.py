"""Secrets in texts that somebody else wrote, found by their form: users and passwords of addresses, parameters, headers, tokens.

Every search is linear in the text: errors of programs and values of configurations come through here, whoever wrote them.

    hide_credentials("fatal: https://me:pw@host/x?token=1")  ->  "fatal: https://***@host/x?token=***"
"""

from __future__ import annotations

import re
from urllib.parse import unquote

HIDDEN = "***"
# What a parameter is called that holds a secret: these words anywhere in its name, or these short names alone.
_SECRET_NAME = re.compile(
    r"token|secret|passw|signature|credential|api[-_]?key|access[-_]?key|auth|jwt|session|^(?:key|sig|pw|pwd|pat)$", re.IGNORECASE
)
# Headers and variables are told by fewer words: these texts are prose too.
_SECRET_HEADER = re.compile(
    r"authorization|cookie|passw(?!ords)|secret(?!s)|api[-_]?key|access[-_]?key|credential|(?:^|[-_])(?:token|pwd|pat)$",
    re.IGNORECASE,
)

_RUN = re.compile(r"[^ \t\r\n\x0b\x0c]+")
# Where the host of an address may begin, its slashes miscounted too, and what ends it.
_HOST = re.compile(r"/{2,}|(?<=:)/")
_AFTER_HOST = re.compile(r"[/?#]")
_PORT = re.compile(r"[^:]*(?::[0-9]{0,5})?|\[[0-9A-Fa-f:.%]*\](?::[0-9]{0,5})?")
_AT = re.compile(r"@|%40")
_COLON = re.compile(r":|%3a", re.IGNORECASE)
_DIGEST = re.compile(r"sha(?:256|512):")
# `name@version` stands there, and no user.
_WITHOUT_USERS = ("hf:", "harbor:")
# A program's repository, by its path or as SSH has it, and its commit.
_COMMIT = re.compile(r"(?:[0-9a-f]{40}|[0-9a-f]{64})(?![0-9a-f])")
_ADAPTER = re.compile(rf"(?:^|(?<=[^\w@:.-]))adapter:(?:[^:@]*@(?={_COMMIT.pattern})|git@(?=[^:@]+:))")

_PARAMETER = re.compile(r"(?P<start>[?&;])(?P<name>[\w.%-]+)=[^&;#\s'\"]+")
_HEADER = re.compile(
    r"(?<![\w-])(?P<name>[\w-]+)(?P<sign>[\"']?[ \t]{0,4}[:=][ \t]{0,4}[\"']?)"
    r"(?:(?:Bearer|Basic|Digest|Token)[ \t]{1,4})?(?!\*\*\*)[^\s\"',;\[\]{}()<>]+",
    re.IGNORECASE,
)
_BEARER = re.compile(r"(?<![\w-])(Bearer[ \t]{1,4})[\w.~+/=-]{6,}", re.IGNORECASE)
_TOKEN = re.compile(
    r"(?<![\w-])(?:sk-(?=[A-Za-z_-]*[0-9])[\w-]{8,}|hf_(?:(?=[a-z]*[0-9A-Z])[A-Za-z0-9]{6,}|[a-z]{20,})(?!\w)"
    r"|gh[opsur]_[A-Za-z0-9]{16,}|github_pat_\w{16,}|glpat-[\w-]{16,}|xox[a-z]-[\w-]{8,}|AKIA[0-9A-Z]{16}"
    r"|eyJ[\w-]{8,}\.[\w-]{8,}\.[\w-]*)"
)


def names_secret(name: str) -> bool:
    """Whether a parameter of this name holds a secret."""
    return _SECRET_NAME.search(unquote(name)) is not None


def holds_userinfo(text: str) -> bool:
    """Whether a text has a user and password before an `@`, as an address has them or nearly so; an SSH address's user is none."""
    return hide_userinfo(text) != text


def hide_userinfo(text: str) -> str:
    """Text with `***` for users and passwords before an `@`; the part of `hide_credentials` that no prose is taken for."""
    if _AT.search(text) is None:
        return text
    return _RUN.sub(lambda match: _hidden_in_run(match[0]), text)


def hide_credentials(text: str) -> str:
    """Text with `***` for what looks like a secret: users and passwords, parameters and headers of such names, known tokens.

    The user alone of an SSH address (`ssh://git@host`) is no secret and stays.
    """
    text = _PARAMETER.sub(_without_parameter, hide_userinfo(text))
    text = _HEADER.sub(_without_header, text)
    return _TOKEN.sub(HIDDEN, _BEARER.sub(rf"\g<1>{HIDDEN}", text))


def _without_parameter(match: re.Match[str]) -> str:
    return f"{match['start']}{match['name']}={HIDDEN}" if names_secret(match["name"]) else match[0]


def _without_header(match: re.Match[str]) -> str:
    return f"{match['name']}{match['sign']}{HIDDEN}" if _SECRET_HEADER.search(match["name"]) else match[0]


def _hidden_in_run(run: str) -> str:
    last = _after_at(run)
    if not last:
        return run
    out: list[str] = []
    position = 0
    while position < last and (start := _HOST.search(run, position)) is not None:
        out += [_hidden_in_path(run[position : start.start()]), start[0]]
        before, position = run[: start.start()][-10:].lower(), start.end()
        if before.endswith("file:") and len(start[0]) > len("//"):
            # No host: a path begins.
            continue
        ended = _AFTER_HOST.search(run, position)
        host = run[position : ended.start() if ended is not None else len(run)]
        cut = position + _after_at(host)
        # A port that is none is half a password, whose other half has a slash or what else ends a host.
        if cut == position and not _PORT.fullmatch(host):
            cut = max(last, position)
        user = run[position:cut]
        if user:
            out.append(user if _is_plain(user, before, run[cut : cut + 65]) else f"{HIDDEN}@")
            position = cut
    return "".join([*out, _hidden_in_path(run[position:])])


def _is_plain(user: str, before: str, after: str) -> bool:
    """Whether what ends in an `@` is no secret: a user of SSH, a name before a version or a digest."""
    if _DIGEST.match(after):
        return True
    without_secret = before.endswith(("ssh:", *_WITHOUT_USERS)) or (before.endswith("adapter:") and _COMMIT.match(after))
    return bool(without_secret) and _COLON.search(user) is None


def _hidden_in_path(text: str) -> str:
    """Text that is no host: `user:password@` between slashes."""
    if not _after_at(text):
        return text
    pieces = text.split("/")
    for index, piece in enumerate(pieces):
        cut = _after_at(piece)
        plain = _ADAPTER.search(piece)
        if plain is not None and plain.end() == cut:
            continue
        if cut and _COLON.search(piece, 0, cut) is not None and not _DIGEST.match(piece, cut):
            pieces[index] = f"{HIDDEN}@{piece[cut:]}"
    return "/".join(pieces)


def _after_at(text: str) -> int:
    """The place after the last `@`, encoded or not; 0 where there is none."""
    plain, encoded = text.rfind("@"), text.rfind("%40")
    return 0 if plain < 0 and encoded < 0 else plain + 1 if plain > encoded else encoded + 3
