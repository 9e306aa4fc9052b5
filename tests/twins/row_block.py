"""Twin of the merge and of the block digest (`docs/reference/row-block.md`), on plain lists."""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Sequence
from typing import Any

ACTION, ERROR, MESSAGE, NO_CALL = 1, 2, 4, 0xFFFFFFFF

COLUMNS = {
    "tokens": ("u32", "I"),
    "logprobs": ("f32", "f"),
    "flags": ("u8", "B"),
    "call": ("u32", "I"),
    "offsets": ("i64", "q"),
    "call_policy": ("u16", "H"),
    "call_version": ("i64", "q"),
    "call_routing": ("i64", "q"),
    "row_member": ("u32", "I"),
    "row_trajectory": ("u32", "I"),
    "row_policy": ("u16", "H"),
    "row_role": ("u16", "H"),
    "row_depth": ("u16", "H"),
    "row_start": ("u8", "B"),
    "row_reward": ("f64", "d"),
    "row_version": ("i64", "q"),
}

Columns = dict[str, list[Any]]


def merge(trajectories: Sequence[dict[str, Any]]) -> Columns:
    """The columns of trajectories: dicts of member, trajectory, role, depth, reward and calls; calls are dicts as well."""
    out: Columns = {name: [] for name in COLUMNS}
    for trajectory in trajectories:
        rows: list[dict[str, Any]] = []
        for call in trajectory["calls"]:
            if not call["action"]:
                continue
            index = len(out["call_policy"])
            out["call_policy"].append(call["policy"])
            out["call_version"].append(call["version"])
            out["call_routing"].append(call["routing"])
            row = rows[-1] if rows else None
            if row is None or row["policy"] != call["policy"] or call["prompt"][: len(row["tokens"])] != row["tokens"]:
                row = {"policy": call["policy"], "tokens": [], "logprobs": [], "flags": [], "call": [], "versions": []}
                rows.append(row)
            suffix = call["prompt"][len(row["tokens"]) :]
            sampled = (MESSAGE if call["is_message"] else ACTION) | (ERROR if call["is_error"] else 0)
            row["tokens"] += suffix + call["action"]
            row["logprobs"] += [0.0] * len(suffix) + call["logprobs"]
            row["flags"] += [0] * len(suffix) + [sampled] * len(call["action"])
            row["call"] += [NO_CALL] * len(suffix) + [index] * len(call["action"])
            if call["version"] >= 0:
                row["versions"].append(call["version"])
        has_started = False
        for row in rows:
            has_action = any(flags & ACTION for flags in row["flags"])
            for name in ("tokens", "logprobs", "flags", "call"):
                out[name] += row[name]
            out["offsets"].append(len(out["tokens"]))
            for name in ("member", "trajectory", "role", "depth", "reward"):
                out[f"row_{name}"].append(trajectory[name])
            out["row_policy"].append(row["policy"])
            out["row_start"].append(int(has_action and not has_started))
            out["row_version"].append(min(row["versions"], default=-1))
            has_started = has_started or has_action
    out["offsets"].insert(0, 0)
    return out


def digest(columns: Columns, policies: Sequence[str], roles: Sequence[str]) -> str:
    """SHA-256 hex over the header and the raw columns."""
    header = b"platoon-row-block-v1\n"
    for kind, names in (("policies", policies), ("roles", roles)):
        header += f"{kind} {len(names)}\n".encode()
        for name in names:
            header += str(len(name.encode())).encode() + b" " + name.encode() + b"\n"
    body = b""
    for name, (dtype, code) in COLUMNS.items():
        values = columns[name]
        header += f"{name} {dtype} {len(values)}\n".encode()
        body += struct.pack(f"<{len(values)}{code}", *values)
    return hashlib.sha256(header + b"\n" + body).hexdigest()
