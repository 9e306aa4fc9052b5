"""The few calls of `huggingface_hub` that fetching takes, and which of their failures another try may mend.

Of those that say only that nothing came of a call it is the cause that counts, and without a network none is tried again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, TypeVar

from platoon.config.credentials import hide_credentials
from platoon.config.text import printable
from platoon.envs.harbor.sources.transport import is_broken_way, is_busy, told_wait
from platoon.errors import ConfigError, PlatoonError, Problem

T = TypeVar("T")

ATTEMPTS = 10
FIRST_WAIT_S = 5.0
LONGEST_WAIT_S = 300.0
# How the library begins to tell of a download that ended too early.
_CUT_OFF = "Consistency check failed"


@dataclass(frozen=True, slots=True)
class RemoteFile:
    """path: from the root of the repository. content: `lfs:<sha256>` or `git:<blob sha1>`."""

    path: str
    size_bytes: int
    content: str


class HuggingFaceClient(Protocol):
    """Errors are those of `huggingface_hub`; `retrying` tells them apart."""

    def commit_of(self, repository: str, revision: str | None) -> str: ...

    def files(self, repository: str, commit: str, path: str) -> Iterator[RemoteFile]:
        """Every file below a directory of the repository, "" for its root."""
        ...

    def file(self, repository: str, commit: str, path: str) -> RemoteFile | None:
        """What the repository says of a file, None where there is none."""
        ...

    def download(self, repository: str, commit: str, path: str, cache: Path, *, anew: bool = False) -> Path:
        """Where a file lies now. anew: what is there already is not trusted."""
        ...


class HubClient:
    """The real one: the library's synchronous calls, with whatever login the library has."""

    def __init__(self) -> None:
        from huggingface_hub.utils.tqdm import disable_progress_bars

        disable_progress_bars()

    def commit_of(self, repository: str, revision: str | None) -> str:
        from huggingface_hub import HfApi

        return str(HfApi().repo_info(repository, revision=revision, repo_type="dataset").sha)

    def files(self, repository: str, commit: str, path: str) -> Iterator[RemoteFile]:
        from huggingface_hub import HfApi

        listed = HfApi().list_repo_tree(repository, path or None, recursive=True, revision=commit, repo_type="dataset")
        yield from filter(None, map(_file, listed))

    def file(self, repository: str, commit: str, path: str) -> RemoteFile | None:
        from huggingface_hub import HfApi

        found = HfApi().get_paths_info(repository, [path], revision=commit, repo_type="dataset")
        return next(filter(None, map(_file, found)), None)

    def download(self, repository: str, commit: str, path: str, cache: Path, *, anew: bool = False) -> Path:
        from huggingface_hub import hf_hub_download

        return Path(hf_hub_download(repository, path, revision=commit, repo_type="dataset", cache_dir=cache, force_download=anew))


def _file(item: Any) -> RemoteFile | None:
    """What the library lists, None for a directory."""
    blob, lfs = getattr(item, "blob_id", None), getattr(item, "lfs", None)
    if blob is None:
        return None
    return RemoteFile(item.path, int(item.size), f"git:{blob}" if lfs is None else f"lfs:{lfs.sha256}")


class Absent(Exception):
    """A file or directory that the repository has not."""


def retrying(
    call: Callable[[], T], shown_as: str, *, sleep: Callable[[float], None], jitter: Callable[[], float], say: Callable[[str], None]
) -> T:
    """What `call` returns, tried again where the server was busy or the way to it broken: 5 s doubling to 300 s, ten times at most.

    Raises Absent for a file that is not there, ConfigError for a repository or revision that is not there or not open, PlatoonError
    at the end. What is no server's fault, such as a full disk, is raised as it came.
    """
    wait_s = FIRST_WAIT_S
    for attempt in range(1, ATTEMPTS + 1):
        try:
            return call()
        except Exception as error:
            failure = _behind(error)
            reason = _reason(failure)
            if (final := _final(failure, shown_as, reason)) is not None:
                if final is failure:
                    raise
                raise final from error
            if attempt == ATTEMPTS:
                raise PlatoonError(f"{shown_as}: not to be had in {ATTEMPTS} tries: {reason}") from error
            asked_s = _asked_wait_s(failure)
            pause_s = asked_s if asked_s is not None else wait_s * (0.5 + jitter())
            pause_s = min(pause_s, LONGEST_WAIT_S)
            say(told_wait(shown_as, reason, pause_s))
            sleep(pause_s)
            wait_s = min(2 * wait_s, LONGEST_WAIT_S)
    raise AssertionError("the last try raises or returns")


def _behind(error: Exception) -> Exception:
    """The failure that the library met where what it raises says only that there is no file."""
    from huggingface_hub import errors

    while isinstance(error, errors.LocalEntryNotFoundError | ValueError) and isinstance(error.__cause__, Exception):
        error = error.__cause__
    return error


def _final(failure: Exception, shown_as: str, reason: str) -> Exception | None:
    """What is to be raised where no other try would mend a failure; None where one may."""
    from huggingface_hub import errors

    if (refusal := _refusal(failure)) is not None:
        rule, advice = refusal
        return ConfigError(Problem(rule, file=shown_as, advice=advice))
    if isinstance(failure, errors.EntryNotFoundError) and not isinstance(failure, errors.LocalEntryNotFoundError):
        return Absent()
    if _may_pass(failure):
        return None
    if isinstance(failure, errors.HfHubHTTPError) or (isinstance(failure, OSError) and failure.errno is None):
        return PlatoonError(f"{shown_as}: {reason}")
    return failure


def _refusal(failure: Exception) -> tuple[str, str] | None:
    """The rule and the advice of what the server, or this machine's own setting, does not give."""
    from huggingface_hub import constants, errors

    silent = isinstance(failure, errors.LocalEntryNotFoundError) and constants.HF_HUB_OFFLINE
    if silent or isinstance(failure, errors.OfflineModeIsEnabled):
        return "is not in the cache, and HF_HUB_OFFLINE is set", ""
    if isinstance(failure, errors.GatedRepoError | errors.RepositoryNotFoundError | errors.DisabledRepoError):
        advice = "log in with `hf auth login`, or set HF_TOKEN, if it is not open to all"
        return "no such dataset repository, or it is not open to you", advice
    if isinstance(failure, errors.RevisionNotFoundError):
        return "has no such revision", ""
    if isinstance(failure, errors.HfHubHTTPError) and (status := _status(failure)) in (401, 403):
        return f"is not open to you (HTTP {status})", "log in with `hf auth login`"
    return None


def _may_pass(failure: Exception) -> bool:
    from huggingface_hub import errors

    if isinstance(failure, errors.HfHubHTTPError):
        return (status := _status(failure)) is None or is_busy(status)
    cut_off = str(failure).startswith(_CUT_OFF)
    return cut_off or is_broken_way(failure) or isinstance(failure, errors.LocalEntryNotFoundError)


def _status(failure: Exception) -> int | None:
    response = getattr(failure, "response", None)
    return None if response is None else int(response.status_code)


def _asked_wait_s(error: Exception) -> float | None:
    response = getattr(error, "response", None)
    try:
        return max(0.0, float(response.headers["Retry-After"])) if response is not None else None
    except (KeyError, ValueError, TypeError):
        return None


def _reason(error: Exception) -> str:
    text = str(error).splitlines() or [""]
    return printable(hide_credentials(f"{type(error).__name__}: {text[0]}"))[:300]
