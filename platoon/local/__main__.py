"""`python -m platoon.local`: the server process that `launcher` starts.

The parent-death signal is armed before anything heavy is imported, because the parent may end while that is going on. A process
that has such a parent leaves TERM and INT to it.
"""

from __future__ import annotations

import os
import signal
import sys

from platoon.host.processes import arm_parent_death

PARENT_VARIABLE = "PLATOON_LOCAL_PARENT"

if (parent := os.environ.pop(PARENT_VARIABLE, None)) is not None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    arm_parent_death(int(parent))

from platoon.local.server import main  # noqa: E402  because of the above

main()
# What matters is on disk by now; taking torch down in order would only keep the parent waiting.
sys.stdout.flush()
sys.stderr.flush()
os._exit(0)
