"""Trees that somebody else filled: removal and copies."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from platoon.host.trees import copy_file, copy_tree, has_entries, is_file, kind_below, remove_tree

pytestmark = pytest.mark.unit


def test_removal_of_nothing_a_file_a_link_and_a_tree(tmp_path: Path):
    precious = tmp_path / "precious"
    precious.mkdir()
    (precious / "file").touch()
    remove_tree(tmp_path / "none")
    (tmp_path / "link").symlink_to(precious)
    remove_tree(tmp_path / "link")
    (tmp_path / "tree" / "a").mkdir(parents=True)
    (tmp_path / "tree" / "a" / "link").symlink_to(precious)
    (tmp_path / "tree" / "a").chmod(0o500)
    (tmp_path / "tree").chmod(0)
    remove_tree(tmp_path / "tree")
    assert [path.name for path in tmp_path.iterdir()] == ["precious"] and (precious / "file").exists()


def test_removal_of_a_tree_deeper_than_the_stack(tmp_path: Path):
    here = Path.cwd()
    (tmp_path / "deep").mkdir()
    try:
        os.chdir(tmp_path / "deep")
        for _ in range(1500):
            Path("ddd").mkdir()
            os.chdir("ddd")
    finally:
        os.chdir(here)
    remove_tree(tmp_path / "deep")
    assert not (tmp_path / "deep").exists()


def test_copies_hold_files_and_no_specials(tmp_path: Path):
    source = tmp_path / "source"
    (source / "closed").mkdir(parents=True)
    (source / "closed" / "run.sh").write_text("x")
    (source / "closed" / "run.sh").chmod(0o750)
    (source / "link").symlink_to("closed/run.sh")
    (source / "dangling").symlink_to("nowhere")
    os.mkfifo(source / "fifo")
    copy_tree(source, tmp_path / "with", links=True)
    copy_tree(source, tmp_path / "without", links=False)
    assert sorted(path.name for path in (tmp_path / "with").iterdir()) == ["closed", "dangling", "link"]
    assert sorted(path.name for path in (tmp_path / "without").iterdir()) == ["closed", "link"]
    assert (tmp_path / "with" / "link").readlink() == Path("closed/run.sh")
    assert (tmp_path / "without" / "link").read_text() == "x" and not (tmp_path / "without" / "link").is_symlink()
    assert (tmp_path / "with" / "closed" / "run.sh").stat().st_mode & 0o777 == 0o750
    with pytest.raises(OSError, match="not a regular file"):
        copy_file(source / "fifo", tmp_path / "fifo")


def test_copies_replace_links_and_do_not_write_through_them(tmp_path: Path):
    source, target, victim = tmp_path / "source", tmp_path / "target", tmp_path / "victim"
    (source / "directory").mkdir(parents=True)
    (source / "file").write_text("new")
    (source / "directory" / "inner").write_text("new")
    target.mkdir()
    victim.mkdir()
    (target / "file").symlink_to(victim / "file")
    (target / "directory").symlink_to(victim)
    copy_tree(source, target, links=False)
    assert list(victim.iterdir()) == [] and (target / "directory" / "inner").read_text() == "new"


def test_what_is_at_a_place(tmp_path: Path):
    root = tmp_path / "root"
    (root / "full" / "empty").mkdir(parents=True)
    (root / "file").write_text("")
    (root / "out").symlink_to(tmp_path)
    (root / "in").symlink_to("full")
    os.mkfifo(root / "fifo")
    names = ("file", "full", "in", "out", "out/root/file", "fifo", "gone", "file/x", "nul\0")
    kinds = [kind_below(root, root / name) for name in names]
    assert kinds == ["file", "directory", "directory", "outside", "file", None, None, None, None]
    assert [name for name in names if is_file(root / name)] == ["file", "out/root/file"]
    assert [has_entries(root / name) for name in ("full", "full/empty", "in", "file", "gone")] == [True, False, True, False, False]
