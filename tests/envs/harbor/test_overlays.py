"""Overlays: reading them, whom they match, what they do to a task's files, and their digests (A.5). Rows H046, H049."""

from __future__ import annotations

import hashlib
import os
import re
from pathlib import Path

import pytest

from platoon.envs.harbor import substitution
from platoon.envs.harbor.compose import plan_task
from platoon.envs.harbor.compose.edits import apply_edits
from platoon.envs.harbor.format import TaskRefused
from platoon.envs.harbor.overlays import Overlay, apply_files, overlays_digest, read_overlay
from platoon.envs.harbor.task_toml import TaskToml
from platoon.errors import ConfigError

pytestmark = pytest.mark.unit


def overlay(tmp_path: Path, text: str, **files: str) -> Overlay:
    directory = tmp_path / "overlay"
    directory.mkdir(exist_ok=True)
    (directory / "overlay.toml").write_text(text)
    for name, content in files.items():
        (directory / name).write_text(content)
    return read_overlay(directory)


def task(tmp_path: Path, **files: str) -> Path:
    directory = tmp_path / "task"
    (directory / "environment").mkdir(parents=True)
    for name, content in {"instruction": "Ask db:5432.\nThen db:5432.\n", **files}.items():
        (directory / f"{name}.md").write_text(content)
    return directory


def test_digests_are_those_of_the_rule(tmp_path: Path) -> None:
    text = '[[copy]]\nfile = "environment/x"\nsource = "x"\n'
    found = overlay(tmp_path, text, x="1")
    file = hashlib.sha256(b"1").hexdigest()
    assert found.digest == hashlib.sha256(f"{text}\0x\0{file}".encode()).hexdigest()
    named = Overlay("ov", tmp_path, "d" * 64)
    assert overlays_digest([named]) == "sha256:9d821663a44067febc378eb847f52137ddb67137c1ca8533e3bfbc08e2e7119c"
    assert overlays_digest([]) is None


