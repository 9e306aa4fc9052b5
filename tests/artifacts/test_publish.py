"""Publication takes the place of a file, and of nothing else."""

from __future__ import annotations

import errno
import os
import resource
import socket
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from platoon.artifacts.publish import publish_bytes, publish_json, replacing
from platoon.artifacts.row_log import append_json_line
from platoon.episodes.storage import write_whole

pytestmark = pytest.mark.unit


def pipe(path: Path) -> None:
    os.mkfifo(path)


def unix_socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))


def link_to_pipe(path: Path) -> None:
    os.mkfifo(path.with_name("pipe"))
    path.symlink_to("pipe")


def link_to_file(path: Path) -> None:
    path.with_name("file").write_text("kept")
    path.symlink_to("file")


def replace(path: Path) -> None:
    with replacing(path) as file:
        file.write(b"x")


@pytest.mark.parametrize("write", [lambda path: publish_bytes(path, b""), replace], ids=["publish_bytes", "replacing"])
@pytest.mark.parametrize("make", [pipe, unix_socket, link_to_pipe, link_to_file, Path.mkdir])
def test_what_is_no_file_is_left_as_it_is(make: Callable[[Path], None], write: Callable[[Path], None], tmp_path: Path) -> None:
    path = tmp_path / "place"
    make(path)
    before = path.lstat()
    names = sorted(tmp_path.iterdir())
    with pytest.raises(FileExistsError, match="is no regular file, and is not replaced"):
        write(path)
    after = path.lstat()
    assert (after.st_ino, after.st_mode, sorted(tmp_path.iterdir())) == (before.st_ino, before.st_mode, names)


def test_a_file_and_a_link_that_leads_nowhere_are_replaced(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("nowhere")
    for name in ("file", "link"):
        publish_bytes(tmp_path / name, b"1")
        publish_bytes(tmp_path / name, b"2")
        found = tmp_path / name
        assert found.read_bytes() == b"2" and stat.S_ISREG(found.lstat().st_mode)


@pytest.mark.parametrize(
    "write",
    [
        lambda path: publish_bytes(path, b"x" * 9000),
        lambda path: publish_json(path, "x" * 9000),
        lambda path: append_json_line(path, {"text": "x" * 9000}),
        lambda path: write_whole(path, "x" * 9000),
    ],
    ids=["publish_bytes", "publish_json", "append_json_line", "write_whole"],
)
def test_a_write_that_the_disk_does_not_take_names_its_file(write: Callable[[Path], None], tmp_path: Path) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1024, hard))
    try:
        with pytest.raises(OSError, match="File too large") as caught:
            write(tmp_path / "big")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert caught.value.filename == str(tmp_path / "big")
    assert all(path.stat().st_size == 0 for path in tmp_path.iterdir())


def test_another_error_of_the_block_keeps_its_name(tmp_path: Path) -> None:
    with pytest.raises(ConnectionResetError) as caught, replacing(tmp_path / "file"):
        raise ConnectionResetError(errno.ECONNRESET, "reset")
    assert caught.value.filename is None
    with pytest.raises(OSError, match="full") as named, replacing(tmp_path / "file"):
        raise OSError(errno.ENOSPC, "full", "elsewhere")
    assert named.value.filename == "elsewhere"
