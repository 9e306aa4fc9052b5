"""The row block: the training rows of one group, as columns.

A row is one token sequence that one policy sampled within one trajectory. Token columns hold all rows end to end, `offsets`
cuts them, `row_*` columns have one entry a row and `call_*` columns one a model call. A block holds no random id and no time:
equal rows give an equal `digest()`. `docs/reference/row-block.md` specifies columns, rules and digest.

Construction checks every rule (ShapeError for lengths and offsets, DataError for dtypes and values) and makes the arrays read-only.
A block is a value: it may be shared between threads and kept for as long as anyone needs it.

What a row holds beside its tokens - chunks of its prompt that are not text, loss inputs that it brings along - stands in the side
table: `side_*` columns with one entry a piece, and the bytes that they name, each kept once.

    block = build_block(trajectories, policies=("main",), roles=("root",))   # rows.merge
    fresh = block.select(~stale_rows(block, [7], [2]).is_stale_R)            # rows.stale
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, fields
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
    "side_row": np.dtype("<u4"),
    "side_at": np.dtype("<u4"),
    "side_length": np.dtype("<u4"),
    "side_name": np.dtype("<u2"),
    "side_item": np.dtype("<u4"),
    "item_offsets": np.dtype("<i8"),
    "item_bytes": np.dtype("u1"),
}
"""Name and dtype of each column."""


@dataclass(frozen=True, eq=False)
class RowBlock:
    """Columns of the rows of one group (T tokens, R rows, C calls, K side entries, I items of B bytes).

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
    side_row, side_at, side_length: u32[K], the row of an entry, rising, and which of its tokens a chunk covers (they are 0); both 0
        for a loss input. side_name: u16[K], index into `side_names`. side_item: u32[K], index of its bytes.
    item_offsets: i64[I+1], bounds of the items in item_bytes: u8[B], in the order of their first use.
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
    side_row: NDArray[np.uint32] = field(default_factory=lambda: np.zeros(0, "<u4"), kw_only=True)
    side_at: NDArray[np.uint32] = field(default_factory=lambda: np.zeros(0, "<u4"), kw_only=True)
    side_length: NDArray[np.uint32] = field(default_factory=lambda: np.zeros(0, "<u4"), kw_only=True)
    side_name: NDArray[np.uint16] = field(default_factory=lambda: np.zeros(0, "<u2"), kw_only=True)
    side_item: NDArray[np.uint32] = field(default_factory=lambda: np.zeros(0, "<u4"), kw_only=True)
    item_offsets: NDArray[np.int64] = field(default_factory=lambda: np.zeros(1, "<i8"), kw_only=True)
    item_bytes: NDArray[np.uint8] = field(default_factory=lambda: np.zeros(0, "u1"), kw_only=True)
    policies: tuple[str, ...] = field(kw_only=True)
    roles: tuple[str, ...] = field(kw_only=True)
    side_names: tuple[str, ...] = field(default=(), kw_only=True)

    def __post_init__(self) -> None:
        for name, dtype in COLUMNS.items():
            object.__setattr__(self, name, _read_only(name, getattr(self, name), dtype))
        check_names(**self._names())
        _native.check_block(self, len(self.policies), len(self.roles), len(self.side_names))

    @classmethod
    def of_core(cls, values: dict[str, Any]) -> RowBlock:
        """The block of columns that the core made by the rules, every one of them, and of names that stand once: no check again."""
        for name in COLUMNS:
            values[name].setflags(write=False)
        block = object.__new__(cls)
        block.__dict__.update(values)
        return block

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

    @property
    def action_count_R(self) -> NDArray[np.int64]:  # noqa: N802  because the suffix is a dimension
        """Trainable tokens of each row."""
        return self._samples[0]

    @property
    def routing_R(self) -> NDArray[np.int64]:  # noqa: N802  because the suffix is a dimension
        """The service handle of each row's last call, -1 for none."""
        return self._samples[1]

    @cached_property
    def _samples(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        columns = _native.row_samples(self.flags, self.call, self.offsets, self.call_routing)
        for column in columns:
            column.flags.writeable = False
        return columns

    def digest(self) -> str:
        """`sha256:<hex>` of names and columns."""
        return "sha256:" + _native.block_digest(self, list(self.policies), list(self.roles), list(self.side_names))

    def columns(self) -> dict[str, NDArray[Any]]:
        """The columns by name."""
        return {name: getattr(self, name) for name in COLUMNS}

    def select(self, rows: NDArray[Any] | Sequence[int] | Sequence[bool]) -> RowBlock:
        """The block of some of the rows: a bool mask of R entries, or indices in rising order.

        Start marks move to the first selected row with action tokens of each trajectory, and calls that no selected row needs go.
        Items that no selected row names go as well. Raises ShapeError for a mask of another length, DataError for an index out of
        range or out of order.
        """
        chosen = _native.select_rows(self, _row_indices(rows, self.row_count))
        return RowBlock.of_core(chosen | self._names())

    def _names(self) -> dict[str, tuple[str, ...]]:
        return {"policies": self.policies, "roles": self.roles, "side_names": self.side_names}

    @staticmethod
    def empty(policies: Sequence[str] = (), roles: Sequence[str] = ()) -> RowBlock:
        """A block without rows."""
        values: dict[str, Any] = {name: np.zeros(int(name.endswith("offsets")), dtype) for name, dtype in COLUMNS.items()}
        return RowBlock(**values, policies=tuple(policies), roles=tuple(roles))


def concat(blocks: Iterable[RowBlock]) -> RowBlock:
    """One block of all rows in order. Names are numbered anew, in order of first appearance in the name tables."""
    blocks = tuple(blocks)
    if len(blocks) == 1:
        return blocks[0]
    policies, policy_maps = _merge_names([block.policies for block in blocks])
    roles, role_maps = _merge_names([block.roles for block in blocks])
    side_names, side_maps = _merge_names([block.side_names for block in blocks])
    values = _native.concat_blocks(blocks, policy_maps, role_maps, side_maps)
    return RowBlock.of_core(values | {"policies": policies, "roles": roles, "side_names": side_names})


def check_names(**tables: tuple[str, ...]) -> None:
    """DataError where a name table is no tuple of names, or a name stands twice in one."""
    for table, names in tables.items():
        if not isinstance(names, tuple) or not all(isinstance(name, str) for name in names):
            raise DataError(f"{table}: a tuple of names is expected")
        if len(set(names)) != len(names):
            raise DataError(f"{table}: each name stands once, got {', '.join(names)}")


def _read_only(name: str, values: Any, dtype: np.dtype[Any]) -> NDArray[Any]:
    if not isinstance(values, np.ndarray) or values.dtype != dtype:
        got = values.dtype if isinstance(values, np.ndarray) else type(values).__name__
        raise DataError(f"{name}: {got} where an array of {dtype} is expected")
    if values.ndim != 1:
        raise ShapeError(f"{name}: {values.ndim} dimensions where 1 is expected")
    view = np.require(values, requirements=("C", "A")).view()
    view.flags.writeable = False
    return view


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
    return np.ascontiguousarray(chosen, np.int64)


def _merge_names(tables: Sequence[tuple[str, ...]]) -> tuple[tuple[str, ...], list[list[int]]]:
    """All names once, and for each table where its names stand among them."""
    numbers: dict[str, int] = {}
    maps = [[numbers.setdefault(name, len(numbers)) for name in table] for table in tables]
    return tuple(numbers), maps


assert [field.name for field in fields(RowBlock)][: len(COLUMNS)] == list(COLUMNS)
