"""The digest of the rows a step trained: what tests of killed runs compare.

Over the groups in order of position, and in each over the policies by name: the digest of the rows kept, in their order (member,
agent, row), and their values. Rows that the zero filter leaves out are in it: they stand for tokens of the denominator.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from platoon.artifacts.digests import sha256_bytes
from platoon.train.step.staleness import JudgedGroup


def step_digest(groups: Sequence[JudgedGroup]) -> str:
    """`sha256:<hex>`; the same for the same rows whatever the order they settled in."""
    parts: list[bytes | memoryview] = [b"step-rows/1\n"]
    for judged in sorted(groups, key=lambda item: item.group.draw.position):
        output, draw = judged.group.output, judged.group.draw
        parts.append(f"{draw.position} {draw.entry} {draw.task_id}\n".encode())
        for policy in sorted(judged.rows):
            assert output.block is not None and output.values_R is not None
            kept = judged.rows[policy]
            parts.append(f"{policy} {output.block.select(kept).digest()}\n".encode())
            parts.append(np.ascontiguousarray(output.values_R[kept], dtype="<f8").data)
    return sha256_bytes(*parts)
