"""Registry files: which dataset of one a name and a version mean, and where each of its tasks is. Pure but for reading the file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urljoin

from packaging.version import InvalidVersion, Version

from platoon.artifacts.canonical import canonical_digest
from platoon.config.addresses import GIT_SCHEMES, WEB_SCHEMES, check_address
from platoon.config.credentials import hide_credentials
from platoon.config.files import read_bytes
from platoon.config.text import few, printable, show
from platoon.envs.harbor.sources.listing import INDEX_LIMIT_BYTES, check_id, check_path, dataset_tasks, parse_index
from platoon.envs.harbor.sources.protocol import FetchTools
from platoon.envs.harbor.sources.reference import RegistryReference, check_git_ref, check_inner_path, is_commit
from platoon.envs.harbor.sources.transport import is_broken_way, is_busy, told_wait
from platoon.errors import ConfigError, PlatoonError, Problem

# Harbor's own: the constant DEFAULT_REGISTRY_URL of its release 0.24.
HARBOR_REGISTRY = "https://raw.githubusercontent.com/laude-institute/harbor/main/registry.json"
REDIRECT_LIMIT = 5
ATTEMPTS = 4
RETRY_S = 2.0
_HEAD = "head"


@dataclass(frozen=True)
class RegisteredTask:
    """repo: the URL of its repository, None for a directory beside the registry file. ref: as registered, None for the newest."""

    id: str
    path: str
    repo: str | None
    ref: str | None

    @property
    def pinned(self) -> bool:
        return self.repo is None or (self.ref is not None and is_commit(self.ref))


@dataclass(frozen=True)
class RegisteredDataset:
    """One version of a dataset. digest: `sha256:<hex>` over what is registered of its tasks."""

    name: str
    version: str
    tasks: tuple[RegisteredTask, ...]
    digest: str

    @property
    def pinned(self) -> bool:
        return all(task.pinned for task in self.tasks)


def read_registry(path: Path, shown_as: str) -> Any:
    """The value of a registry file. Raises ConfigError."""
    data = read_bytes(path, limit_bytes=INDEX_LIMIT_BYTES, shown_as=shown_as)
    return parse_index(shown_as, data)


def download_registry(url: str, tools: FetchTools) -> Any:
    """The value of a registry at a URL. Raises ConfigError when it is not there or no registry, PlatoonError after some tries."""
    for attempt in range(1, ATTEMPTS + 1):
        tools.progress(url)
        try:
            return parse_index(url, _get(url, tools))
        except _Transient as error:
            if attempt == ATTEMPTS:
                raise PlatoonError(f"{url}: the registry could not be read in {ATTEMPTS} tries: {error}") from error
            pause_s = RETRY_S * 2 ** (attempt - 1) * (0.5 + tools.jitter())
            tools.say(told_wait(url, str(error), pause_s))
            tools.sleep(pause_s)
    raise AssertionError("the last try raises or returns")


def find_dataset(value: Any, wanted: RegistryReference, registry: str) -> RegisteredDataset:
    """The dataset of a name and version; without a version its `head`, else the highest. Raises ConfigError."""
    datasets = [value] if isinstance(value, dict) else value
    if not isinstance(datasets, list):
        raise ConfigError(Problem(f"must be a list of datasets, got {show(value)}", file=registry))
    for number, dataset in enumerate(datasets):
        if not isinstance(dataset, dict) or not isinstance(dataset.get("name"), str):
            key = str(number) if isinstance(value, list) else ""
            raise ConfigError(Problem(f"a dataset has a name, a text, got {show(dataset)}", key=key, file=registry))
    versions: dict[str, Mapping[str, Any]] = {}
    for dataset in datasets:
        if dataset.get("name") == wanted.name:
            version = str(dataset.get("version") or _HEAD)
            if version in versions:
                raise ConfigError(Problem(f"lists {wanted.name}@{printable(version)} twice", file=registry))
            versions[version] = dataset
    if not versions:
        raise ConfigError(Problem(f"has no dataset {wanted.name}", file=registry, advice=_known(datasets)))
    version = wanted.version or newest(list(versions))
    if version not in versions:
        raise ConfigError(
            Problem(f"has no {wanted.name}@{version}", file=registry, advice=f"its versions: {few(sorted(versions))}")
        )
    key = f"{wanted.name}@{version}"
    tasks = tuple(_task(task, key, registry) for task in dataset_tasks(registry, key, versions[version]))
    if not tasks:
        raise ConfigError(Problem("lists no task", key=key, file=registry))
    plain = [[task.id, task.path, task.repo, task.ref] for task in sorted(tasks, key=lambda task: task.id)]
    return RegisteredDataset(wanted.name, version, tasks, canonical_digest(plain))


def newest(versions: Sequence[str]) -> str:
    """`head` where it is one of them, else the highest of PEP 440, else the last in order of text."""
    if _HEAD in versions:
        return _HEAD
    parsed: list[tuple[Version, str]] = []
    for text in versions:
        try:
            parsed.append((Version(text), text))
        except InvalidVersion:
            continue
    return max(parsed)[1] if parsed else max(versions)


def _task(task: Mapping[str, Any], key: str, registry: str) -> RegisteredTask:
    name = check_id(registry, task["name"])
    repo, ref = task.get("git_url"), task.get("git_commit_id")
    where = f"{key}.{printable(name)}"
    path = check_path(registry, task["path"])
    if not isinstance(repo, str | None) or not isinstance(ref, str | None):
        got = show({"git_url": repo, "git_commit_id": ref})
        raise ConfigError(Problem(f"git_url and git_commit_id are texts, got {got}", key=where, file=registry))
    if not repo:
        # Beside the registry file; whether that is a file is for the source to say.
        return RegisteredTask(name, path, None, None)
    try:
        path = check_inner_path(path)
    except ValueError as error:
        raise ConfigError(Problem(str(error), key=f"{where}.path", file=registry)) from None
    try:
        check_address(repo, GIT_SCHEMES)
        if ref is not None and ref.upper() != "HEAD":
            check_git_ref(ref)
        else:
            ref = None
    except ValueError as error:
        raise ConfigError(Problem(str(error), key=f"{where}.git_url", file=registry)) from None
    return RegisteredTask(name, path, repo, ref)


class _Transient(Exception):
    """A failure that another try may not meet."""


def _get(url: str, tools: FetchTools) -> bytes:
    import httpx

    with tools.web_client() as client:
        for _ in range(REDIRECT_LIMIT):
            try:
                with client.stream("GET", url) as response:
                    if response.is_redirect:
                        url = _redirected(url, response.headers.get("location", ""))
                        continue
                    if is_busy(response.status_code):
                        raise _Transient(f"HTTP {response.status_code}")
                    if response.status_code != 200:
                        raise ConfigError(Problem(f"cannot be read: HTTP {response.status_code}", file=url))
                    return _body(response, url)
            except httpx.HTTPError as error:
                why = hide_credentials(f"{type(error).__name__}: {error}")
                if not is_broken_way(error):
                    raise PlatoonError(f"{url}: the registry could not be read: {printable(why)}") from error
                raise _Transient(why) from error
    raise ConfigError(Problem(f"redirects more than {REDIRECT_LIMIT} times", file=url))


def _redirected(url: str, location: str) -> str:
    target = urljoin(url, location)
    schemes = ("https",) if url.startswith("https:") else WEB_SCHEMES
    try:
        check_address(target, schemes)
    except ValueError as error:
        raise ConfigError(Problem(f"redirects to an address that {error}", file=url)) from None
    return target


def _body(response: Any, url: str) -> bytes:
    data = bytearray()
    for chunk in response.iter_bytes():
        data += chunk
        if len(data) > INDEX_LIMIT_BYTES:
            raise ConfigError(Problem(f"has more than {INDEX_LIMIT_BYTES} bytes", file=url))
    return bytes(data)


def _known(datasets: Sequence[Mapping[str, Any]]) -> str:
    names = sorted({item["name"] for item in datasets})
    return f"its datasets: {few(names)}" if names else "it has none"
