"""`platoon harbor lock --check` and `verify` as a shell sees them: what differs, what is damaged, what is made anew."""

from __future__ import annotations

import codecs
import json
import re
from pathlib import Path

import pytest

from platoon import exits
from tests.cli.conftest import Run, write
from tests.envs.harbor.fakes.repositories import Repository

pytestmark = pytest.mark.process


def test_lock_check_names_the_first_entry_that_differs(tmp_path: Path, run: Run, repository: Repository) -> None:
    for name in ("a", "b"):
        Repository(tmp_path / "data").task(name)
        Repository(tmp_path / "more").task(name)
    commit = repository.git("rev-parse", "HEAD")
    config = write(tmp_path / "c.yaml", {"dataset": f"git+{repository.url}@{commit}"}, {"dataset": "data"}, {"dataset": "more"})
    code, _, told = run("harbor", "lock", config, "--check")
    assert code == exits.CONFIG
    assert re.search(r"environment e0 has no lock in the cache \S+ \(.*PLATOON_SITE.*\) \(run platoon harbor fetch CONFIG\)", told)
    code, out, _ = run("harbor", "lock", config)
    assert code == exits.DONE
    before = {path: path.read_bytes() for path in (tmp_path / "cache/harbor/locks").rglob("*.json")}
    code, out, _ = run("harbor", "lock", config, "--check")
    assert (code, [line.split(",")[0] for line in out.splitlines()]) == (exits.DONE, ["e0: same", "e1: same", "e2: same"])
    (tmp_path / "data/b/instruction.md").write_text("Do another thing.\n")
    (tmp_path / "more/b/instruction.md").write_text("Do another thing.\n")
    code, out, _ = run("harbor", "lock", config, "--check")
    assert code == exits.FAILED
    assert out.splitlines()[1].startswith('e1: task b: digest: locked "sha256:')
    assert len(out.splitlines()) == 2
    code, out, _ = run("harbor", "lock", config, "--check", "--json")
    rows = [json.loads(line) for line in out.splitlines()]
    assert [row["same"] for row in rows] == [True, False]
    assert (rows[1]["difference"]["task"], rows[1]["difference"]["key"]) == ("b", "digest")
    assert {path: path.read_bytes() for path in (tmp_path / "cache/harbor/locks").rglob("*.json")} == before


def test_lock_check_of_a_lock_that_was_edited(tmp_path: Path, run: Run) -> None:
    """Also where what was edited is read by nobody. What no fetch writes is no lock to compare."""
    Repository(tmp_path / "data").task("a")
    config = write(tmp_path / "c.yaml", {"dataset": "data", "lock": "my.lock.json"})
    assert run("harbor", "lock", config)[0] == exits.DONE
    text = (tmp_path / "my.lock.json").read_text()
    (tmp_path / "my.lock.json").write_text(text.replace('"source_path":"a"', '"source_path":"b"'))
    code, out, _ = run("harbor", "lock", config, "--check")
    assert code == exits.FAILED
    assert out.startswith('e0: task a: source_path: locked "b", now "a"')
    (tmp_path / "my.lock.json").write_text(text.replace('"path":"tasks/', '"path":"../../../../etc/'))
    code, _, told = run("harbor", "lock", config, "--check")
    assert code == exits.CONFIG
    assert "my.lock.json: task a: path: must be tasks/" in told
    row = text.splitlines()[-3]
    twice = text.replace(row, f"{row},\n{row}").replace('"of":1,"select":{},"selected":1', '"of":2,"select":{},"selected":2')
    (tmp_path / "my.lock.json").write_text(twice)
    code, _, told = run("harbor", "lock", config, "--check")
    assert code == exits.CONFIG
    assert "task a: name: two rows have it" in told


