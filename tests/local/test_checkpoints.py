from __future__ import annotations

import errno
import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from platoon.local import checkpoints
from platoon.local.checkpoints import CheckpointId, CheckpointStore, Contents, Description
from platoon.local.refusals import NotFound, Refusal
from platoon.local.shapes import ModelShape

pytestmark = pytest.mark.unit

SHAPE = ModelShape(vocab=70, hidden=32, layers=1, heads=2, kv_heads=1, mlp=32)
RUN = "0123456789abcdef:train:0"
ABOUT = Description("local/tiny", 8, ("attn", "mlp"), {"renderer_name": "x"}, {"step": "3"})


def contents(seed: int = 0, optimizer: bool = True) -> Contents:
    source = np.random.default_rng(seed)
    vectors = [source.standard_normal(SHAPE.parameter_count, dtype=np.float32) for _ in range(3)]
    return Contents(vectors[0], *vectors[1:], steps=7) if optimizer else Contents(vectors[0])


def checkpoint(name: str = "step-1", kind: str = "weights") -> CheckpointId:
    return CheckpointId.of(RUN, kind, name)


class Clock:
    def __init__(self) -> None:
        self.now = 1_000_000.0

    def __call__(self) -> float:
        return self.now


def test_a_checkpoint_reads_back_in_another_store_over_the_same_directory(tmp_path: Path) -> None:
    saved = contents()
    info = CheckpointStore(tmp_path).save(checkpoint(), SHAPE, saved, ABOUT)
    other = CheckpointStore(tmp_path)
    loaded = other.load(checkpoint(), SHAPE)
    np.testing.assert_array_equal(loaded.parameters, saved.parameters)
    np.testing.assert_array_equal(loaded.first, saved.first)
    np.testing.assert_array_equal(loaded.second, saved.second)
    assert loaded.steps == 7
    assert other.info(checkpoint()) == info and info.description == ABOUT
    assert [found.id for found in other.of_run(RUN)] == [checkpoint()] and other.runs() == [RUN]
    assert info.size_bytes == next(tmp_path.rglob("*.safetensors")).stat().st_size


def test_a_name_is_used_once_unless_overwriting(tmp_path: Path) -> None:
    store = CheckpointStore(tmp_path)
    store.save(checkpoint(), SHAPE, contents(0), ABOUT)
    with pytest.raises(Refusal, match="exists"):
        store.save(checkpoint(), SHAPE, contents(1), ABOUT)
    store.save(checkpoint(), SHAPE, contents(1), ABOUT, overwrite=True)
    np.testing.assert_array_equal(store.load(checkpoint(), SHAPE).parameters, contents(1).parameters)
    store.save(checkpoint(kind="sampler_weights"), SHAPE, contents(0, optimizer=False), ABOUT)
    assert store.load(checkpoint(kind="sampler_weights"), SHAPE).first is None


@pytest.mark.parametrize(
    "path",
    [
        "step-1",
        "tinker://",
        f"tinker://{RUN}/weights",
        f"tinker://{RUN}/weights/a/b",
        f"tinker://{RUN}/other/a",
        f"tinker://{RUN}/weights/..",
        f"tinker://{RUN}/weights/.hidden",
        f"tinker://{RUN}/weights/",
        f"tinker://{RUN}/weights/a\0b",
        f"tinker://{RUN}/weights/" + "x" * 181,
        "tinker://../weights/a",
        "tinker://..:train:0/weights/a",
        "tinker://x/weights/a",
    ],
)
def test_paths_that_lead_elsewhere_are_refused(path: str) -> None:
    with pytest.raises(Refusal):
        CheckpointId.parse(path)


@given(st.text(), st.text(), st.text())
def test_no_id_leads_out_of_the_store(run: str, kind: str, name: str) -> None:
    try:
        parsed = CheckpointId.of(run, kind, name)
    except Refusal:
        return
    root = Path("/store")
    file = CheckpointStore(root)._file(parsed)
    assert Path(os.path.normpath(file)) == file and file.is_relative_to(root)


def test_expiry_hides_a_checkpoint_and_the_reaper_removes_it(tmp_path: Path) -> None:
    clock = Clock()
    store = CheckpointStore(tmp_path, clock)
    store.save(checkpoint("short"), SHAPE, contents(), ABOUT, ttl_s=3600)
    store.save(checkpoint("long"), SHAPE, contents(), ABOUT)
    assert store.reap() == []
    clock.now += 3601
    with pytest.raises(NotFound):
        store.info(checkpoint("short"))
    assert [info.id.name for info in store.of_run(RUN)] == ["long"]
    store.set_ttl(checkpoint("long"), 10.0)
    assert store.reap() == [checkpoint("short")]
    clock.now += 11
    assert store.reap() == [checkpoint("long")]
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]


