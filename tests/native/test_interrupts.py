"""Long work stops when a signal's handler raises: soon, on any number of threads, and with nothing left behind."""

from __future__ import annotations

import gzip
import os
import signal
import tarfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from platoon import _native

pytestmark = pytest.mark.unit

# A hole of this size takes minutes to hash: a signal that is not heard is a test that fails by its time limit.
HOLE_BYTES = 1 << 39
DELAY_S = 0.1


class StoppedError(Exception):
    """What a handler raises: whatever that is arrives at the caller."""


def stop(*_: object) -> None:
    raise StoppedError


@contextmanager
def signalled(handler: Callable[..., object] = stop) -> Iterator[None]:
    """A signal comes to this process a moment after the block began, if not at its end."""
    before = signal.signal(signal.SIGUSR1, handler)
    timer = threading.Timer(DELAY_S, os.kill, (os.getpid(), signal.SIGUSR1))
    try:
        timer.start()
        yield
    finally:
        timer.join()
        signal.signal(signal.SIGUSR1, before)


def hole(path: Path, size_bytes: int = HOLE_BYTES) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch()
    os.truncate(path, size_bytes)
    return path


def task(place: Path, files: int = 0) -> Path:
    """A task with a file that is all but endless, and `files` more."""
    hole(place / "task/tests/hole")
    for number in range(files):
        (place / f"task/tests/f{number}").touch()
    return place / "task"


Call = Callable[[], object]


def publication(place: Path) -> Call:
    source, base = task(place), place / "base"
    base.mkdir()
    return lambda: _native.publish_task(source, base, "tasks", "staged/one", set())


def layer(place: Path) -> Call:
    path = hole(place / "layer")
    return lambda: _native.layer_owners([(path, None, None, f"sha256:{'0' * 64}", None)])


def bomb(place: Path) -> Call:
    """A layer of a member whose data are zeros, many gigabytes of them in a few megabytes of gzip."""
    member = tarfile.TarInfo("a")
    member.size = 1 << 36
    path = place / "layer.gz"
    path.write_bytes(gzip.compress(member.tobuf()) + gzip.compress(bytes(1 << 24)) * (1 << 10))
    return lambda: _native.layer_owners([(path, None, None, None, None)])


def on(call: Callable[[Path], object], make: Callable[[Path], Path]) -> Callable[[Path], Call]:
    def prepared(place: Path) -> Call:
        path = make(place)
        return lambda: call(path)

    return prepared


CALLS: dict[str, Callable[[Path], Call]] = {
    "file": on(_native.sha256_file, lambda place: hole(place / "hole")),
    "git blob": on(_native.git_blob_sha1, lambda place: hole(place / "hole")),
    "input": on(lambda path: _native.input_digests(path.parent, [path.name]), lambda place: hole(place / "hole")),
    "task": on(lambda path: _native.content_hash(path, 1), task),
    "task of many files": on(lambda path: _native.content_hash(path, 2), lambda place: task(place, 600)),
    "tree": on(lambda path: _native.tree_files(path, None, 2), task),
    "named files": on(lambda path: _native.tree_files(path, ["tests/f0", "tests/hole"], 2), lambda place: task(place, 1)),
    "image": on(lambda path: _native.image_owners(path, None, f"sha256:{'0' * 64}"), lambda place: hole(place / "hole")),
    "tasks": on(lambda path: _native.verify_tasks([(path, "0" * 64, None)] * 2, 2), task),
    "publication": publication,
    "layer": layer,
    "compressed layer": bomb,
}


@pytest.mark.parametrize("kind", CALLS)
def test_a_signal_stops_the_work(tmp_path: Path, kind: str) -> None:
    call = CALLS[kind](tmp_path)
    with pytest.raises(StoppedError), signalled():
        call()
    left = {path.relative_to(tmp_path).as_posix() for path in (tmp_path / "base").rglob("*")}
    assert left <= {"base/tasks", "base/staged"}


def test_a_handler_that_returns_stops_nothing(tmp_path: Path) -> None:
    """And may use the module itself."""
    large, small = hole(tmp_path / "large", 1 << 29), hole(tmp_path / "small", 1)
    found: list[tuple[str, int]] = []
    with signalled(lambda *_: found.append(_native.sha256_file(small))):
        assert _native.sha256_file(large)[1] == 1 << 29
    deadline = time.monotonic() + 10
    while not found and time.monotonic() < deadline:
        time.sleep(0.001)
    assert [size for _, size in found] == [1]


def test_the_work_of_another_thread_goes_on(tmp_path: Path) -> None:
    """A signal is the main thread's: what another thread computes is whole."""
    path, endless = hole(tmp_path / "file", 1 << 28), hole(tmp_path / "hole")
    expected = _native.sha256_file(path)
    found: list[tuple[str, int]] = []
    worker = threading.Thread(target=lambda: found.extend(_native.sha256_file(path) for _ in range(2)))
    worker.start()
    try:
        with pytest.raises(StoppedError), signalled():
            _native.sha256_file(endless)
    finally:
        worker.join()
    assert found == [expected] * 2
