"""The row block: the training rows of one group, as columns.

A row is one token sequence that one policy sampled within one trajectory. Token columns hold all rows end to end, `offsets`
cuts them, `row_*` columns have one entry a row and `call_*` columns one a model call. A block holds no random id and no time:
equal rows give an equal `digest()`. `docs/reference/row-block.md` specifies columns, rules and digest.

Construction checks every rule (ShapeError for lengths and offsets, DataError for dtypes and values) and makes the arrays read-only.
A block is a value: it may be shared between threads and kept for as long as anyone needs it.

    block = build_block(trajectories, policies=("main",), roles=("root",))   # rows.merge
    fresh = block.select(~stale_rows(block, [7], [2]).is_stale_R)            # rows.stale
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from platoon import _native
from platoon._native import ACTION, BLOCK_RULE, ERROR, MESSAGE, NO_CALL, DataError, ShapeError

__all__ = ["ACTION", "BLOCK_RULE", "COLUMNS", "ERROR", "MESSAGE", "NO_CALL", "DataError", "RowBlock", "ShapeError", "concat"]

COLUMNS: dict[str, np.dtype[Any]] = {
    "tokens": np.dtype("<u4"),
    "logprobs": np.dtype("<f4"),
    "flags": np.dtype("u1"),
    "call": np.dtype("<u4"),
    "offsets": np.dtype("<i8"),
    "call_policy": np.dtype("<u2"),
    "call_version": np.dtype("<i8"),
    "call_routing": np.dtype("<i8"),
    "row_member": np.dtype("<u4"),
    "row_trajectory": np.dtype("<u4"),
    "row_policy": np.dtype("<u2"),
    "row_role": np.dtype("<u2"),
    "row_depth": np.dtype("<u2"),
    "row_start": np.dtype("u1"),
    "row_reward": np.dtype("<f8"),
    "row_version": np.dtype("<i8"),
}
"""Name and dtype of each column, in the order of the digest."""


@dataclass(frozen=True, eq=False)
class RowBlock:
    """Columns of the rows of one group (T tokens, R rows, C calls).

    tokens: u32[T], below 2**31.
    logprobs: f32[T], of the token under its sampler; 0 where it was not sampled.
    flags: u8[T], ACTION (sampled and trainable), MESSAGE (sampled, not trainable), either with ERROR; 0 for prompt tokens.
    call: u32[T], index of the call that sampled the token; NO_CALL for prompt tokens.
    offsets: i64[R+1], bounds of the rows; no row is empty, and none begins with a sampled token.
    call_policy, call_version, call_routing: u16[C] index into `policies`; i64[C] policy version and service handle, -1 for none.
    row_member, row_trajectory: u32[R], rollout within the group and agent within the rollout.
    row_policy, row_role, row_depth: u16[R], indices into `policies` and `roles`, and distance from the root agent.
    row_start: u8[R], 1 for the first row with action tokens of its trajectory.
    row_reward: f64[R], processed reward of the row's own trajectory.
    row_version: i64[R], the oldest version among the row's own calls, -1 where none has one.
    """

    tokens: NDArray[np.uint32]
    logprobs: NDArray[np.float32]
    flags: NDArray[np.uint8]
    call: NDArray[np.uint32]
    offsets: NDArray[np.int64]
    call_policy: NDArray[np.uint16]
    call_version: NDArray[np.int64]
    call_routing: NDArray[np.int64]
    row_member: NDArray[np.uint32]
    row_trajectory: NDArray[np.uint32]
    row_policy: NDArray[np.uint16]
    row_role: NDArray[np.uint16]
    row_depth: NDArray[np.uint16]
    row_start: NDArray[np.uint8]
    row_reward: NDArray[np.float64]
    row_version: NDArray[np.int64]
    policies: tuple[str, ...]
    roles: tuple[str, ...]

    def __post_init__(self) -> None:
        for name, dtype in COLUMNS.items():
            object.__setattr__(self, name, _read_only(name, getattr(self, name), dtype))
        for name, values in (("policies", self.policies), ("roles", self.roles)):
            _check_names(name, values)
        _native.check_block(self, len(self.policies), len(self.roles))

    @property
    def row_count(self) -> int:
        """R."""
        return len(self.row_member)

    @property
    def token_count(self) -> int:
        """T."""
        return len(self.tokens)

    @property
    def call_count(self) -> int:
        """C."""
        return len(self.call_policy)

    @cached_property
    def action_count_R(self) -> NDArray[np.int64]:  # noqa: N802  because the suffix is a dimension
        """Trainable tokens of each row."""
        if not self.row_count:
            return np.zeros(0, np.int64)
        counts = np.add.reduceat(self.flags & ACTION, self.offsets[:-1], dtype=np.int64)
        counts.flags.writeable = False
        return counts

    @cached_property
    def routing_R(self) -> NDArray[np.int64]:  # noqa: N802  because the suffix is a dimension
        """The service handle of each row's last call, -1 for none."""
        last_R = np.full(self.row_count, -1, np.int64)
        at_S = np.flatnonzero(self.call != NO_CALL)
        # Later tokens overwrite earlier ones of the same row.
        last_R[np.searchsorted(self.offsets, at_S, side="right") - 1] = self.call_routing[self.call[at_S]]
        last_R.flags.writeable = False
        return last_R

    def digest(self) -> str:
        """`sha256:<hex>` of names, header and columns."""
        return "sha256:" + _native.block_digest(self, list(self.policies), list(self.roles))

    def columns(self) -> dict[str, NDArray[Any]]:
        """The columns by name, in the order of the digest."""
        return {name: getattr(self, name) for name in COLUMNS}

    def select(self, rows: NDArray[Any] | Sequence[int] | Sequence[bool]) -> RowBlock:
        """The block of some of the rows: a bool mask of R entries, or indices in rising order.

        Start marks move to the first selected row with action tokens of each trajectory, and calls that no selected row needs go.
        Raises ShapeError for a mask of another length, DataError for an index out of range or out of order.
        """
        index_K = _row_indices(rows, self.row_count)
        start_K, length_K = self.offsets[index_K], np.diff(self.offsets)[index_K]
        offsets = np.concatenate(([0], np.cumsum(length_K))).astype(np.int64)
        token_index = np.arange(offsets[-1]) + np.repeat(start_K - offsets[:-1], length_K)
        is_kept_R = np.zeros(self.row_count, np.bool_)
        is_kept_R[index_K] = True
        row_start_R = _native.surviving_starts(self.row_start, self.action_count_R > 0, is_kept_R)
        call, used_C = _compact_calls(self.call[token_index])
        values: dict[str, Any] = {name: getattr(self, name)[token_index] for name in ("tokens", "logprobs", "flags")}
        values |= {name: getattr(self, name)[used_C] for name in COLUMNS if name.startswith("call_")}
        values |= {name: getattr(self, name)[index_K] for name in COLUMNS if name.startswith("row_")}
        values |= {"call": call, "offsets": offsets, "row_start": row_start_R[index_K]}
        return RowBlock(**values, policies=self.policies, roles=self.roles)

    @staticmethod
    def empty(policies: Sequence[str] = (), roles: Sequence[str] = ()) -> RowBlock:
        """A block without rows."""
        values: dict[str, Any] = {name: np.zeros(int(name == "offsets"), dtype) for name, dtype in COLUMNS.items()}
        return RowBlock(**values, policies=tuple(policies), roles=tuple(roles))


