"""`python -m platoon.local`: the server process that `launcher` starts."""

from __future__ import annotations

from platoon.local.server import main

main()