@pytest.mark.parametrize(
    ("match", "name", "index", "matches"),
    [
        ("", "any", {}, True),
        ('name = "web-*"', "web-1", {}, True),
        ('name = ["a", "b*"]', "bc", {}, True),
        ('name = "web"', "web-1", {}, False),
        ("level = 3", "t", {"level": 3}, True),
        ("level = 3", "t", {"level": "3"}, True),
        ("hard = true", "t", {"hard": True}, True),
        ('family = ["x", "y"]', "t", {"family": "y"}, True),
        ('family = "x"', "t", {}, False),
        ('family = "x"\nname = "t"', "u", {"family": "x"}, False),
    ],
)
def test_whom_it_matches(tmp_path: Path, match: str, name: str, index: dict[str, object], matches: bool) -> None:
    found = overlay(tmp_path, f'compose_host_env = ["X"]\n[match]\n{match}\n')
    assert found.matches(name, index) is matches


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "does nothing"),
        ("name = 1\ncompose_host_env=['X']", "name: must be text"),
        ("compose_host_env = ['1X']", "compose_host_env.0: must match"),
        ("edits = []", "edits: unknown key"),
        ("[[edit]]\nfile = '../x'\npattern = 'a'", "edit.0.file: is a relative path without '..'"),
        ("[[edit]]\nfile = '/x'\npattern = 'a'", "edit.0.file: is a relative path"),
        ("[[edit]]\nfile = 'x'\npattern = '('", "edit.0.pattern: must be a regular expression"),
        ("[[edit]]\nfile = 'x'\npattern = 'a'\ncount = 0", "edit.0.count: must be at least 1"),
        ("[[copy]]\nfile = 'x'\nsource = 'nothing'", "copy.0.source: nothing is no file of the overlay"),
        ("[[compose]]\nservice = 'x'", "compose.0: does nothing"),
        ("[[compose]]\nservice = 'a b'\nunset = ['x']", "compose.0.service: must match"),
        ("[[compose]]\nservice = 'x'\nunset = ['y']\nscope = {a = 'b'}", "compose.0.scope: needs external"),
        ("[[compose]]\nservice = 'x'\nset = {a = 2024-01-01}", "compose.0.set.a: holds a date"),
        ("[[compose]]\nservice = 'x'\nset = {cpus = inf}", "overlay.toml: compose.0.set.cpus: holds the number inf"),
        ("[[compose]]\nservice = 'x'\nset = {cpus = nan}", "overlay.toml: compose.0.set.cpus: holds the number nan"),
        ("[[compose]]\nservice = 'x'\nset = {cpus = 1e999}", "overlay.toml: compose.0.set.cpus: holds the number inf"),
        (
            "[[compose]]\nservice = 'x'\nset = {healthcheck = {test = 'x', interval = inf}}",
            "overlay.toml: compose.0.set.healthcheck.interval: holds the number inf",
        ),
        ("[[compose]]\nservice = 'x'\nreplace = {a = [{b = -inf}]}", "overlay.toml: compose.0.replace.a.b: holds the number -inf"),
        ('[[compose]]\nservice = "x"\nset = {user = "\\u0000"}', "overlay.toml: compose.0.set.user: holds a NUL character"),
        ("[[compose]]\nservice = 'x'\nhost_network = {}", "compose.0.host_network: names no variable"),
        ("[[compose]]\nservice = 'x'\nhost_network = {lisen = ['A']}", "compose.0.host_network.lisen: unknown key"),
        ("[[compose]]\nservice = 'x'\nexternal = 'y'\nhost_network = {bind = ['A']}", "compose.0.host_network: excludes external"),
        ("[match]\nx = {y = 1}\n[[compose]]\nservice='x'\nunset=['y']", "match.x: is a value or a list of values"),
        ("not toml", "is not TOML"),
        ("edit = []\nedit = []", "is not TOML"),
        ("x = " + "[" * 50_000, "is not TOML"),
        ("#" * (1 << 20) + "#", "has more than 1048576 bytes"),
        ("name = \"a\\nb\"\ncompose_host_env=['X']", "name: is UTF-8 on one line"),
        ("[[edit]]\nfile = \"a\\nb\"\npattern = 'a'", "edit.0.file: is a relative path"),
        ("[[copy]]\nfile = 'x'\nsource = '../overlay.toml'", "copy.0.source: is a relative path without '..'"),
        ("[[copy]]\nfile = '../x'\nsource = 'overlay.toml'", "copy.0.file: is a relative path without '..'"),
        ("[[copy]]\nfile = 'x'\nsource = 'out'", "copy.0.source: out is no file of the overlay"),
        ("[[copy]]\nfile = 'x'\nsource = 'pipe'", "copy.0.source: pipe is no file of the overlay"),
        ("[[copy]]\nfile = 'x'\nsource = '.'", "copy.0.source: is a relative path"),
        (
            "[[copy]]\nfile = 'x'\nsource = 'large'\n" * 2,
            "copy.1.source: with large the overlay copies more than the 10737418240 bytes",
        ),
    ],
)
def test_what_is_wrong_is_told_with_its_key(tmp_path: Path, text: str, problem: str) -> None:
    """Row H046: an unknown key of host_network is refused."""
    (tmp_path / "overlay").mkdir()
    (tmp_path / "overlay/out").symlink_to("/etc/hostname")
    os.mkfifo(tmp_path / "overlay/pipe")
    with (tmp_path / "overlay/large").open("wb") as large:
        large.truncate(6 << 30)
    with pytest.raises(ConfigError) as error:
        overlay(tmp_path, text)
    assert problem in str(error.value)
    assert "overlay.toml" in str(error.value)


def test_a_directory_that_is_no_overlay(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"overlay.toml: no such file \(overlays: names directories, each with an overlay.toml\)"):
        read_overlay(tmp_path)
    (tmp_path / "overlay.toml").write_bytes(b"name = '\xff'\n")
    with pytest.raises(ConfigError, match=r"overlay.toml: is not TOML: is not UTF-8 \(byte 8\)"):
        read_overlay(tmp_path)


@pytest.mark.parametrize("name", [b"a\nb", b"\xff"])
def test_a_directory_whose_name_no_lock_can_hold(tmp_path: Path, name: bytes) -> None:
    directory = tmp_path / os.fsdecode(name)
    directory.mkdir()
    (directory / "overlay.toml").write_text("compose_host_env = ['X']\n")
    with pytest.raises(ConfigError, match=r"name: is UTF-8 on one line \(give it a name"):
        read_overlay(directory)
    (directory / "overlay.toml").write_text("name = 'o'\ncompose_host_env = ['X']\n")
    assert read_overlay(directory).name == "o"


def test_files_are_changed_by_new_inodes(tmp_path: Path) -> None:
    directory = task(tmp_path)
    twin = tmp_path / "twin.md"
    os.link(directory / "instruction.md", twin)
    found = overlay(
        tmp_path,
        "[[edit]]\nfile = 'instruction.md'\npattern = '^Ask (.*)$'\nreplace = 'Use \\1'\n"
        "[[copy]]\nfile = 'environment/new/run'\nsource = 'run'\nexecutable = true\n",
        run="x",
    )
    apply_files([found], directory)
    assert (directory / "instruction.md").read_text() == "Use db:5432.\nThen db:5432.\n"
    assert twin.read_text().startswith("Ask")
    assert (directory / "environment/new/run").stat().st_mode & 0o777 == 0o755


