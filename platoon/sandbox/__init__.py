"""Sandboxes: where the commands of agents and of tests run. `base` is the contract, `get_provider` builds a provider by name."""

from __future__ import annotations

from platoon.sandbox.registry import (
    file_owners_refusal,
    get_provider,
    loses_file_owners,
    network_none_refusal,
    privilege_refusal,
    provider_class,
    provider_unavailable,
    root_refusal,
    rootfs_layout_refusal,
    stack_refusal,
)

__all__ = [
    "file_owners_refusal",
    "get_provider",
    "loses_file_owners",
    "network_none_refusal",
    "privilege_refusal",
    "provider_class",
    "provider_unavailable",
    "root_refusal",
    "rootfs_layout_refusal",
    "stack_refusal",
]