@pytest.mark.parametrize("damage", ["emptied", "blank", "cut", "edited"])
def test_a_damaged_lock_is_made_again(tmp_path: Path, run: Run, damage: str) -> None:
    """It answers nothing, and is no file of somebody else's that a fetch would have to spare."""
    Repository(tmp_path / "data").task("a")
    config = write(tmp_path / "c.yaml", {"dataset": "data", "lock": "my.lock.json"})
    assert run("harbor", "lock", config)[0] == exits.DONE
    lock = tmp_path / "my.lock.json"
    whole = lock.read_text()
    damaged = {
        "emptied": "",
        "blank": " \n",
        "cut": whole[: len(whole) // 2],
        "edited": whole.replace('"refused":null', '"refused":5'),
    }
    for command, code in (
        (("lock", "--check"), exits.CONFIG),
        (("verify",), exits.CONFIG),
        (("lock",), 0),
        (("fetch", "--repair"), 0),
    ):
        lock.chmod(0o644)
        lock.write_text(damaged[damage])
        found, _, told = run("harbor", command[0], config, *command[1:])
        assert found == code, told
        if code == exits.CONFIG:
            assert "my.lock.json: " in told and "run platoon harbor fetch CONFIG" in told
        else:
            assert lock.read_text() == whole


def test_a_lock_behind_a_byte_order_mark_is_a_lock(tmp_path: Path, run: Run) -> None:
    Repository(tmp_path / "data").task("a")
    config = write(tmp_path / "c.yaml", {"dataset": "data", "lock": "my.lock.json"})
    assert run("harbor", "lock", config)[0] == exits.DONE
    lock = tmp_path / "my.lock.json"
    whole = lock.read_bytes()
    lock.chmod(0o644)
    lock.write_bytes(codecs.BOM_UTF8 + whole)
    assert run("harbor", "verify", config)[0] == run("harbor", "verify", lock.name)[0] == exits.DONE
    code, out, _ = run("harbor", "lock", config, "--check")
    assert (code, out.startswith("e0: line 1: ")) == (exits.FAILED, True)
    assert run("harbor", "lock", config)[0] == exits.DONE
    assert lock.read_bytes() == whole


def test_verify_hashes_the_cache_again(tmp_path: Path, run: Run) -> None:
    for name in ("a", "b", "c"):
        Repository(tmp_path / "data").task(name, {"instruction.md": f"Do {name}.\n"})
    config = write(tmp_path / "c.yaml", {"dataset": "data"})
    row = json.loads(run("harbor", "fetch", config, "--json")[1])
    code, out, told = run("harbor", "verify", row["lock"])
    assert (code, out) == (exits.DONE, "")
    assert "3 of 3 tasks as locked" in told
    tasks = {path.parent: path.read_text() for path in (tmp_path / "cache/harbor/tasks").rglob("instruction.md")}
    places = {text.split()[1][0]: path for path, text in tasks.items()}
    (places["a"] / "instruction.md").write_text("Damaged.\n")
    places["b"].rename(tmp_path / "gone")
    code, out, told = run("harbor", "verify", row["lock"], "--json")
    assert code == exits.FAILED
    damaged, missing = map(json.loads, out.splitlines())
    assert (damaged["task"], missing["task"]) == ("a", "b")
    assert damaged["fault"].startswith("its content hash is sha256:")
    assert missing["fault"] == f"sha256:{places['b'].name} is not in the cache"
    assert "1 of 3 tasks as locked (platoon harbor fetch CONFIG --repair" in told
    assert run("harbor", "verify", row["lock"], "--task", "c")[0] == exits.DONE
    assert run("harbor", "verify", row["lock"], "--cache", str(tmp_path / "cache/harbor"), "--task", "b")[0] == exits.FAILED
    assert "no task is called x" in run("harbor", "verify", row["lock"], "--task", "x")[2]
    assert run("harbor", "verify", config, "--cache", "x")[0] == exits.CONFIG


def test_verify_of_a_configuration(tmp_path: Path, run: Run, repository: Repository) -> None:
    config = write(tmp_path / "c.yaml", {"dataset": f"git+{repository.url}@main"})
    assert run("harbor", "verify", config)[0] == exits.CONFIG
    run("harbor", "fetch", config, "--update")
    assert run("harbor", "verify", config)[0] == exits.DONE


@pytest.mark.parametrize("command", [("lock", "--check"), ("verify",), ("images", "plan")])
def test_a_question_that_changed_is_told_as_that(tmp_path: Path, run: Run, command: tuple[str, ...]) -> None:
    Repository(tmp_path / "data").task("t1")
    overlay = tmp_path / "edits/overlay.toml"
    overlay.parent.mkdir()
    overlay.write_text('[[edit]]\nfile = "instruction.md"\npattern = "D"\n')
    config = write(tmp_path / "c.yaml", {"dataset": "data", "overlays": ["edits"]})
    code, _, told = run("harbor", *command, config)
    assert code == exits.CONFIG and "environment e0 has no lock in the cache" in told
    assert run("harbor", "fetch", config)[0] == exits.DONE
    overlay.write_text(overlay.read_text() + 'replace = "U"\n')
    code, _, told = run("harbor", *command, config)
    assert code == exits.CONFIG
    assert "e0 asks its dataset for something else than what was locked (run platoon harbor fetch CONFIG)" in told
