"""The compiled module: its stub, its errors, and its use before and after a fork."""

from __future__ import annotations

import ast
import errno
import inspect
import multiprocessing
import os
import threading
import time
import warnings
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from platoon import _native
from platoon.rows.block import COLUMNS, RowBlock
from platoon.rows.merge import Call, TrajectoryCalls, build_block

pytestmark = pytest.mark.unit

STUB = Path(_native.__file__).parent / "_native.pyi"


def stubbed(body: list[ast.stmt]) -> dict[str, Any]:
    """Names of a stub: argument names of a function, a dict of members of a class, None of a constant."""
    names: dict[str, Any] = {}
    for node in body:
        if isinstance(node, ast.FunctionDef):
            listed = [*node.args.args, *filter(None, [node.args.vararg])]
            arguments = [argument.arg for argument in listed if argument.arg not in ("self", "cls")]
            names[node.name] = arguments if node.name != "__new__" else []
        elif isinstance(node, ast.ClassDef):
            names[node.name] = stubbed(node.body)
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            names[node.target.id] = None
    return names


def found(namespace: Any) -> dict[str, Any]:
    """The same of what is really there."""
    names: dict[str, Any] = {}
    for name, value in vars(namespace).items():
        if name.startswith("__") and name != "__new__":
            continue
        if inspect.isclass(value):
            names[name] = {} if issubclass(value, Exception) else found(value)
        elif callable(value):
            parameters = inspect.signature(value).parameters if name != "__new__" else {}
            names[name] = [parameter for parameter in parameters if parameter != "self"]
        else:
            names[name] = None
    return names


def test_the_stub_says_what_the_module_holds() -> None:
    names = stubbed(ast.parse(STUB.read_text()).body)
    assert found(_native) == names
    assert sorted(_native.__all__) == sorted(names)


def test_build_info() -> None:
    info = _native.build_info()
    assert info["block_rule"] == _native.BLOCK_RULE and info["content_hash_rule"] == _native.CONTENT_HASH_RULE
    assert info["owners_rule"] == _native.OWNERS_RULE
    rules = {"block_rule", "content_hash_rule", "owners_rule"}
    assert set(info) == {"version", "target", "optimised", "sha_unit", "threads"} | rules
    assert info["threads"] == len(os.sched_getaffinity(0))


@pytest.mark.parametrize(
    ("name", "code", "kind"),
    [
        ("absent", errno.ENOENT, FileNotFoundError),
        ("file/below", errno.ENOTDIR, NotADirectoryError),
        ("loop", errno.ELOOP, OSError),
    ],
)
def test_system_errors_keep_errno_and_path(tmp_path: Path, name: str, code: int, kind: type[OSError]) -> None:
    (tmp_path / "file").write_text("")
    (tmp_path / "loop").symlink_to("loop")
    for function in (_native.sha256_file, _native.content_hash, _native.hashed_files):
        with pytest.raises(kind) as caught:
            function(tmp_path / name)
        assert (caught.value.errno, caught.value.filename) == (code, str(tmp_path / name))


@pytest.mark.parametrize(
    ("values", "error", "text"),
    [
        ([1.0], _native.DataError, "weights: list where"),
        (np.zeros(1, np.float32), _native.DataError, "weights: float32 of 1 dimensions"),
        (np.zeros((1, 1)), _native.DataError, "weights: float64 of 2 dimensions"),
        (np.zeros(1, ">f8"), _native.DataError, "weights: >f8"),
        (np.zeros(2)[::2], None, ""),
        (np.zeros(4)[::2], _native.ShapeError, "weights: not contiguous"),
        (np.frombuffer(bytes(17), np.uint8)[1:9].view("f8"), _native.ShapeError, "weights: not aligned"),
    ],
)
def test_arrays_that_do_not_fit_are_refused_by_name(values: Any, error: type[Exception] | None, text: str) -> None:
    offsets = np.array([0, 1, 2][: 3 if np.size(values) == 2 else 2])
    arguments = (np.zeros(len(offsets) - 1, np.float32), offsets, values)
    if error is None:
        _native.scale_rows(*arguments)
        return
    with pytest.raises(error, match=text):
        _native.scale_rows(*arguments)


def test_read_only_arrays_are_taken() -> None:
    values = np.zeros(1)
    values.flags.writeable = False
    assert _native.scale_rows(np.ones(1, np.float32), np.array([0, 1]), values).tolist() == [0.0]


def test_a_block_without_a_column_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="tokens"):
        _native.check_block(SimpleNamespace(), 0, 0, 0)
    assert list(COLUMNS) == [name for name in RowBlock.__dataclass_fields__ if name not in ("policies", "roles", "side_names")]


def _tree(root: Path) -> Path:
    """Large enough that threads share it."""
    for number in range(1200):
        folder = root / "tests" / f"d{number % 40}"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"f{number}").write_text(f"{number}")
    return root


def _use(root: Path) -> tuple[str, int, list[str | None]]:
    """Work large enough to release the lock, and work that threads share."""
    tokens = np.arange(1, 200_000, dtype=np.uint32)
    call = Call(tokens, tokens[:1], np.zeros(1, np.float32), "main", version=0)
    block = build_block([TrajectoryCalls(0, 0, "root", 0, 1.0, [call])], ("main",), ("root",))
    digest = _native.content_hash(root, 3)
    checked = _native.verify_tasks([(root, digest, None)] * 3, 3)
    return digest, block.token_count, checked


def test_use_fork_use(tmp_path: Path) -> None:
    """Work before a fork, in the child, and after it. A call's threads end with it, and a child has none by default."""
    root = _tree(tmp_path)
    threads = _threads()
    before = _use(root)
    # A thread that has done its work may take a moment to leave the kernel's list.
    deadline = time.monotonic() + 10
    while _threads() > threads and time.monotonic() < deadline:
        time.sleep(0.001)
    assert _threads() <= threads
    with multiprocessing.get_context("fork").Pool(1) as pool:
        assert pool.apply(_use, (root,)) == before
        assert pool.apply(_default_threads) == 1
    assert _use(root) == before
    assert _default_threads() == len(os.sched_getaffinity(0))


def _threads() -> int:
    return len(list(Path("/proc/self/task").iterdir()))


def _default_threads() -> int:
    return int(_native.build_info()["threads"])


def test_fork_while_threads_work(tmp_path: Path) -> None:
    """A child that is forked while another thread is in the middle of shared work can do the same work."""
    root = _tree(tmp_path)
    expected = _native.content_hash(root, 1)
    stop = threading.Event()

    def work() -> None:
        while not stop.is_set():
            _native.content_hash(root, 2)

    worker = threading.Thread(target=work)
    worker.start()
    try:
        for _ in range(8):
            with warnings.catch_warnings():
                # That a process with threads forks is what is tested.
                warnings.simplefilter("ignore", DeprecationWarning)
                child = os.fork()
            if child == 0:
                os._exit(0 if _native.content_hash(root, 2) == expected else 1)
            assert os.waitpid(child, 0)[1] == 0
    finally:
        stop.set()
        worker.join()


def test_threads_of_python_go_on_during_a_call(tmp_path: Path) -> None:
    """The lock is released: another thread counts while a file is hashed."""
    path = tmp_path / "large"
    with path.open("wb") as file:
        file.truncate(1 << 26)
    counted, done = [0], threading.Event()

    def count() -> None:
        while not done.is_set():
            counted[0] += 1

    counter = threading.Thread(target=count)
    counter.start()
    before = counted[0]
    _native.sha256_file(path)
    during = counted[0] - before
    done.set()
    counter.join()
    assert during > 1000
