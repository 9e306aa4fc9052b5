"""A build context is read below its root: what cannot stand in a key is refused by name."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from platoon.images.dockerfile import DockerfileError, plan_image

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
    with pytest.raises(DockerfileError, match="a name that is not UTF-8"):
        plan_image(tmp_path, TEXT)
