"""The compiled core: buffers in and out. Use it through `platoon.artifacts.digests` and `platoon.rows`."""

from os import PathLike
from typing import Any, Final, Literal, final

import numpy as np
from numpy.typing import NDArray

__all__ = [
    "ACTION",
    "BLOCK_RULE",
    "CONTENT_HASH_RULE",
    "ERROR",
    "MESSAGE",
    "NO_CALL",
    "DataError",
    "Merger",
    "ShapeError",
    "UnsupportedError",
    "apply_advantages",
    "assemble",
    "baselines",
    "block_digest",
    "build_info",
    "check_block",
    "content_hash",
    "discount_weights",
    "hashed_files",
    "input_digests",
    "is_ignored",
    "level_weights",
    "publish_task",
    "row_totals",
    "scale_rows",
    "sha256_file",
    "stale_rows",
    "surviving_starts",
    "sync_file_system",
    "training_metrics",
    "tree_files",
    "verify_tasks",
]

ACTION: Final[int]
ERROR: Final[int]
MESSAGE: Final[int]
NO_CALL: Final[int]
CONTENT_HASH_RULE: Final[str]
BLOCK_RULE: Final[str]

class DataError(ValueError): ...
class ShapeError(ValueError): ...
class UnsupportedError(Exception): ...

def build_info() -> dict[str, str | bool | int]: ...
def sha256_file(path: str | PathLike[str]) -> tuple[str, int]: ...
def content_hash(task_dir: str | PathLike[str], threads: int | None = None) -> str: ...
def hashed_files(task_dir: str | PathLike[str], threads: int | None = None) -> tuple[str, list[tuple[str, str, int]]]: ...
def is_ignored(text: str, path: str) -> bool: ...
def tree_files(
    directory: str | PathLike[str], paths: list[str] | None = None, threads: int | None = None
) -> list[tuple[str, str, int, bool]]: ...
def input_digests(directory: str | PathLike[str], paths: list[str]) -> list[str]: ...
def publish_task(
    source: str | PathLike[str],
    base: str | PathLike[str],
    trees: str | PathLike[str],
    staged: str | PathLike[str],
    programs: set[str],
    expected: str | None = None,
    durable: bool = True,
) -> tuple[str, Literal["copied", "found", "changed"]]: ...
def sync_file_system(path: str | PathLike[str]) -> None: ...
def verify_tasks(
    tasks: list[tuple[str | PathLike[str], str, list[tuple[str, str]] | None]], threads: int | None = None
) -> list[str | None]: ...
def check_block(block: object, policy_count: int, role_count: int) -> None: ...
def block_digest(block: object, policies: list[str], roles: list[str]) -> str: ...
def stale_rows(
    row_version: NDArray[np.int64],
    row_policy: NDArray[np.uint16],
    group_of_row: NDArray[np.uint32],
    group_count: int,
    current: list[int],
    bounds: list[int | None],
) -> tuple[NDArray[np.bool_], NDArray[np.bool_], NDArray[np.bool_], NDArray[np.uint64]]: ...
def baselines(
    keys: NDArray[np.int64], rewards: NDArray[np.float64], is_peer: NDArray[np.bool_], leave_one_out: bool
) -> NDArray[np.float64]: ...
def apply_advantages(
    flags: NDArray[np.uint8],
    offsets: NDArray[np.int64],
    advantages: NDArray[np.float64] | NDArray[np.float32],
    per_token: bool,
    suppress_errors: bool,
) -> dict[str, Any]: ...
def row_totals(
    advantages: NDArray[np.float32], is_trained: NDArray[np.bool_], offsets: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.bool_]]: ...
def scale_rows(
    advantages: NDArray[np.float32], offsets: NDArray[np.int64], weights: NDArray[np.float64]
) -> NDArray[np.float32]: ...
def level_weights(
    row_depth: NDArray[np.uint16], row_start: NDArray[np.uint8], trained_tokens: NDArray[np.int64]
) -> NDArray[np.float64]: ...
def discount_weights(row_depth: NDArray[np.uint16], trained_tokens: NDArray[np.int64], gamma: float) -> NDArray[np.float64]: ...
def surviving_starts(
    row_start: NDArray[np.uint8], has_tokens: NDArray[np.bool_], is_kept: NDArray[np.bool_]
) -> NDArray[np.uint8]: ...
def assemble(
    tokens: NDArray[np.uint32],
    logprobs: NDArray[np.float32],
    advantages: NDArray[np.float32],
    is_trained: NDArray[np.bool_],
    offsets: NDArray[np.int64],
    kept: NDArray[np.int64],
    scale: float,
) -> dict[str, NDArray[Any]]: ...
def training_metrics(
    sampled: NDArray[np.float32],
    training: NDArray[np.float32],
    is_trained: NDArray[np.bool_],
    clip: tuple[float, float] | None,
) -> dict[str, Any]: ...

@final
class Merger:
    def __new__(cls) -> Merger: ...
    def begin(self, member: int, trajectory: int, role: int, depth: int, reward: float) -> None: ...
    def push(
        self,
        prompt: NDArray[np.uint32],
        action: NDArray[np.uint32],
        logprobs: NDArray[np.float32],
        policy: int,
        version: int,
        routing: int,
        is_error: bool,
        is_message: bool,
    ) -> None: ...
    def finish(self) -> dict[str, NDArray[Any]]: ...
