from __future__ import annotations

import errno
import fcntl
import json
import os
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from platoon.local import checkpoints
from platoon.local.checkpoints import CheckpointId, CheckpointStore, Contents, Description
from platoon.local.refusals import NotFound, Refusal
from platoon.local.routes import checkpoint_row, damaged_row
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


DAMAGES: dict[str, Callable[[Path, bytes], object]] = {
    "cut off": lambda file, whole: file.write_bytes(whole[:-4]),
    "longer": lambda file, whole: file.write_bytes(whole + b"\0"),
    "header cut off": lambda file, whole: file.write_bytes(whole[:50]),
    "empty": lambda file, whole: file.write_bytes(b""),
    "zeros": lambda file, whole: file.write_bytes(bytes(len(whole))),
    "directory": lambda file, whole: (file / "below").mkdir(parents=True),
    "link to nothing": lambda file, whole: file.symlink_to("nowhere"),
    "link to itself": lambda file, whole: file.symlink_to(file.name),
}


def damaged_store(directory: Path, damage: str, clock: Clock, ttl_s: float | None = None) -> CheckpointStore:
    store = CheckpointStore(directory, clock)
    store.save(checkpoint(), SHAPE, contents(), ABOUT, ttl_s=ttl_s)
    file = next(directory.rglob("*.safetensors"))
    whole = file.read_bytes()
    file.unlink()
    DAMAGES[damage](file, whole)
    return store


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_checkpoint_is_not_there_for_who_loads_and_can_be_listed_and_deleted(tmp_path: Path, damage: str) -> None:
    store = damaged_store(tmp_path, damage, Clock())
    store.save(checkpoint("whole"), SHAPE, contents(), ABOUT)
    assert [info.id.name for info in store.of_run(RUN)] == ["whole"] and store.reap() == []
    for operation in (store.info, lambda found: store.load(found, SHAPE)):
        with pytest.raises((NotFound, OSError)) as refusal:
            operation(checkpoint())
        # What the file system refuses may pass: it is no verdict on the checkpoint.
        assert isinstance(refusal.value, OSError) == (damage == "link to itself")
    [damaged] = store.damaged_of_run(RUN)
    assert damaged.id == checkpoint() and damaged.reason and damaged.expires_at is None
    store.delete(checkpoint())
    left = [path.name for path in (tmp_path / RUN / "weights").iterdir()]
    assert left == ["whole.safetensors"] and store.damaged_of_run(RUN) == []
    with pytest.raises(NotFound):
        store.delete(checkpoint())


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_checkpoint_is_reaped_when_its_expiry_is_known_and_over(tmp_path: Path, damage: str) -> None:
    clock = Clock()
    store = damaged_store(tmp_path, damage, clock, ttl_s=3600)
    clock.now += 3601
    # The header still says when.
    known = damage in {"cut off", "longer"}
    assert store.reap() == ([checkpoint()] if known else [])
    if not known:
        store.set_ttl(checkpoint(), 5.0)
        assert store.reap() == []
        clock.now += 6
        assert store.reap() == [checkpoint()]
    assert not [path for path in tmp_path.rglob("*") if not path.is_dir()] and store.damaged_of_run(RUN) == []


def packed(header: bytes, data: bytes) -> bytes:
    return len(header).to_bytes(8, "little") + header + data


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)
ABOUT_KEYS = {
    "base_model": "local/tiny",
    "rank": 8,
    "train_groups": ["attn"],
    "run_metadata": {},
    "user_metadata": {},
    "created_at": 1.0,
    "expires_at": None,
    "steps": 1,
    "digest": "sha256:0",
}


@st.composite
def files(draw: st.DrawFn) -> bytes:
    """Anything; a header that is any JSON; a good header of which one key is any JSON."""
    kind = draw(st.sampled_from(["bytes", "header", "about", "tensor"]))
    if kind == "bytes":
        return draw(st.binary(max_size=60))
    value = draw(JSON)
    if kind == "header":
        return packed(json.dumps(value).encode(), b"")
    about = dict(ABOUT_KEYS)
    tensors: dict[str, Any] = {"x": {"data_offsets": [0, 4]}}
    if kind == "about":
        about[draw(st.sampled_from([*ABOUT_KEYS, "moments_digest"]))] = value
    else:
        tensors = {"x": value if draw(st.booleans()) else {"data_offsets": value}}
    header = {"__metadata__": {"platoon": json.dumps(about)}, **tensors}
    return packed(json.dumps(header).encode(), draw(st.sampled_from([b"", b"1234"])))


@given(data=files())
def test_any_file_in_a_checkpoints_place_is_judged_and_can_be_deleted(
    data: bytes, tmp_path_factory: pytest.TempPathFactory
) -> None:
    store = CheckpointStore(tmp_path_factory.mktemp("store"), Clock())
    file = store._file(checkpoint())
    file.parent.mkdir(parents=True)
    file.write_bytes(data)
    # As the routes write them.
    rows = [*map(checkpoint_row, store.of_run(RUN)), *map(damaged_row, store.damaged_of_run(RUN))]
    json.dumps(rows)
    for operation in (store.info, lambda found: store.load(found, SHAPE)):
        with suppress(Refusal):
            operation(checkpoint())
    reaped = store.reap()
    assert len(rows) + len(reaped) >= 1
    if not reaped:
        store.delete(checkpoint())
    assert not file.exists()


def test_files_whose_names_no_checkpoint_can_have_are_left_out(tmp_path: Path) -> None:
    directory = tmp_path / RUN / "weights"
    directory.mkdir(parents=True)
    for name in (b"new\nline.safetensors", b"\xff.safetensors", b"x" * 181 + b".safetensors"):
        (Path(os.fsdecode(directory / os.fsdecode(name)))).write_bytes(b"")
    store = CheckpointStore(tmp_path)
    assert store.damaged_of_run(RUN) == [] and store.reap() == []


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


def test_half_written_files_of_dead_writers_are_reaped(tmp_path: Path) -> None:
    """A writer holds a lock for as long as it lives; one that is older than any writer counts as dead."""
    clock = Clock()
    store = CheckpointStore(tmp_path, clock)
    directory = tmp_path / RUN / "weights"
    directory.mkdir(parents=True)
    ages_s = {"dead": 10.0, "held": 10.0, "young": 1.0, "forgotten": checkpoints.STALE_PARTIAL_S + 1}
    files = {name: directory / f".{name}.1.partial" for name in ages_s}
    for name, file in files.items():
        file.write_bytes(b"x")
        os.utime(file, (clock.now - ages_s[name], clock.now - ages_s[name]))
    with files["held"].open("rb") as held, files["forgotten"].open("rb") as forgotten:
        for stream in (held, forgotten):
            fcntl.flock(stream, fcntl.LOCK_EX)
        store.reap()
    assert [name for name, file in files.items() if file.exists()] == ["held", "young"]


def test_a_checkpoint_under_way_is_not_reaped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock()
    store = CheckpointStore(tmp_path, clock)
    whole = checkpoints.write

    def slow(stream: Any, *rest: Any) -> None:
        whole(stream, *rest)
        stream.flush()
        clock.now = time.time() + 100
        store.reap()

    monkeypatch.setattr(checkpoints, "write", slow)
    store.save(checkpoint(), SHAPE, contents(), ABOUT)
    assert store.load(checkpoint(), SHAPE).steps == contents().steps
