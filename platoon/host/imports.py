"""Imports that take seconds, begun while the program waits for something else."""

from __future__ import annotations

import importlib
import threading
from contextlib import suppress


def begin_import(module: str) -> None:
    """Imports a module on a thread. Whoever needs it imports it as always, waits for the rest of it, and gets its errors."""

    def work() -> None:
        with suppress(Exception):
            importlib.import_module(module)

    threading.Thread(target=work, name=f"import {module}", daemon=True).start()
