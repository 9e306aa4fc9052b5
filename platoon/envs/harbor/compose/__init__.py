"""Compose files of Harbor tasks, planned: from `environment/docker-compose.yaml` to data that a stack driver runs.

Assumes that the task's tree holds no links out of it (a fetch refuses those first). Guarantees that a plan holds no host value, no
host path and no registry answer: whatever a session must resolve is a part (`platoon.envs.harbor.compose.text`).

    kind = stack_kind(directory, edits)
    planned = plan_task(read_toml(directory), directory, overlays=applied)
    planned.plan, planned.image, planned.unrewritable
"""

from platoon.envs.harbor.compose.plan import PlannedTask, Reference, plan_task, stack_kind
from platoon.envs.harbor.compose.stack_plan import RULE, StackPlan

__all__ = ["RULE", "PlannedTask", "Reference", "StackPlan", "plan_task", "stack_kind"]