def test_a_ttl_can_be_taken_away_and_a_deleted_checkpoint_is_gone(tmp_path: Path) -> None:
    clock = Clock()
    store = CheckpointStore(tmp_path, clock)
    store.save(checkpoint(), SHAPE, contents(), ABOUT, ttl_s=3600)
    store.set_ttl(checkpoint(), None)
    clock.now += 10_000
    assert store.info(checkpoint()).expires_at is None
    store.delete(checkpoint())
    for operation in (store.info, store.delete, lambda found: store.set_ttl(found, 5.0), lambda found: store.load(found, SHAPE)):
        with pytest.raises(NotFound):
            operation(checkpoint())


def test_a_full_disk_leaves_no_half_file_and_the_old_checkpoint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = CheckpointStore(tmp_path)
    store.save(checkpoint(), SHAPE, contents(0), ABOUT)

    def full(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space"):
        store.save(checkpoint(), SHAPE, contents(1), ABOUT, overwrite=True)
    monkeypatch.undo()
    assert [path.name for path in tmp_path.rglob("*") if path.is_file()] == ["step-1.safetensors"]
    np.testing.assert_array_equal(store.load(checkpoint(), SHAPE).parameters, contents(0).parameters)


def test_foreign_and_torn_files_are_no_checkpoints(tmp_path: Path) -> None:
    store = CheckpointStore(tmp_path)
    directory = tmp_path / RUN / "weights"
    directory.mkdir(parents=True)
    other: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    header = json.dumps(other).encode()
    (directory / "foreign.safetensors").write_bytes(len(header).to_bytes(8, "little") + header)
    (directory / "torn.safetensors").write_bytes(b"\x10\0\0\0\0\0\0\0{")
    (directory / "empty.safetensors").write_bytes(b"")
    (directory / ".half.safetensors.abc.partial").write_bytes(b"x")
    (tmp_path / "not a run").mkdir()
    assert store.of_run(RUN) == [] and store.runs() == [RUN]
    with pytest.raises(NotFound):
        store.info(checkpoint("torn"))


@pytest.mark.parametrize("vector", [0, 1, 2], ids=["parameters", "first moment", "second moment"])
@pytest.mark.parametrize("damage", [b"\x01\x02", b"\x00\x00\xc0\x7f"], ids=["bytes", "nan"])
def test_a_damaged_checkpoint_is_not_loaded(tmp_path: Path, vector: int, damage: bytes) -> None:
    store = CheckpointStore(tmp_path)
    store.save(checkpoint(), SHAPE, contents(), ABOUT)
    file = next(tmp_path.rglob("*.safetensors"))
    file.chmod(0o600)
    with file.open("r+b") as stream:
        stream.seek(-SHAPE.parameter_count * 4 * (3 - vector), 2)
        stream.write(damage)
    with pytest.raises(Refusal, match="damaged") as refused:
        store.load(checkpoint(), SHAPE)
    assert refused.value.category == "user"


@pytest.mark.parametrize("change", ["cut off", "longer", "directory"])
def test_a_file_of_another_size_than_its_header_says_is_not_there(tmp_path: Path, change: str) -> None:
    store = CheckpointStore(tmp_path)
    store.save(checkpoint(), SHAPE, contents(), ABOUT)
    file = next(tmp_path.rglob("*.safetensors"))
    whole = file.read_bytes()
    file.unlink()
    if change == "directory":
        file.mkdir()
    else:
        file.write_bytes(whole[:-4] if change == "cut off" else whole + b"\0")
    assert store.of_run(RUN) == [] and store.reap() == []
    for operation in (store.info, lambda found: store.load(found, SHAPE)):
        with pytest.raises(NotFound, match="damaged"):
            operation(checkpoint())


@pytest.mark.parametrize(
    "text", ['{"expires_at": "x"}', '{"expires_at": true}', '{"expires_at": NaN}', '{"expires_at": 1e300}', "[]", "", "\xff", "{}"]
)
def test_an_unreadable_expiry_is_told_once_and_ignored(tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str) -> None:
    store = CheckpointStore(tmp_path)
    store.save(checkpoint(), SHAPE, contents(), ABOUT, ttl_s=3600)
    next(tmp_path.rglob("*.safetensors")).with_name("step-1.expires").write_bytes(text.encode("latin-1"))
    assert store.reap() == [] and store.info(checkpoint()).expires_at is None
    assert capsys.readouterr().err.count("step-1.expires") == 1
    store.set_ttl(checkpoint(), 5.0)
    assert store.info(checkpoint()).expires_at is not None


def test_old_half_written_files_of_dead_writers_are_reaped(tmp_path: Path) -> None:
    clock = Clock()
    store = CheckpointStore(tmp_path, clock)
    directory = tmp_path / RUN / "weights"
    directory.mkdir(parents=True)
    old, young = directory / ".a.1.partial", directory / ".b.2.partial"
    for file, age_s in ((old, checkpoints.STALE_PARTIAL_S + 1), (young, 1.0)):
        file.write_bytes(b"x")
        os.utime(file, (clock.now - age_s, clock.now - age_s))
    store.reap()
    assert not old.exists() and young.exists()
