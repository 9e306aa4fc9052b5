"""The process provider: sandboxes that are directories and plain processes of this user, without isolation."""

from __future__ import annotations

from platoon.sandbox.process.provider import ProcessProvider
from platoon.sandbox.process.sandbox import ProcessSandbox

__all__ = ["ProcessProvider", "ProcessSandbox"]
