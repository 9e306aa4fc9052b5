"""What holds for every kind of source alike: the same rows for the same tasks, and the same refusals of what means harm.

The matrix is hostile input by kind; what is not of the way to a task has tests of its own (index files, references, overlays).
"""

from __future__ import annotations

import io
import itertools
import os
import shutil
import socket
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path

import pytest

from platoon.artifacts.digests import content_hash
from platoon.core.outcome import Outcome
from platoon.envs.harbor import content
from platoon.envs.harbor.options import HarborOptions
from platoon.envs.harbor.service import HarborService
from platoon.envs.harbor.session import HarborSession
from platoon.host.console import Console
from platoon.pipeline.datasets import fetch_tools
from platoon.sandbox.process import ProcessProvider
from platoon.site import Site
from tests.envs.harbor.fakes.repositories import Repository
from tests.envs.harbor.sessions import PASS, play
from tests.envs.harbor.sources.conftest import Fetching
from tests.envs.harbor.sources.six import KINDS, Six

pytestmark = pytest.mark.process

SECRET = "of the host alone\n"
MIB = 1 << 20
FILES = 150


@pytest.fixture
def six(tmp_path: Path, fetching: Fetching, monkeypatch: pytest.MonkeyPatch) -> Six:
    (tmp_path / "secret").write_text(SECRET)
    (tmp_path / "secrets").mkdir()
    Repository(tmp_path / "tree").task("good")
    return Six(tmp_path / "tree", tmp_path, fetching, monkeypatch)


@pytest.mark.parametrize("kind", KINDS)
def test_h017_selection_overlays_and_hashes_are_those_of_any_dataset(six: Six, kind: str) -> None:
    tree = Repository(six.tree)
    tree.task("a", {"environment/docker-compose.yaml": "services: {main: {}, db: {image: redis:7}}\n"})
    tree.task("b", {".gitignore": "*.log\n", "tests/x.log": "not hashed", "instruction.md": "Ask b.\n"})
    wanted = six.options(kind)
    base = six.fetching.base
    (base / "ids.txt").write_text("".join(f"{six.name(kind, name)}\n" for name in "ab"))
    (base / "over").mkdir()
    (base / "over/overlay.toml").write_text("[[edit]]\nfile = 'instruction.md'\npattern = '$'\nreplace = 'Well.'\ncount = 2\n")
    plain = six.fetching({**wanted, "tasks": "ids.txt"}).lock
    assert {row.name: row.digest for row in plain.tasks} == {six.name(kind, name): content_hash(six.tree / name) for name in "ab"}
    assert (plain.selection["selected"], plain.selection["of"]) == (2, 3)
    row = plain.by_name[six.name(kind, "a")]
    assert (row.refused, row.flags["stack"], row.source_path.endswith("a")) == (None, "sidecars", True)
    overlaid = six.fetching({**wanted, "tasks": "ids.txt", "overlays": ["over"]}).lock
    assert [item.upstream_digest for item in overlaid.tasks] == [item.digest for item in plain.tasks]
    # The overlaid task is the same whichever source it came from.
    local = six.fetching({**six._directory(), "select": {"name": "b"}, "overlays": ["over"]}).lock
    assert overlaid.by_name[six.name(kind, "b")].digest == local.by_name["b"].digest


# What a person reads while a fetch lasts, besides how many tasks are done.
STEPS: Mapping[str, Sequence[str]] = {
    "git": ["fetch: file://"],
    "hf": ["fetch: listing hf://org/name", "fetch: downloading hf://org/name", "task 3 of 3"],
    "hub": ["fetch: asking the Hub for org/bench", "fetch: downloading tasks 1 to 3 of 3"],
    "registry": ["fetch: file://"],
    "adapter": ["fetch: running python3"],
}


