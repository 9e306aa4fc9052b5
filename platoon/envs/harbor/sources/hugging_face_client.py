"""The few calls of `huggingface_hub` that fetching takes, and which of their failures another try may mend."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, TypeVar

from platoon.config.credentials import hide_credentials
from platoon.config.text import printable
from platoon.errors import ConfigError, PlatoonError, Problem

T = TypeVar("T")

ATTEMPTS = 10
FIRST_WAIT_S = 5.0
LONGEST_WAIT_S = 300.0
_TRANSIENT = frozenset({408, 429, 500, 502, 503, 504})


@dataclass(frozen=True)
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
        for item in listed:
            blob = getattr(item, "blob_id", None)
            if blob is not None:
                lfs = getattr(item, "lfs", None)
                yield RemoteFile(item.path, int(item.size), f"git:{blob}" if lfs is None else f"lfs:{lfs.sha256}")  # type: ignore[union-attr]

    def download(self, repository: str, commit: str, path: str, cache: Path, *, anew: bool = False) -> Path:
        from huggingface_hub import hf_hub_download

        return Path(hf_hub_download(repository, path, revision=commit, repo_type="dataset", cache_dir=cache, force_download=anew))


class Absent(Exception):
    """A file or directory that the repository has not."""


def retrying(
    call: Callable[[], T], shown_as: str, *, sleep: Callable[[float], None], jitter: Callable[[], float], say: Callable[[str], None]
) -> T:
    """What `call` returns, tried again where the server was busy or the way to it broken: 5 s doubling to 300 s, ten times at most.

    Raises Absent for a file that is not there, ConfigError for a repository or revision that is not there or not open, PlatoonError
    at the end.
    """
    wait_s = FIRST_WAIT_S
    for attempt in range(1, ATTEMPTS + 1):
        try:
            return call()
        except Exception as error:
            reason = _reason(error)
            _raise_final(error, shown_as, reason)
            if attempt == ATTEMPTS:
                raise PlatoonError(f"{shown_as}: not to be had in {ATTEMPTS} tries: {reason}") from error
            asked_s = _asked_wait_s(error)
            pause_s = asked_s if asked_s is not None else wait_s * (0.5 + jitter())
            say(f"{shown_as}: {reason}; trying again in {pause_s:.0f} s")
            sleep(min(pause_s, LONGEST_WAIT_S))
            wait_s = min(2 * wait_s, LONGEST_WAIT_S)
    raise AssertionError("the last try raises or returns")


def _raise_final(error: Exception, shown_as: str, reason: str) -> None:
    """Raises what no other try would mend."""
    import httpx
    from huggingface_hub import errors

    if isinstance(error, errors.OfflineModeIsEnabled):
        raise ConfigError(Problem("is not in the cache, and HF_HUB_OFFLINE is set", file=shown_as)) from None
    if isinstance(error, errors.GatedRepoError | errors.RepositoryNotFoundError | errors.DisabledRepoError):
        advice = "log in with `hf auth login`, or set HF_TOKEN, if it is not open to all"
        raise ConfigError(Problem("no such dataset repository, or it is not open to you", file=shown_as, advice=advice)) from None
    if isinstance(error, errors.RevisionNotFoundError):
        raise ConfigError(Problem("has no such revision", file=shown_as)) from None
    if isinstance(error, errors.LocalEntryNotFoundError):
        return
    if isinstance(error, errors.EntryNotFoundError):
        raise Absent from None
    if isinstance(error, errors.HfHubHTTPError):
        status = error.response.status_code if getattr(error, "response", None) is not None else None
        if status in (401, 403):
            raise ConfigError(
                Problem(f"is not open to you (HTTP {status})", file=shown_as, advice="log in with `hf auth login`")
            ) from None
        if status is not None and status not in _TRANSIENT:
            raise PlatoonError(f"{shown_as}: {reason}") from error
        return
    if not isinstance(error, httpx.HTTPError | OSError):
        raise error


def _asked_wait_s(error: Exception) -> float | None:
    response = getattr(error, "response", None)
    try:
        return max(0.0, float(response.headers["Retry-After"])) if response is not None else None
    except (KeyError, ValueError, TypeError):
        return None


def _reason(error: Exception) -> str:
    text = str(error).splitlines() or [""]
    return printable(hide_credentials(f"{type(error).__name__}: {text[0]}"))[:300]
