"""A build context is read below its root: what cannot stand in a key is refused by name."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from platoon.images.dockerfile import DockerfileError, plan_image
from platoon.images.dockerfile.context import Context

pytestmark = pytest.mark.unit

TEXT = "FROM alpine:3.20\nCOPY . /all\nRUN true\n"


def test_links_within_the_task_count_as_their_files(tmp_path: Path) -> None:
    context = tmp_path / "environment"
    context.mkdir()
    (tmp_path / "shared").write_text("x")
    (context / "file").write_text("x")
    with_file = plan_image(context, TEXT, root=tmp_path).key
    (context / "file").unlink()
    (context / "file").symlink_to("../shared")
    assert plan_image(context, TEXT, root=tmp_path).key == with_file
    with pytest.raises(DockerfileError, match="file is a link out of the task"):
        plan_image(context, TEXT)


def test_a_name_that_is_not_utf8_is_refused(tmp_path: Path) -> None:
    Path(os.fsdecode(os.fsencode(tmp_path) + b"/\xff")).write_text("x")
    with pytest.raises(DockerfileError, match="its context cannot be read: \ufffd: the name is not UTF-8"):
        plan_image(tmp_path, TEXT)


def test_what_is_no_file_is_no_part_of_a_context(tmp_path: Path) -> None:
    plain = plan_image(tmp_path, TEXT).key
    (tmp_path / "gone").symlink_to("nothing")
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "d").mkdir()
    assert plan_image(tmp_path, TEXT).key == plain
    deep = tmp_path / Path(*["d"] * 102)
    deep.mkdir(parents=True)
    assert plan_image(tmp_path, TEXT).key == plain
    (deep / "file").touch()
    with pytest.raises(DockerfileError, match="nested deeper than 100 directories"):
        plan_image(tmp_path, TEXT)


def test_a_context_that_cannot_be_read_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DockerfileError, match="its context cannot be read: No such file or directory"):
        plan_image(tmp_path / "absent", TEXT)


def test_a_link_that_was_planted_after_the_listing_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("s")
    directory = tmp_path / "task"
    (directory / "d").mkdir(parents=True)
    (directory / "d/secret").write_text("x")
    context = Context(directory)
    assert context.files == ("d/secret",)
    (directory / "d").rename(tmp_path / "aside")
    (directory / "d").symlink_to("..")
    with pytest.raises(DockerfileError, match=r"its context cannot be read: d/secret: a link to .* leads out"):
        context.entries(context.files)


def test_a_directory_that_many_steps_take_is_listed_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "d").mkdir()
    (tmp_path / "d/f").touch()
    listed: list[str] = []
    below = Context.below
    monkeypatch.setattr(Context, "below", lambda self, path: listed.append(path) or below(self, path))  # type: ignore[func-returns-value]
    for rest in ("", "RUN x\n"):
        listed.clear()
        plan = plan_image(tmp_path, "FROM x\n" + "".join(f"COPY d /{number}/\n" for number in range(100)) + rest)
        assert plan.inputs == ("d/f",)
        assert listed == ["d"]


def test_an_ignore_file_of_too_many_patterns_for_its_files_leaves_all_as_inputs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("a", "b"):
        (tmp_path / name).touch()
    (tmp_path / ".dockerignore").write_text("a\n.dockerignore\n")
    assert plan_image(tmp_path, "FROM x\nCOPY . /\n").inputs == ("b",)
    monkeypatch.setattr("platoon.images.dockerfile.plan.IGNORE_TRIES_LIMIT", 8)
    assert plan_image(tmp_path, "FROM x\nCOPY . /\n").inputs == (".dockerignore", "a", "b")