def concat(blocks: Iterable[RowBlock]) -> RowBlock:
    """One block of all rows in order. Policies and roles are numbered anew, in order of first appearance in the name tables."""
    blocks = tuple(blocks)
    policies, policy_maps = _merge_names([block.policies for block in blocks])
    roles, role_maps = _merge_names([block.roles for block in blocks])
    if not blocks:
        return RowBlock.empty()
    parts: dict[str, list[NDArray[Any]]] = {name: [] for name in COLUMNS}
    tokens = calls = 0
    for block, policy_map, role_map in zip(blocks, policy_maps, role_maps, strict=True):
        for name, column in block.columns().items():
            parts[name].append(column)
        parts["call"][-1] = np.where(block.call == NO_CALL, NO_CALL, block.call + np.uint32(calls)).astype(np.uint32)
        parts["offsets"][-1] = block.offsets[:-1] + tokens
        parts["call_policy"][-1] = policy_map[block.call_policy]
        parts["row_policy"][-1] = policy_map[block.row_policy]
        parts["row_role"][-1] = role_map[block.row_role]
        tokens += block.token_count
        calls += block.call_count
    parts["offsets"].append(np.array([tokens], np.int64))
    values: dict[str, Any] = {name: np.concatenate(columns) for name, columns in parts.items()}
    return RowBlock(**values, policies=policies, roles=roles)


def _read_only(name: str, values: Any, dtype: np.dtype[Any]) -> NDArray[Any]:
    if not isinstance(values, np.ndarray) or values.dtype != dtype:
        got = values.dtype if isinstance(values, np.ndarray) else type(values).__name__
        raise DataError(f"{name}: {got} where an array of {dtype} is expected")
    if values.ndim != 1:
        raise ShapeError(f"{name}: {values.ndim} dimensions where 1 is expected")
    view = np.require(values, requirements=("C", "A")).view()
    view.flags.writeable = False
    return view


def _check_names(column: str, names: tuple[str, ...]) -> None:
    if not isinstance(names, tuple) or not all(isinstance(name, str) for name in names):
        raise DataError(f"{column}: a tuple of names is expected")
    if len(set(names)) != len(names):
        raise DataError(f"{column}: each name stands once, got {', '.join(names)}")


def _row_indices(rows: NDArray[Any] | Sequence[int] | Sequence[bool], row_count: int) -> NDArray[np.int64]:
    chosen = np.asarray(rows)
    if chosen.dtype == np.bool_:
        if chosen.shape != (row_count,):
            raise ShapeError(f"rows: a mask of shape {chosen.shape} where ({row_count},) is expected")
        return np.flatnonzero(chosen)
    if chosen.size == 0:
        return np.zeros(0, np.int64)
    if chosen.ndim != 1 or not np.issubdtype(chosen.dtype, np.integer):
        raise DataError(f"rows: {chosen.dtype} of {chosen.ndim} dimensions where a mask or indices are expected")
    index_K = chosen.astype(np.int64)
    if index_K.min() < 0 or index_K.max() >= row_count or (np.diff(index_K) <= 0).any():
        raise DataError(f"rows: indices rise and lie below {row_count}")
    return index_K


def _compact_calls(call: NDArray[np.uint32]) -> tuple[NDArray[np.uint32], NDArray[np.uint32]]:
    """Call indices renumbered over the calls in use, and those calls' old indices."""
    used_C: NDArray[np.uint32] = np.unique(call)
    position: NDArray[np.uint32] = np.searchsorted(used_C, call).astype(np.uint32)
    position[call == NO_CALL] = NO_CALL
    return position, used_C[used_C != NO_CALL]


def _merge_names(tables: Sequence[tuple[str, ...]]) -> tuple[tuple[str, ...], list[NDArray[np.uint16]]]:
    numbers: dict[str, int] = {}
    for table in tables:
        for name in table:
            numbers.setdefault(name, len(numbers))
    return tuple(numbers), [np.array([numbers[name] for name in table], np.uint16) for table in tables]


assert [field.name for field in fields(RowBlock)][: len(COLUMNS)] == list(COLUMNS)
