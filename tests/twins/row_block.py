"""Twin of the merge and of the block digest (`docs/reference/row-block.md`), on plain lists."""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Sequence
from itertools import pairwise
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
    "side_row": ("u32", "I"),
    "side_at": ("u32", "I"),
    "side_length": ("u32", "I"),
    "side_name": ("u16", "H"),
    "side_item": ("u32", "I"),
    "item_offsets": ("i64", "q"),
    "item_bytes": ("u8", "B"),
}
SPANS = {"span_start": ("i64", "q"), "span_end": ("i64", "q"), "span_call": ("u32", "I"), "span_flags": ("u8", "B")}

Columns = dict[str, list[Any]]


def merge(trajectories: Sequence[dict[str, Any]]) -> Columns:
    """The columns of trajectories: dicts of member, trajectory, role, depth, reward and calls; calls are dicts as well.

    Chunks are tuples of place, length, name and bytes; names and items are numbered as they come.
    """
    out: Columns = {name: [] for name in COLUMNS}
    names: list[str] = []
    items: list[bytes] = []
    # Chunks of calls that sampled nothing have names, and no entries.
    for chunk in (chunk for trajectory in trajectories for call in trajectory["calls"] for chunk in call["chunks"]):
        names += [chunk[2]] if chunk[2] not in names else []
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
            if row is None or row["policy"] != call["policy"] or not extends(row, call):
                row = {"policy": call["policy"], "tokens": [], "logprobs": [], "flags": [], "call": [], "versions": []}
                rows.append(row)
            row["chunks"] = call["chunks"]
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
            for at, length, name, data in row["chunks"]:
                items += [data] if data not in items else []
                entry = (len(out["offsets"]), at, length, names.index(name), items.index(data))
                for column, value in zip(("row", "at", "length", "name", "item"), entry, strict=True):
                    out[f"side_{column}"].append(value)
            out["offsets"].append(len(out["tokens"]))
            for name in ("member", "trajectory", "role", "depth", "reward"):
                out[f"row_{name}"].append(trajectory[name])
            out["row_policy"].append(row["policy"])
            out["row_start"].append(int(has_action and not has_started))
            out["row_version"].append(min(row["versions"], default=-1))
            has_started = has_started or has_action
    out["offsets"].insert(0, 0)
    return with_items(out, items)


def with_items(out: Columns, items: Sequence[bytes]) -> Columns:
    out["item_bytes"] = list(b"".join(items))
    out["item_offsets"] = [sum(len(item) for item in items[:index]) for index in range(len(items) + 1)]
    return out


def extends(row: dict[str, Any], call: dict[str, Any]) -> bool:
    known = len(row["tokens"])
    return bool(call["prompt"][:known] == row["tokens"] and [c for c in call["chunks"] if c[0] < known] == row["chunks"])


def spans(columns: Columns) -> Columns:
    """Runs of sampled tokens with one call and equal flags."""
    out: Columns = {name: [] for name in SPANS}
    for start, end in pairwise(columns["offsets"]):
        for at in range(start, end):
            kind = (columns["flags"][at], columns["call"][at])
            if not kind[0]:
                continue
            if at > start and kind == (columns["flags"][at - 1], columns["call"][at - 1]):
                out["span_end"][-1] += 1
                continue
            for name, value in zip(SPANS, (at, at + 1, kind[1], kind[0]), strict=True):
                out[name].append(value)
    return out


def digest(columns: Columns, policies: Sequence[str], roles: Sequence[str], side_names: Sequence[str]) -> str:
    """SHA-256 hex over the header and the stored columns."""
    header = b"platoon-row-block-v2\n"
    for kind, names in (("policies", policies), ("roles", roles), ("side", side_names)):
        header += f"{kind} {len(names)}\n".encode()
        for name in names:
            header += str(len(name.encode())).encode() + b" " + name.encode() + b"\n"
    body = b""
    sampled = [logprob for logprob, flags in zip(columns["logprobs"], columns["flags"], strict=True) if flags]
    stored = columns | spans(columns) | {"logprobs": sampled}
    rest = [name for name in COLUMNS if name not in ("tokens", "logprobs", "flags", "call")]
    for name in ("tokens", "logprobs", *SPANS, *rest):
        dtype, code = (COLUMNS | SPANS)[name]
        values = stored[name]
        header += f"{name} {dtype} {len(values)}\n".encode()
        body += struct.pack(f"<{len(values)}{code}", *values)
    return hashlib.sha256(header + b"\n" + body).hexdigest()


