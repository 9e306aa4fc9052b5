"""Seeds of deterministic rollouts: a call's seed depends on the draw and the place of the call, never on time, start or id."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass


@dataclass(frozen=True)
class SeedKey:
    """seed: the run's. position: of the draw in the run's order. member: of the group."""

    seed: int
    position: int
    member: int

    def call_seed(self, agent_path: str, call_index: int) -> int:
        """The first 31 bits of SHA-256 over `seed/position/member/agent path/call index` in decimal.

        agent_path: `0` for the root, `0.1` for its second child. call_index: calls the agent was admitted before this one.
        """
        text = f"{self.seed}/{self.position}/{self.member}/{agent_path}/{call_index}"
        return int.from_bytes(hashlib.sha256(text.encode()).digest()[:4], "big") >> 1
