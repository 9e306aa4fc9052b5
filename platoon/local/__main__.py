"""`python -m platoon.local`: the server process that `launcher` starts.

The parent-death signal is armed before anything heavy is imported, because the parent may end while that is going on.
"""

from __future__ import annotations

import os
import sys

from platoon.host.processes import arm_parent_death

PARENT_VARIABLE = "PLATOON_LOCAL_PARENT"

if (parent := os.environ.pop(PARENT_VARIABLE, None)) is not None:
    arm_parent_death(int(parent))

from platoon.local.server import main  # noqa: E402  because of the above

main()
# What matters is on disk by now; taking torch down in order would only keep the parent waiting.
sys.stdout.flush()
sys.stderr.flush()
os._exit(0)