def select(columns: Columns, rows: Sequence[int]) -> Columns:
    """The columns of some rows: what they name is numbered anew, and the first row with an action of each agent starts it."""
    return made_of([row for index, row in enumerate(rows_of(columns)) if index in rows])


def concat(blocks: Sequence[Columns], name_maps: Sequence[dict[str, list[int]]]) -> Columns:
    """The columns of all rows; the maps of a block (policies, roles, side) number its names in the joined tables."""
    rows = []
    for number, (columns, maps) in enumerate(zip(blocks, name_maps, strict=True)):
        for row in rows_of(columns):
            row["row_policy"], row["row_role"] = maps["policies"][row["row_policy"]], maps["roles"][row["row_role"]]
            row["side"] = [(at, length, maps["side"][name], data) for at, length, name, data in row["side"]]
            row["calls"] = {(number, at): (maps["policies"][call[0]], *call[1:]) for at, call in row["calls"].items()}
            row["call"] = [NO_CALL if at == NO_CALL else (number, at) for at in row["call"]]
            rows.append(row | {"agent": (number, *row["agent"])})
    return made_of(rows)


def rows_of(columns: Columns) -> list[dict[str, Any]]:
    """Each row with the calls and bytes that it names, as values."""
    out = []
    for row, (start, end) in enumerate(pairwise(columns["offsets"])):
        values: dict[str, Any] = {name: columns[name][start:end] for name in ("tokens", "logprobs", "flags", "call")}
        values |= {name: columns[name][row] for name in COLUMNS if name.startswith("row_")}
        values["agent"] = (columns["row_member"][row], columns["row_trajectory"][row])
        calls = sorted(set(values["call"]) - {NO_CALL})
        values["calls"] = {at: tuple(columns[f"call_{name}"][at] for name in ("policy", "version", "routing")) for at in calls}
        values["side"] = []
        for entry, at in enumerate(columns["side_row"]):
            item = columns["side_item"][entry]
            data = bytes(columns["item_bytes"][columns["item_offsets"][item] : columns["item_offsets"][item + 1]])
            place = tuple(columns[f"side_{name}"][entry] for name in ("at", "length", "name"))
            values["side"] += [(*place, data)] if at == row else []
        out.append(values)
    return out


def made_of(rows: Sequence[dict[str, Any]]) -> Columns:
    out: Columns = {name: [] for name in COLUMNS} | {"offsets": [0]}
    items: list[bytes] = []
    started = set()
    for number, row in enumerate(rows):
        first_call = len(out["call_policy"])
        for call in row["calls"].values():
            for name, value in zip(("policy", "version", "routing"), call, strict=True):
                out[f"call_{name}"].append(value)
        order = {at: first_call + index for index, at in enumerate(row["calls"])} | {NO_CALL: NO_CALL}
        for name in ("tokens", "logprobs", "flags"):
            out[name] += row[name]
        out["call"] += [order[at] for at in row["call"]]
        out["offsets"].append(len(out["tokens"]))
        has_action = any(flags & ACTION for flags in row["flags"])
        is_start = has_action and row["agent"] not in started
        started |= {row["agent"]} if has_action else set()
        for name in COLUMNS:
            if name.startswith("row_"):
                out[name].append(int(is_start) if name == "row_start" else row[name])
        for at, length, name, data in row["side"]:
            items += [data] if data not in items else []
            entry = (number, at, length, name, items.index(data))
            for column, value in zip(("row", "at", "length", "name", "item"), entry, strict=True):
                out[f"side_{column}"].append(value)
    return with_items(out, items)
