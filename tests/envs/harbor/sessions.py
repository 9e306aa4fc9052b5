"""Live Harbor sessions on the process provider: what their tests share."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from platoon.core.outcome import Outcome
from platoon.core.protocols import SessionNeeds
from platoon.envs.harbor.service import HarborService
from platoon.envs.harbor.session import HarborSession
from platoon.sandbox.process import ProcessProvider

LOGS = '"${PLATOON_SANDBOX_ROOT:-}/logs/verifier"'
PASS = f"echo 1 > {LOGS}/reward.txt\n"


def write_task(root: Path, name: str, *, tests: str = PASS, toml: str = "", solution: str = "", environment: dict | None = None):
    directory = root / name
    for part in ("tests", "environment", *(["solution"] if solution else [])):
        (directory / part).mkdir(parents=True)
    (directory / "task.toml").write_text('schema_version = "1.4"\n' + toml)
    (directory / "instruction.md").write_text(f"Do {name}.\n")
    (directory / "tests" / "test.sh").write_text("#!/bin/bash\n" + tests)
    for path, content in (environment or {}).items():
        (directory / "environment" / path).write_text(content)
    if solution:
        (directory / "solution" / "solve.sh").write_text(solution)
    return directory


async def until(condition) -> None:
    """Waits up to 20 s for something another process does."""
    for _ in range(2000):
        if condition():
            return
        await asyncio.sleep(0.01)
    raise AssertionError("it did not come to pass")


def make_service(dataset: Path, **options: Any) -> HarborService:
    provider = ProcessProvider(root=dataset.parent / "sandboxes")
    return HarborService({"dataset_dir": str(dataset), **options}, provider=provider)


def sandboxes(dataset: Path) -> list[Path]:
    root = dataset.parent / "sandboxes"
    return list(root.iterdir()) if root.exists() else []


def play(service: HarborService, scenario, task_id: str = "task", needs: SessionNeeds | None = None) -> Any:
    async def main():
        session = await service.open(await service.get_task(task_id), rollout_id="rollout-1", needs=needs)
        try:
            return await asyncio.wait_for(scenario(session), 60)
        finally:
            await session.close()

    return asyncio.run(main())


def grade_after(dataset: Path, command: str = "true", **options: Any) -> Outcome:
    async def scenario(session: HarborSession) -> Outcome:
        await session.call_tool("bash", {"command": command})
        return await session.grade()

    return play(make_service(dataset, **options), scenario)


def open_descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def belongs_to(pid: int, place: Path) -> bool:
    try:
        return f"PLATOON_SANDBOX_ROOT={place}/".encode() in Path(f"/proc/{pid}/environ").read_bytes()
    except OSError:
        return False
