"""Harnesses: agent loops as code (a decorated async function) or as data (a TOML spec of an external command).

The package is its own decorator: `import platoon as pt`, then `@pt.harness("my-loop")`.
"""

from __future__ import annotations

import sys
import types
from typing import Any


class _Callable(types.ModuleType):
    def __call__(self, name: str, **settings: Any) -> Any:
        from platoon.harness.registry import harness

        return harness(name, **settings)


sys.modules[__name__].__class__ = _Callable
