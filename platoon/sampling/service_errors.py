"""Turns what the tinker SDK raises into the errors of this package, naming what failed and where.

The SDK is recognised by module and class name, so that this costs no import of it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from platoon.errors import ConfigError, PlatoonError, Problem, ServiceError

KEY_VARIABLE = "TINKER_API_KEY"
NOT_FOUND = 404
_ADDED = re.compile(r"Request failed: (.*) for self\.request_id=.*", re.DOTALL)
REFUSED = frozenset({"AuthenticationError", "PermissionDeniedError"})


@contextmanager
def service_errors(what: str, *, base_url: str | None = None, policy: str = "main") -> Iterator[None]:
    """Maps errors of the block: a refused key to ConfigError, every other failure of the service to ServiceError.

    what: the action in words (`sampling`, `opening the service`). policy: named in the message unless it is `main`.
    """
    try:
        yield
    except (PlatoonError, TimeoutError):
        raise
    except Exception as error:
        mapped = map_service_error(error, what, base_url, policy)
        if mapped is None:
            raise
        raise mapped from error


def missing_checkpoint(
    error: BaseException | None, path: str | None, base_url: str | None = None, state_dir: Path | None = None
) -> ConfigError | None:
    """The refusal of weights that the service does not have, None for any other error.

    state_dir: where an embedded service looked for them. A checkpoint that is there and damaged is another matter.
    """
    if path is None or getattr(error, "status_code", None) != NOT_FOUND or "damaged" in str(error).lower():
        return None
    if state_dir is not None:
        advice = "name the site that its run was trained on (--site, PLATOON_SITE), or train the run again"
        return ConfigError(Problem(f"there is no checkpoint {path} here", file=str(state_dir), advice=advice))
    advice = "it was deleted or has expired: train its run again, or name another"
    return ConfigError(Problem(f"the service at {base_url or 'the default address'} has no checkpoint {path}", advice=advice))


def error_text(error: BaseException) -> str:
    """Kind and text of an error of the SDK, without the names of its own variables that it adds to a service's answer."""
    found = _ADDED.fullmatch(str(error))
    return f"{type(error).__name__}: {found[1] if found else error}"


def map_service_error(error: Exception, what: str, base_url: str | None, policy: str = "main") -> PlatoonError | None:
    """The error to raise instead, None for one that is not the service's."""
    names = {base.__name__ for base in type(error).__mro__}
    of_sdk = any(base.__module__.split(".")[0] == "tinker" for base in type(error).__mro__)
    owner = "" if policy == "main" else f"policy {policy}: "
    server = base_url or "the default server"
    if of_sdk and names & REFUSED:
        rule = f"{owner}the service at {server} refuses the key in {KEY_VARIABLE}"
        return ConfigError(Problem(rule, key=KEY_VARIABLE, advice=f"set {KEY_VARIABLE} to a key that this server accepts"))
    # The SDK's pollers raise ValueError for a fatal status and RuntimeError for a closed client.
    if of_sdk or isinstance(error, ValueError | RuntimeError | OSError):
        return ServiceError(f"{owner}{what} failed at {server}: {error_text(error)}")
    return None
