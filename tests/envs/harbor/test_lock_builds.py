"""What builds become in a lock: their input files, users and owners, and which tasks share one."""

from __future__ import annotations

from pathlib import Path

import pytest

from platoon.envs.harbor.fetch import fetch
from platoon.envs.harbor.lock import LockRow
from platoon.envs.harbor.options import HarborOptions, Refuse
from platoon.envs.harbor.publish import HarborCache
from platoon.envs.harbor.rows import finish_rows
from tests.envs.harbor.conftest import Locked, MakeTask

pytestmark = pytest.mark.unit


def test_h042_builds_of_sidecars_are_planned_whole(locked: Locked) -> None:
    compose = "services: {main: {}, judge: {build: ./judge}}\n"
    files = {"environment/judge/Dockerfile": 'FROM debian:12\nCOPY x /x\nCMD ["serve"]\n', "environment/judge/x": "x"}
    row, plan = locked(compose, files=files)
    assert row.refused is None
    build = plan["services"]["judge"]["image"]["build"]
    assert build["key"].startswith("sha256:")
    assert build["deferred"] == []
    outside, _ = locked("services: {main: {}, judge: {build: ../../elsewhere}}\n", files=files)
    assert outside.refused is not None
    assert outside.refused.startswith("compose: judge.build")


@pytest.mark.parametrize("place", ["environment/Dockerfile", "tests/Dockerfile"])
def test_h051_a_dockerfile_that_ends_in_a_user(locked: Locked, place: str) -> None:
    files = {place: "FROM debian:12\nENV NB_UID=1000\nUSER ${NB_UID}\n"}
    if place.startswith("tests"):
        files["task.toml"] = '[verifier]\nenvironment_mode = "separate"\n'
    row, _ = locked(files=files)
    assert row.refused is not None
    assert row.refused.startswith("agent_user: ")
    assert "USER (refuse: {agent_user: false} fetches it, " in row.refused
    taken, _ = locked(files=files, refuse={"agent_user": False})
    assert taken.refused is None
    image = taken.image if place.startswith("environment") else taken.verifier_image
    assert image is not None
    # Expanded when a session knows the image's environment.
    assert image["deferred"][-1] == ["USER", "${NB_UID}"]


@pytest.mark.parametrize("compose", [None, "services: {main: {}, db: {build: {context: ., dockerfile: Dockerfile}}}\n"])
def test_h008_a_directory_that_was_empty_is_built_as_one(
    make_task: MakeTask, tmp_path: Path, cache: HarborCache, compose: str | None
) -> None:
    """As Frontier-CS's adapter writes them: its Dockerfiles copy a directory that most of its tasks leave empty."""
    files = {"environment/Dockerfile": "FROM debian:12\nCOPY app/ /app/\nRUN true\n", "environment/docker-compose.yaml": compose}
    (make_task("t", files, tmp_path / "data") / "environment/app").mkdir()
    fetched = fetch(HarborOptions.parse({"dataset": "data"}), tmp_path, cache)
    (row,) = fetched.lock.tasks
    assert (row.refused, row.image["empty_directories"]) == (None, ["app"])
    assert fetched.warnings == {
        "environment/Dockerfile: app/ is not in the task, and is built as an empty directory": (1, "t"),
    }
    if compose is not None:
        assert row.compose is not None
        assert fetched.lock.plans[row.compose["plan"]]["services"]["db"]["image"]["build"]["empty_directories"] == ["app"]


def test_i509_a_deferred_copy_keeps_its_owner(locked: Locked) -> None:
    row, _ = locked(files={"environment/Dockerfile": "FROM debian:12\nCOPY --chown=1000:100 data.csv /d/\n"})
    assert row.image["deferred"] == [["COPY", "--chown=1000:100", "data.csv", "/d/"]]
    assert row.image["kind"] == "per_task"
    assert row.flags["upload_bytes"] == len("a,b\n1,2\n")
    assert list(row.input_files or {}) == ["environment/data.csv"]


SUB = "environment/sub"


