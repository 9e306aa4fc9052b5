"""A testing kit: real platoon code on a CPU, with no GPU, no service, no download.

Names are imported when they are first used; the submodules are private.
"""

from __future__ import annotations

import importlib
from typing import Any

_PUBLIC: dict[str, str] = {
    "Completion": "scripted",
    "PolicyCall": "scripted",
    "ScriptExhaustedError": "scripted",
    "ScriptedPolicy": "scripted",
    "last_user_message": "scripted",
    "rules": "scripted",
    "tool_call": "scripted",
    "TOY_MODEL_NAME": "toy_model",
    "TOY_RENDERER_NAME": "toy_model",
    "TOY_TOKENIZER_DIR": "toy_model",
    "toy_renderer": "toy_model",
    "toy_tokenizer": "toy_model",
    "EpisodeRun": "run",
    "make_gateway": "run",
    "run_episode": "run",
    "FakeFactory": "fake_tinker",
    "FakeTinkerService": "fake_tinker",
    "fake_tinker_service": "fake_tinker",
    "MemoryService": "memory_service",
    "MemorySession": "memory_service",
}

__all__ = sorted(_PUBLIC)  # noqa: PLE0605  because the names are the table's keys


def __getattr__(name: str) -> Any:
    if name in _PUBLIC:
        return getattr(importlib.import_module(f"platoon.testing.{_PUBLIC[name]}"), name)
    raise AttributeError(f"module 'platoon.testing' has no attribute {name!r}")
