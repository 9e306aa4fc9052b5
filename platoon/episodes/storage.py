"""Finished rollouts as files: the collection as JSON, an event file for viewers, and the tokens as Parquet.

    <output dir>/trajectories/<rollout id>.json
    <output dir>/events/events_<task>_<rollout id>.jsonl
    <a path of the caller's>.parquet                            many rollouts a file: `TokenTable`

Each file is written beside its name and renamed, so that a reader sees whole files; nothing is fsynced, since a rollout that a
power cut takes is played again.
"""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np

from platoon.artifacts.reading import naming
from platoon.core.outcome import Outcome
from platoon.core.trajectory import Trajectory, TrajectoryCollection, plain
from platoon.rows.merge import TrajectoryCalls, build_block

UNSAFE = re.compile(r"[^A-Za-z0-9._-]")
TASK_PART_CHARACTERS = 120
CREATED_KEYS = ("subagent_reward_verifier_task", "subagent_reward_verifies_trajectory_id")


def store_collection(output_dir: Path, collection: TrajectoryCollection) -> Path:
    """Writes the collection and its event file; returns the collection's path. Raises OSError."""
    path = output_dir / "trajectories" / f"{collection.id}.json"
    write_whole(path, json.dumps(collection.to_dict(), ensure_ascii=False) + "\n")
    write_whole(output_dir / "events" / event_file_name(collection), "".join(_lines(collection)))
    return path


def write_whole(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.parent / f".{path.name}.{os.getpid()}.tmp"
    try:
        with naming(path):
            beside.write_text(text, encoding="utf-8", errors="backslashreplace")
        beside.replace(path)
    except BaseException:
        beside.unlink(missing_ok=True)
        raise


def event_file_name(collection: TrajectoryCollection) -> str:
    task = UNSAFE.sub("_", collection.root.task.id)[-TASK_PART_CHARACTERS:]
    return f"events_{task}_{UNSAFE.sub('_', collection.id)}.jsonl"


def _lines(collection: TrajectoryCollection) -> Iterator[str]:
    for time_s, record in zip(_times(), _records(collection), strict=False):
        line = {**record, "collection_id": collection.id, "ts": time_s, "process_id": os.getpid()}
        yield json.dumps(plain(line), ensure_ascii=False) + "\n"


def _times() -> Iterator[float]:
    """Times that never go back and never repeat within a file."""
    now = time.time()
    step = 0
    while True:
        yield now + step * 1e-6
        step += 1


def _records(collection: TrajectoryCollection) -> Iterator[Mapping[str, Any]]:
    for trajectory in collection.trajectories.values():
        yield from _trajectory_records(trajectory)


def _trajectory_records(trajectory: Trajectory) -> Iterator[Mapping[str, Any]]:
    whole = trajectory.to_dict()
    created = {key: item for key, item in whole.items() if key not in ("steps", "task")}
    created["misc"] = {key: item for key, item in whole["misc"].items() if key in CREATED_KEYS}
    end = {
        "reward": trajectory.reward,
        "finish_message": trajectory.finish_message,
        "error_message": trajectory.error_message,
    }
    yield {"type": "trajectory_created", "trajectory": created}
    yield {"type": "trajectory_task_set", "trajectory_id": trajectory.id, "task": whole["task"]}
    for index, step in enumerate(whole["steps"]):
        yield {"type": "trajectory_step_added", "trajectory_id": trajectory.id, "step_index": index, "step": step, **end}
    yield {"type": "trajectory_finished", "trajectory_id": trajectory.id, **end, "misc": whole["misc"]}


class TokenTable:
    """A Parquet file of training rows, exactly as they train: append rollouts, then close; the file appears when it is whole.

    Columns: rollout_id, task_id, member, status, reward, trajectory, role, policy, depth, version (the oldest of the row's calls),
    and per token the lists tokens u32, logprobs f32 (0 where the token is prompt) and flags u8 (ACTION 1, ERROR 2, MESSAGE 4).
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._beside = path.parent / f".{path.name}.{os.getpid()}.tmp"
        self._writer: Any = None

    def append(self, rollout_id: str, task_id: str, outcome: Outcome, calls: Sequence[TrajectoryCalls], *, member: int = 0) -> None:
        """Adds the rows of one rollout; one without calls adds none."""
        table = _table(rollout_id, task_id, outcome, calls, member)
        if table is None:
            return
        if self._writer is None:
            import pyarrow.parquet

            self.path.parent.mkdir(parents=True, exist_ok=True)
            self._writer = pyarrow.parquet.ParquetWriter(self._beside, table.schema, compression="zstd")
        self._writer.write_table(table)

    def close(self) -> None:
        """Publishes the file; without a row there is none. Idempotent."""
        writer, self._writer = self._writer, None
        if writer is not None:
            writer.close()
            self._beside.replace(self.path)

    def discard(self) -> None:
        """Drops what was appended."""
        writer, self._writer = self._writer, None
        if writer is not None:
            writer.close()
            self._beside.unlink(missing_ok=True)

    def __enter__(self) -> TokenTable:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if kind is None:
            self.close()
        else:
            self.discard()


def _table(rollout_id: str, task_id: str, outcome: Outcome, calls: Sequence[TrajectoryCalls], member: int) -> Any:
    """An Arrow table with one row a merged row, None without calls."""
    import pyarrow as pa

    policies = sorted({call.policy for item in calls for call in item.calls})
    roles = sorted({item.role for item in calls})
    if not policies:
        return None
    block = build_block(calls, policies, roles)
    rows = len(block.row_member)
    offsets = pa.array(block.offsets.astype(np.int32))

    def per_token(values: np.ndarray[Any, Any]) -> Any:
        return pa.ListArray.from_arrays(offsets, pa.array(values))

    return pa.table(
        {
            "rollout_id": pa.array([rollout_id] * rows),
            "task_id": pa.array([task_id] * rows),
            "member": pa.array(np.full(rows, member, np.uint32)),
            "status": pa.array([outcome.status] * rows),
            "reward": pa.array([outcome.reward] * rows, pa.float64()),
            "trajectory": pa.array(block.row_trajectory),
            "role": pa.array([roles[index] for index in block.row_role]),
            "policy": pa.array([policies[index] for index in block.row_policy]),
            "depth": pa.array(block.row_depth),
            "version": pa.array(block.row_version),
            "tokens": per_token(block.tokens),
            "logprobs": per_token(block.logprobs),
            "flags": per_token(block.flags),
        }
    )
