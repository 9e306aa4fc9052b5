"""A warm lock: a local dataset fetched again whose tasks are all in the cache, beside the reading that it cannot do without."""

from __future__ import annotations

from pathlib import Path

from bench.case import Case, Peer
from bench.data import made
from platoon.artifacts.digests import ExpectedTask, content_hash, verify_tasks
from platoon.envs.harbor.fetch import fetch
from platoon.envs.harbor.options import HarborOptions
from platoon.envs.harbor.publish import HarborCache

TASKS = 10_000
CPU_LIMIT_MS = 10_000.0
PEAK_LIMIT_MB = 256.0

COMPOSE = """
services:
  main:
    environment: {MODE: "${MODE:-x}"}
    depends_on: {db: {condition: service_healthy}}
  db:
    image: postgres:16
    healthcheck: {test: [CMD-SHELL, pg_isready], interval: 5s}
    volumes: ["data:/var/lib/postgresql/data"]
volumes: {data: {}}
"""
DOCKERFILE = "FROM python:3.12-slim\nRUN pip install numpy\nWORKDIR /app\nCOPY data.csv /app/\n"


def make_dataset(root: Path, tasks: int) -> None:
    """Seven files a task; two in three tasks have a Dockerfile, one in three a compose file with a sidecar."""
    for number in range(tasks):
        files = {
            "task.toml": f'[metadata]\nfamily = "f{number % 50}"\n[agent]\ntimeout_sec = 600.0\n[environment]\ncpus = 2\n',
            "instruction.md": f"Do {number}.\n" * 20,
            "environment/data.csv": f"a,b\n{number},2\n" * 50,
            "environment/sub/x.txt": f"x{number}\n",
            "tests/test.sh": "#!/bin/bash\necho 1 > /logs/verifier/reward.txt\n",
            "tests/test_it.py": "def test(): pass\n" * 10,
            "solution/solve.sh": "true\n",
        }
        if number % 3:
            files["environment/Dockerfile"] = DOCKERFILE
        if number % 3 == 2:
            files["environment/docker-compose.yaml"] = COMPOSE
        for path, text in files.items():
            target = root / "data" / f"task-{number:05d}" / path
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(text)


def lock(root: Path) -> str:
    options = HarborOptions.parse({"dataset": "data", "index": [{"metadata": ["family"]}]})
    return fetch(options, root, HarborCache(root / "cache" / "harbor")).lock.digest


def read_both(root: Path) -> None:
    """Every byte of the source and of the cache, hashed one after the other."""
    digests = [content_hash(path, threads=1) for path in sorted((root / "data").iterdir())]
    cache = HarborCache(root / "cache" / "harbor")
    assert not any(verify_tasks((ExpectedTask(cache.task(digest), digest) for digest in digests), threads=1))


def cases(scale: float) -> list[Case]:
    tasks = int(TASKS * scale)

    def build(place: Path) -> None:
        make_dataset(place, tasks)
        lock(place)

    root = made(f"dataset-{tasks}", build)
    # Code that changed since the data was made plans every task once more; that is not what is measured.
    lock(root)
    return [
        Case(
            "warm lock of a local dataset",
            f"{tasks} tasks of 8 files, cached",
            lambda: lock(root),
            (
                Peer("the CPU time it may take", limit=1.0, fixed_ms=CPU_LIMIT_MS * scale),
                Peer("floor: source and cache hashed", lambda: read_both(root), limit=5.0, small_limit=4.3),
            ),
            peak_limit_mb=PEAK_LIMIT_MB,
        )
    ]