@pytest.mark.parametrize("kind", KINDS)
def test_progress_of_a_long_fetch(six: Six, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """On the console that the commands have: a line once two seconds went by, then one a minute; here each look takes a minute."""
    tree = Repository(six.tree)
    for name in ("a", "b"):
        tree.task(name, {"instruction.md": f"Ask {name}.\n"})
    wanted = six.options(kind)
    seconds = itertools.count(0, 60)
    # Programs tell that they run each second.
    monkeypatch.setattr("platoon.host.run_command.TICK_S", 0.001)
    with Console(stream := io.StringIO(), clock=lambda: next(seconds)) as console:
        six.fetching.more["progress"] = progress = fetch_tools(Site(cache=six.base), console).progress
        progress("begun")
        six.fetching(wanted)
    lines = stream.getvalue().splitlines()
    counted = [line.rpartition(": ")[2] for line in lines if line.endswith(" of 3 tasks")]
    assert counted == [f"{number} of 3 tasks" for number in (1, 2, 3)], lines
    for step in STEPS.get(kind, ()):
        assert any(step in line for line in lines), (step, lines)


@pytest.mark.parametrize("kind", KINDS)
def test_h019_a_rollout_opens_without_network_git_or_a_command_line(
    six: Six, kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From the lock and the cache alone: what was fetched from is gone, and so is all that could fetch."""
    Repository(six.tree).task("good", {"tests/test.sh": f"#!/bin/bash\n{PASS}"})
    lock = six.fetching(six.options(kind)).lock
    for path in tmp_path.iterdir():
        if path not in (six.fetching.cache.root.parent, six.fetching.base):
            path.rename(path.with_name(f"gone-{path.name}")) if path.is_file() else shutil.rmtree(path)
    shutil.rmtree(six.fetching.base)
    forbidden = tmp_path / "forbidden"
    forbidden.mkdir()
    for name in ("git", "uvx", "harbor"):
        (forbidden / name).write_text(f"#!/bin/sh\ntouch {tmp_path}/asked-{name}\nexit 1\n")
        (forbidden / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{forbidden}:{os.environ['PATH']}")
    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    cache = six.fetching.cache
    service = HarborService(
        HarborOptions.parse({"dataset": lock.dataset if kind != "adapter" else "generated"}),
        lock_file=cache.lock_by_digest(lock.digest),
        cache_dir=cache.root,
        provider=ProcessProvider(root=tmp_path / "sandboxes"),
    )

    async def scenario(session: HarborSession) -> Outcome:
        assert "1,2" in str((await session.call_tool("bash", {"command": "cat data.csv"})).content)
        return await session.grade()

    outcome = play(service, scenario, task_id=six.name(kind, "good"))
    assert (outcome.status, outcome.rewards) == ("scored", {"reward": 1.0})
    assert not list(tmp_path.glob("asked-*"))


def refuse(*arguments: object) -> None:
    raise OSError("no network")


def link(place: str, target: str) -> Callable[[Path], None]:
    def make(task: Path) -> None:
        (task / place).parent.mkdir(parents=True, exist_ok=True)
        (task / place).unlink(missing_ok=True)
        (task / place).symlink_to(target)

    return make


def absolute(task: Path) -> None:
    (task / "tests/abs").symlink_to(task.parent.parent / "secret")


def named(name: bytes) -> Callable[[Path], None]:
    return lambda task: (task / "tests" / os.fsdecode(name)).write_text("x") and None


def large_settings(task: Path) -> None:
    (task / "task.toml").write_bytes(b"#" * (MIB + 1))


def many_files(task: Path) -> None:
    for number in range(FILES + 10):
        (task / "tests" / f"f{number}").write_text("")


def deep(task: Path) -> None:
    place = task / "/".join(["environment", *["d"] * 101])
    place.mkdir(parents=True)
    (place / "f").write_text("x")


def in_the_place_of(directory: str, task: Path) -> None:
    shutil.rmtree(task / directory, ignore_errors=True)
    (task / directory).write_text("x")


# What fails a whole fetch: how the task `bad` is made, and what is said.
FETCH_FAILS: Mapping[str, tuple[Callable[[Path], None], str]] = {
    "a link out of the task": (link("tests/out", "../../../secret"), "tests/out: a link to ../../../secret leaves the task"),
    "a link to another task": (
        link("environment/out", "../../good/task.toml"),
        "environment/out: a link to ../../good/task.toml leaves the task",
    ),
    "settings that are a link": (link("task.toml", "../good/task.toml"), "task.toml: a link to ../good/task.toml leaves the task"),
    "settings that lead nowhere": (link("task.toml", "nothing"), "task.toml: a link to nothing leads nowhere"),
    "an instruction that is a link": (
        link("instruction.md", "../../secret"),
        "instruction.md: a link to ../../secret leaves the task",
    ),
    "an absolute link": (absolute, "tests/abs: a link to "),
    "a link to nowhere": (link("tests/gone", "nothing"), "tests/gone: a link to nothing leads nowhere"),
    "a link to a directory": (
        link("tests/dir", "../environment"),
        "tests/dir: a link to the directory ../environment is not copied",
    ),
    "links in a circle": (link("tests/self", "self"), "tests/self: a link to self leads nowhere"),
    "settings without end": (large_settings, "task.toml: has 1048577 bytes, more than 1048576"),
    "very many files": (many_files, f"tests: the task holds more than {FILES} files"),
    **{
        f"a file in the place of {name}": (partial(in_the_place_of, name), f"{name}: is no directory")
        for name in ("environment", "tests", "solution", "steps")
    },
    "directories without end": (deep, "environment: is nested deeper than 100 directories"),
}
# A repository of Hugging Face lists files alone and gives them as files; its listing is JSON.
NO_LINKS = frozenset(case for case in FETCH_FAILS if "link" in case or "lead nowhere" in case)


@pytest.mark.parametrize("kind", KINDS)
def test_u41_what_fails_a_fetch(six: Six, kind: str) -> None:
    """All of it is told at once, and nothing of it is copied."""
    six.monkeypatch.setattr(content, "FILE_LIMIT", FILES)
    cases = [case for case in FETCH_FAILS if kind != "hf" or case not in NO_LINKS]
    for number, case in enumerate(cases):
        FETCH_FAILS[case][0](Repository(six.tree).task(f"bad-{number}", {"instruction.md": f"Do {number}.\n"}))
    said = six.refusal(kind)
    missing = {case for number, case in enumerate(cases) if f"bad-{number}: {FETCH_FAILS[case][1]}" not in said}
    assert not missing, said
    read = (path.read_bytes() for path in six.fetching.cache.root.rglob("*") if path.is_file() and not path.is_symlink())
    assert not any(SECRET.encode() in data for data in read)


BREAKING = [b"a\nb", b"a\rb", b"\xff\xfe"]


# The listing of Hugging Face is JSON: it holds no name that is not Unicode.
@pytest.mark.parametrize(("kind", "name"), [(kind, name) for kind in KINDS for name in BREAKING if kind != "hf" or name.isascii()])
def test_names_that_break_a_listing(six: Six, kind: str, name: bytes) -> None:
    task = Repository(six.tree).task("bad", {"instruction.md": "Do bad.\n"})
    (task / "tests" / os.fsdecode(name)).write_text("x")
    said = six.refusal(kind)
    assert "bad: tests/" in said
    assert "a name is UTF-8 on one line" in said


BOMB = (
    "x0: &a0 [y]\n" + "".join(f"x{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]\n" for n in range(1, 12)) + "services: {main: {}}\n"
)
COMPOSE, DOCKERFILE = "environment/docker-compose.yaml", "environment/Dockerfile"
# What refuses one task, in its row: file, content, and how the refusal begins.
TASK_REFUSED = {
    "aliases without end": (COMPOSE, BOMB, f"compose: {COMPOSE}:"),
    "a key twice": (COMPOSE, "services: {main: {}, main: {}}\n", f"compose: {COMPOSE}:1: the key 'main' is given twice"),
    "nested without end": (COMPOSE, "[" * 90_000, f"compose: {COMPOSE}:1: is nested deeper"),
    "a large file": (COMPOSE, "#" * (MIB + 1), f"compose: {COMPOSE}: has more than"),
    "a bind out of the task": (
        COMPOSE,
        "services: {main: {volumes: ['../../x:/x']}}\n",
        "compose: main.volumes: ../../x leaves the task",
    ),
    "a variable file out of the task": (COMPOSE, "services: {main: {env_file: ../../x}}\n", "compose: main.env_file: "),
    "a build out of the task": (COMPOSE, "services: {main: {}, a: {build: ../..}}\n", "compose: a.build.context: ../.. is outside"),
    "the host's own": (
        COMPOSE,
        "services: {main: {volumes: ['/etc/passwd:/x']}}\n",
        "compose: main.volumes: /etc/passwd is a path of the host",
    ),
    "a copy out of the context": (
        DOCKERFILE,
        "FROM x\nCOPY ../tests /x\nRUN y\n",
        "image: Dockerfile:2: ../tests is not in the context, where a build looks for tests",
    ),
    "a large Dockerfile": (DOCKERFILE, "#" * (MIB + 1), "image: "),
    "a here-document without end": (DOCKERFILE, "FROM x\nRUN <<EOF\n" + "y\n" * 1000, "image: Dockerfile:2: "),
    "a setting twice": ("task.toml", "a = 1\na = 2\n", "task_config: task.toml: "),
    "settings nested without end": ("task.toml", "a = " + "[" * 50_000, "task_config: task.toml: "),
    "settings that are no text": ("task.toml", "\0", "task_config: task.toml: "),
    "an instruction of blanks": ("instruction.md", " \n\t\n", "task_config: instruction.md: is empty"),
}


@pytest.mark.parametrize("kind", KINDS)
def test_a_task_whose_settings_are_misspelt_is_refused_and_not_passed_over(six: Six, kind: str) -> None:
    task = Repository(six.tree).task("bad", {"instruction.md": "Do bad.\n"})
    (task / "task.toml").rename(task / "Task.TOML")
    lock = six.fetching(six.options(kind)).lock
    assert lock.by_name[six.name(kind, "bad")].refused == "task_config: task.toml: is missing, or no file"
    assert lock.runnable == (six.name(kind, "good"),)


@pytest.mark.parametrize("kind", KINDS)
def test_what_refuses_a_task(six: Six, kind: str) -> None:
    """The other tasks are locked as they are, and nothing is read without bound."""
    tree = Repository(six.tree)
    for number, (file, text, _) in enumerate(TASK_REFUSED.values()):
        tree.task(f"bad-{number:02}", {"instruction.md": f"Do {number}.\n", file: text})
    lock = six.fetching(six.options(kind)).lock
    wrong = {}
    for number, (case, (_, _, begins)) in enumerate(TASK_REFUSED.items()):
        refused = lock.by_name[six.name(kind, f"bad-{number:02}")].refused
        if refused is None or not refused.startswith(begins) or not refused.isprintable() or len(refused) > 500:
            wrong[case] = refused
    assert not wrong
    assert lock.runnable == (six.name(kind, "good"),)