def test_a_pattern_that_never_ends_on_a_text_refuses_its_task(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(substitution, "LIMIT_S", 1)
    directory = task(tmp_path, instruction="a" * 40 + "!\n")
    with pytest.raises(TaskRefused, match=r"overlay: .*instruction.md: \^\(a\+\)\+\$: the pattern takes longer than 1 seconds"):
        apply_files([overlay(tmp_path, "[[edit]]\nfile = 'instruction.md'\npattern = '^(a+)+$'\n")], directory)


@pytest.mark.parametrize(("pattern", "replacement"), [("(x+)é|y", r"<\1>"), ("^", "> "), ("z*", "-"), ("$", r"\\")])
def test_a_process_of_its_own_replaces_as_this_one_does(pattern: str, replacement: str) -> None:
    text = "xxé y\r\n\ud7ffzz\n\n"
    for found in (substitution.substitute(pattern, replacement, text), substitution._in_a_process(pattern, replacement, text)):
        assert found == re.subn(pattern, replacement, text, flags=re.MULTILINE)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("[[edit]]\nfile = 'instruction.md'\npattern = 'db'", "instruction.md: the pattern matches 2 times, not 1"),
        ("[[edit]]\nfile = 'nothing.md'\npattern = 'db'", "nothing.md: is missing in the task"),
        ("[[edit]]\nfile = 'instruction.md'\npattern = 'Ask'\nreplace = '\\2'", "instruction.md: Ask: the replacement is none"),
        ("[[copy]]\nfile = 'environment'\nsource = 'overlay.toml'", "environment: is a directory of the task"),
        ("[[copy]]\nfile = 'link/x'\nsource = 'overlay.toml'", "link/x: is reached through a link"),
        ("[[copy]]\nfile = 'instruction.md/x'\nsource = 'overlay.toml'", "instruction.md/x: lies below a file of the task"),
    ],
)
def test_what_does_not_fit_refuses_the_task(tmp_path: Path, text: str, why: str) -> None:
    directory = task(tmp_path)
    (directory / "link").symlink_to(tmp_path)
    with pytest.raises(TaskRefused) as refusal:
        apply_files([overlay(tmp_path, text)], directory)
    assert refusal.value.refusal.startswith(f"overlay: overlay: {why}")


def test_every_file_and_service_that_does_not_fit_is_told(tmp_path: Path) -> None:
    """The first fault of each: what follows in a file or service may follow from it."""
    directory = task(tmp_path)
    gone = "[[edit]]\nfile = '{0}.md'\npattern = 'x'\n"
    found = overlay(
        tmp_path, gone.format("a") + gone.format("b") + gone.format("a") + "[[copy]]\nfile='environment'\nsource='overlay.toml'\n"
    )
    with pytest.raises(TaskRefused) as refusal:
        apply_files([found], directory)
    missing = "is missing in the task"
    assert refusal.value.problems == (
        f"overlay: a.md: {missing}",
        f"overlay: b.md: {missing}",
        "overlay: environment: is a directory of the task",
    )
    edits = "".join(
        f"[[compose]]\nservice = '{name}'\nunset = ['{key}']\n"
        for name, key in (("db", "a"), ("db", "b"), ("no", "c"), ("main", "d"))
    )
    with pytest.raises(TaskRefused) as refusal:
        apply_edits({"services": {"main": {"d": "1"}, "db": None}}, [overlay(tmp_path, edits)])
    assert refusal.value.problems == (
        "overlay: [[compose]] db: the service has no a to unset",
        "overlay: [[compose]] no: the compose file has no such service",
    )


def test_every_mistake_of_an_overlay_is_told(tmp_path: Path) -> None:
    copies = "".join(f"[[copy]]\nfile = 'x'\nsource = '{name}'\n" for name in ("a", "b"))
    with pytest.raises(ConfigError) as error:
        overlay(tmp_path, "[match]\nf = {a = 1}\ng = [[1]]\n" + copies)
    assert [problem.key for problem in error.value.problems] == ["match.f", "match.g", "copy.0.source", "copy.1.source"]


def test_h049_an_edit_clears_a_reference(tmp_path: Path) -> None:
    directory = task(tmp_path)
    (directory / "environment/docker-compose.yaml").write_text("services: {main: {}, db: {image: x, expose: [5432]}}\n")
    before = plan_task(TaskToml(), directory)
    assert [(item.file, item.line) for item in before.unrewritable] == [("instruction.md", 1), ("instruction.md", 2)]
    text = "[[edit]]\nfile = 'instruction.md'\npattern = 'db:5432'\nreplace = '$DB'\ncount = 2\n"
    apply_files([overlay(tmp_path, text)], directory)
    after = plan_task(TaskToml(), directory)
    assert after.unrewritable == ()
    assert after.plan is not None and before.plan is not None
    assert after.plan.digest == before.plan.digest
