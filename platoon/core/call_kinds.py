"""Kinds of model calls: only `policy` calls are steps, and only they train."""

from __future__ import annotations

from typing import Literal, get_args

CallKind = Literal["policy", "aux", "judge"]
CALL_KINDS: tuple[CallKind, ...] = get_args(CallKind)
CALL_KIND_HEADER = "x-platoon-call-kind"
