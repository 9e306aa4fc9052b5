"""Compose files of Harbor tasks, planned: from `environment/docker-compose.yaml` to data that a stack driver runs.

Assumes that the task's tree holds no links out of it (a fetch refuses those first). Guarantees that a plan holds no host value, no
host path and no registry answer: whatever a session must resolve is a part (`platoon.envs.harbor.compose.text`).

    kind = stack_kind(directory, overlays)
    planned = plan_task(read_toml(directory), directory, overlays=overlays)
    planned.plan, planned.image, planned.unrewritable
"""

from platoon.envs.harbor.compose.errors import ComposeRefused
from platoon.envs.harbor.compose.plan import PlannedTask, check_image, plan_task, stack_kind
from platoon.envs.harbor.compose.references import Reference
from platoon.envs.harbor.compose.stack_plan import RULE, StackPlan

__all__ = ["RULE", "ComposeRefused", "PlannedTask", "Reference", "StackPlan", "check_image", "plan_task", "stack_kind"]
