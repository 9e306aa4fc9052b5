"""The compiled core: buffers in and out. Use it through `platoon.artifacts.digests` and `platoon.rows`."""

from collections.abc import Iterable, Sequence
from os import PathLike
from typing import Any, Final, Literal, final

import numpy as np
from _typeshed import ReadableBuffer
from numpy.typing import NDArray

__all__ = [
    "ACTION",
    "BLOCK_RULE",
    "CONTENT_HASH_RULE",
    "ERROR",
    "MESSAGE",
    "NO_CALL",
    "OWNERS_RULE",
    "DataError",
    "Merger",
    "ShapeError",
    "UnsupportedError",
    "add_attempts",
    "apply_advantages",
    "assemble",
    "baselines",
    "block_digest",
    "build_info",
    "check_block",
    "concat_blocks",
    "content_hash",
    "dense_keys",
    "discount_weights",
    "filter_zero",
    "from_stored",
    "git_blob_sha1",
    "hashed_files",
    "image_owners",
    "input_digests",
    "is_ignored",
    "label_summary",
    "layer_owners",
    "level_weights",
    "oci_sif",
    "oldest_versions",
    "outlook",
    "posteriors",
    "publish_task",
    "reverse_kl",
    "row_samples",
    "row_totals",
    "saved_files",
    "scale_rows",
    "select_rows",
    "sha256_bytes",
    "sha256_file",
    "sif_objects",
    "squash_entries",
    "stale_rows",
    "stored_part",
    "stored_spans",
    "surviving_starts",
    "sync_file_system",
    "thompson_draw",
    "training_metrics",
    "tree_files",
    "tree_names",
    "verify_tasks",
]

ACTION: Final[int]
ERROR: Final[int]
MESSAGE: Final[int]
NO_CALL: Final[int]
CONTENT_HASH_RULE: Final[str]
BLOCK_RULE: Final[str]
OWNERS_RULE: Final[str]

class DataError(ValueError): ...
class ShapeError(ValueError): ...
class UnsupportedError(Exception): ...

def build_info() -> dict[str, str | bool | int]: ...
def sha256_bytes(*parts: ReadableBuffer) -> str: ...
def sha256_file(path: str | PathLike[str]) -> tuple[str, int]: ...
def git_blob_sha1(path: str | PathLike[str]) -> str: ...
def content_hash(task_dir: str | PathLike[str], threads: int | None = None) -> str: ...
def hashed_files(task_dir: str | PathLike[str], threads: int | None = None) -> tuple[str, list[tuple[str, str, int]]]: ...
def is_ignored(text: str, path: str) -> bool: ...
def layer_owners(
    layers: Sequence[
        tuple[str | PathLike[str] | tuple[str | PathLike[str], str, int, int], str | None, int | None, str | None, str | None]
    ],
) -> tuple[bytes, int, int]: ...
def saved_files(path: str | PathLike[str]) -> list[tuple[str, str | None, int, int]] | None: ...
def image_owners(path: str | PathLike[str], size_bytes: int | None = None, digest: str | None = None) -> tuple[bytes, int, int]: ...