@pytest.mark.parametrize(
    ("build", "files", "inputs"),
    [
        ("./sub", {f"{SUB}/Dockerfile": ". /x/", f"{SUB}/.dockerignore": "b\n"}, [f"{SUB}/a"]),
        ("{dockerfile: My.Dockerfile}", {"environment/My.Dockerfile": ". /x/"}, ["environment/data.csv", f"{SUB}/a", f"{SUB}/b"]),
        (
            "{dockerfile: sub/My.Dockerfile}",
            {f"{SUB}/My.Dockerfile": ". /x/", f"{SUB}/My.Dockerfile.dockerignore": "sub/a\n"},
            ["environment/data.csv", f"{SUB}/b"],
        ),
        # Files beside environment/ are none of its inputs, whatever the context is.
        ("{context: .., dockerfile: environment/Dockerfile}", {"environment/Dockerfile": ". /x/"}, None),
        (".", {"environment/Dockerfile": "*.csv /x/"}, ["environment/data.csv"]),
        (".", {"environment/Dockerfile": "sub/[^b] /x/"}, [f"{SUB}/a"]),
        # A recipe counts where it is no recipe.
        ("./sub", {f"{SUB}/Dockerfile": ". /x/", f"{SUB}/d/Dockerfile": "."}, [f"{SUB}/a", f"{SUB}/b", f"{SUB}/d/Dockerfile"]),
    ],
)
def test_the_input_files_of_a_task_are_those_it_copies_not_its_recipes(
    locked: Locked, build: str, files: dict[str, str], inputs: list[str] | None
) -> None:
    """Recipes that tasks have in common would join their hold-out groups."""
    recipes = {name: f"FROM x\nCOPY {text}\nRUN y\n" if name.endswith("Dockerfile") else text for name, text in files.items()}
    row, _ = locked(f"services: {{main: {{build: {build}}}}}\n", files={f"{SUB}/a": "1", f"{SUB}/b": "2", **recipes})
    assert row.refused is None
    assert list(row.input_files or {}) == (inputs or ["environment/data.csv", f"{SUB}/a", f"{SUB}/b"])


def test_builds_that_tasks_share(make_task: MakeTask, tmp_path: Path, cache: HarborCache) -> None:
    dockerfile = "FROM debian:12\nRUN true\nCOPY data.csv /d/\n"
    for name, text in (("a", dockerfile), ("b", dockerfile), ("c", "FROM debian:11\n")):
        make_task(name, {"environment/Dockerfile": text, "environment/data.csv": name}, tmp_path / "data")
    lock = fetch(HarborOptions.parse({"dataset": "data"}), tmp_path, cache).lock
    assert {name: row.image["kind"] for name, row in lock.by_name.items()} == {"a": "shared", "b": "shared", "c": "per_task"}
    refusing = fetch(HarborOptions.parse({"dataset": "data", "refuse": {"per_task_build": True}}), tmp_path, cache).lock
    assert refusing.runnable == ("a", "b")
    assert refusing.by_name["c"].refused == "per_task_build: no other task shares the image it builds"
    # A task that is refused shares with nobody.
    (tmp_path / "data/b/instruction.md").unlink()
    alone = fetch(HarborOptions.parse({"dataset": "data"}), tmp_path, cache).lock
    assert alone.by_name["a"].image["kind"] == "per_task"


@pytest.mark.parametrize("reverse", [False, True])
def test_a_build_whose_sharers_are_refused_is_shared_with_nobody(reverse: bool) -> None:
    """Each refusal may take the last sharer of another build: from a on, one after the other, but for the two that share two."""

    def row(name: str, key: str, verifier: str | None = None) -> LockRow:
        return LockRow(name, "", "", image={"key": key}, verifier_image=None if verifier is None else {"key": verifier})

    rows = [row("a", "k0", "k1"), row("b", "k1"), row("c", "k2", "k3"), row("d", "k3", "k2")]
    rows += [row(f"e{number}", f"n{number}", f"n{number + 1}") for number in range(50)]
    found = finish_rows(rows[::-1] if reverse else rows, Refuse(per_task_build=True))
    assert sorted(row.name for row in found if row.runnable) == ["c", "d"]
    assert {row.image["kind"] for row in found if row.runnable} == {"shared"}
    same = finish_rows([row("x", "k", "k"), row("y", "k")], Refuse(per_task_build=True))
    assert [row.runnable for row in same] == [True, True]
    assert not finish_rows([row("x", "k", "k")], Refuse(per_task_build=True))[0].runnable
