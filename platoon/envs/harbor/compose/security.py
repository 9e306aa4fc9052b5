"""What a service may do and as whom: privileges, capabilities, users, network modes, platforms."""

from __future__ import annotations

from typing import Any

from platoon.envs.harbor.compose import values
from platoon.envs.harbor.compose.errors import ComposeError
from platoon.envs.harbor.compose.reading import Draft, Reading
from platoon.images.image_reference import PLATFORM, is_our_platform

# A user namespace's own, as in Docker's default set; anything else is a privilege.
ROOTLESS = frozenset(
    (
        *("AUDIT_WRITE", "CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", "KILL", "MKNOD", "NET_BIND_SERVICE", "NET_RAW"),
        *("SETFCAP", "SETGID", "SETPCAP", "SETUID", "SYS_CHROOT"),
    )
)
ROOT_USERS = frozenset({"root", "0", "0:0", "root:root", "0:root", "root:0"})
PRIVILEGES_ADVICE = "refuse: {privileges: false} plans it, for docker"


def read_privileged(value: Any, draft: Draft, reading: Reading) -> None:
    """`privileged` of a sidecar; main's is refused before."""
    if values.switch(value):
        if not reading.privileged:
            raise ComposeError(f"is a privilege ({PRIVILEGES_ADVICE})")
        draft.privileges["privileged"] = True


def read_cap_add(value: Any, draft: Draft, reading: Reading) -> None:
    found = _capabilities(value)
    privileged = [name for name in found if name not in ROOTLESS]
    if privileged:
        if draft.role == "main":
            raise ComposeError(f"{', '.join(privileged)} is more than a rootless root holds, which main never gets")
        if not reading.privileged:
            raise ComposeError(f"{', '.join(privileged)} is a privilege ({PRIVILEGES_ADVICE})")
        draft.privileges["cap_add"] = privileged
    if held := tuple(name for name in found if name in ROOTLESS):
        draft.plan["cap_add"] = held


def read_cap_drop(value: Any, draft: Draft) -> None:
    draft.plan["cap_drop"] = tuple(_capabilities(value))


def read_security_opt(value: Any, draft: Draft) -> None:
    values.unique(values.sequence(value))
    for item in value:
        option = values.known(item).replace("=", ":")
        if option not in ("no-new-privileges", "no-new-privileges:true", "no-new-privileges:false"):
            raise ComposeError(f"only no-new-privileges is planned, got {option[:60]}")
        if draft.role == "sidecar" and not option.endswith("false"):
            draft.plan["no_new_privileges"] = True


def read_user(value: Any, draft: Draft) -> None:
    """A sidecar's user as written; main's only when it is not root."""
    user = values.known(values.only_text(value))
    if "\n" in user or "\0" in user or len(user) > 100:
        raise ComposeError("is a user name or number on one line")
    draft.plan["user"] = user or None


def read_network_mode(value: Any, draft: Draft) -> None:
    mode = draft.network_mode = values.known(value)
    if mode == "none":
        draft.networks = None
        draft.plan["network"] = "none"
    elif mode not in ("bridge", "default", ""):
        raise ComposeError(f"is bridge, default or none, got {mode[:60]}: it would share a network that is not the stack's")


def read_platform(value: Any) -> None:
    platform = values.known(value)
    if platform and not is_our_platform(platform):
        raise ComposeError(f"stacks run {PLATFORM}, got {platform[:40]} (an overlay's [[compose]] can unset it)")


def read_ipc(value: Any) -> None:
    mode = values.known(value)
    if mode not in ("", "private", "shareable"):
        raise ComposeError(f"is private or shareable, got {mode[:60]}")


def _capabilities(value: Any) -> list[str]:
    found = {values.known(item).upper().removeprefix("CAP_") for item in values.sequence(value)}
    if bad := sorted(name for name in found if not name.replace("_", "").isalpha()):
        raise ComposeError(f"{bad[0][:40]!r} is no capability")
    return sorted(found)