# What `image_owners` reads on its way, for tests that hold it against the reference tools; nothing of the package calls these.
def squash_entries(path: str | PathLike[str], offset: int = 0) -> dict[str, Any]: ...
def sif_objects(path: str | PathLike[str]) -> list[dict[str, Any]]: ...
def oci_sif(path: str | PathLike[str]) -> dict[str, Any]: ...
def check_block(block: object, policy_count: int, role_count: int, side_name_count: int) -> None: ...
def block_digest(block: object, policies: list[str], roles: list[str], side_names: list[str]) -> str: ...
def stored_spans(
    block: object,
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.uint32], NDArray[np.uint8]]: ...
def stored_part(
    tokens: NDArray[np.uint32],
    logprobs: NDArray[np.float32],
    span_start: NDArray[np.int64],
    span_end: NDArray[np.int64],
    first: int,
    end: int,
) -> tuple[NDArray[np.uint16], NDArray[np.uint8], NDArray[np.uint16], NDArray[np.uint16]]: ...
def from_stored(
    parts: Sequence[tuple[NDArray[np.uint16], NDArray[np.uint8], NDArray[np.uint16], NDArray[np.uint16]]],
    span_start: NDArray[np.int64],
    span_end: NDArray[np.int64],
    span_call: NDArray[np.uint32],
    span_flags: NDArray[np.uint8],
) -> tuple[NDArray[np.uint32], NDArray[np.float32], NDArray[np.uint8], NDArray[np.uint32]]: ...
def select_rows(block: object, rows: NDArray[np.int64]) -> dict[str, Any]: ...
def concat_blocks(
    blocks: Sequence[object], policy_maps: list[list[int]], role_maps: list[list[int]], side_maps: list[list[int]]
) -> dict[str, Any]: ...
def tree_files(
    directory: str | PathLike[str], paths: list[str] | None = None, threads: int | None = None
) -> list[tuple[str, str, int, bool]]: ...
def tree_names(
    directory: str | PathLike[str], below: str | PathLike[str], threads: int | None = None
) -> list[tuple[str, Literal["file", "directory", "outside"] | None]]: ...
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
def stale_rows(
    row_version: NDArray[np.int64],
    row_policy: NDArray[np.uint16],
    group_of_row: NDArray[np.uint32],
    group_count: int,
    current: list[int],
    bounds: list[int | None],
) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]: ...
def oldest_versions(call_version: NDArray[np.int64], call_offsets: NDArray[np.int64]) -> NDArray[np.int64]: ...
def row_samples(
    flags: NDArray[np.uint8],
    call: NDArray[np.uint32],
    offsets: NDArray[np.int64],
    call_routing: NDArray[np.int64],
    threads: int | None = None,
    tokens_a_thread: int = ...,
) -> tuple[NDArray[np.int64], NDArray[np.int64]]: ...
def dense_keys(columns: Sequence[NDArray[Any]]) -> NDArray[np.int64]: ...
def baselines(
    keys: Sequence[NDArray[Any]], rewards: NDArray[np.float64], is_peer: NDArray[np.bool_], leave_one_out: bool
) -> NDArray[np.float64]: ...
def apply_advantages(
    flags: NDArray[np.uint8],
    offsets: NDArray[np.int64],
    advantages: NDArray[np.float64] | NDArray[np.float32],
    per_token: bool,
    suppress_errors: bool,
    threads: int | None = None,
    tokens_a_thread: int = ...,
) -> dict[str, Any]: ...
def reverse_kl(
    flags: NDArray[np.uint8],
    offsets: NDArray[np.int64],
    student: NDArray[np.float32],
    teacher: NDArray[np.float32],
    values: NDArray[np.float64],
    kl_coefficient: float,
    reward_coefficient: float,
) -> tuple[NDArray[np.float32], int, float]: ...
def row_totals(
    advantages: NDArray[np.float32], is_trained: NDArray[np.bool_], offsets: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.bool_]]: ...
def scale_rows(
    advantages: NDArray[np.float32],
    offsets: NDArray[np.int64],
    weights: NDArray[np.float64],
    threads: int | None = None,
    tokens_a_thread: int = ...,
) -> NDArray[np.float32]: ...
def filter_zero(
    trained_tokens: NDArray[np.int64], is_zero: NDArray[np.bool_], is_enabled: bool, is_zero_preserving: bool
) -> tuple[NDArray[np.int64], bool, int]: ...
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
    threads: int | None = None,
    tokens_a_thread: int = ...,
) -> dict[str, NDArray[Any]]: ...
def training_metrics(
    sampled: NDArray[np.float32],
    training: NDArray[np.float32],
    is_trained: NDArray[np.bool_],
    clip: tuple[float, float] | None,
) -> dict[str, Any]: ...
def add_attempts(
    passes: NDArray[np.float64],
    failures: NDArray[np.float64],
    version: NDArray[np.int64],
    new_task: NDArray[np.uint32],
    new_version: NDArray[np.int64],
    new_passes: NDArray[np.uint32],
    new_failures: NDArray[np.uint32],
) -> dict[str, NDArray[Any]]: ...
def posteriors(
    passes: NDArray[np.float64],
    failures: NDArray[np.float64],
    version: NDArray[np.int64],
    entry_of_task: NDArray[np.uint32],
    entry_count: int,
    now: int,
) -> dict[str, NDArray[np.float64]]: ...
def outlook(alpha: NDArray[np.float64], beta: NDArray[np.float64], group_size: int) -> dict[str, NDArray[Any]]: ...
def label_summary(
    label_of_task: NDArray[np.uint32],
    label_count: int,
    pass_at_1: NDArray[np.float64],
    pass_at_group: NDArray[np.float64],
    band: NDArray[np.uint8],
) -> dict[str, NDArray[Any]]: ...
def thompson_draw(
    alpha: NDArray[np.float64],
    beta: NDArray[np.float64],
    is_eligible: NDArray[np.bool_],
    group_size: int,
    candidates: int,
    key: bytes,
) -> tuple[int, float, float] | None: ...

@final
class Merger:
    def __new__(cls, policies: list[str], roles: list[str]) -> Merger: ...
    def begin(self, member: int, trajectory: int, role: str, depth: int, reward: float) -> None: ...
    def push(self, call: object) -> None: ...
    def extend(self, trajectories: Iterable[object]) -> None: ...
    def finish(self) -> dict[str, Any]: ...
