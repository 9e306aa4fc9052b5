"""Fetches of one dataset in processes of their own: they take turns, and one that is killed hinders no other."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from platoon.envs.harbor.lock import HarborLock
from platoon.envs.harbor.publish import cache_problems
from tests.envs.harbor.fakes.repositories import Repository
from tests.envs.harbor.sources.conftest import Fetching
from tests.processes import gone, until

pytestmark = pytest.mark.process

TASKS = 7
# Stays where it is when so many tasks are in the cache, its locks held; 0 for none.
SCRIPT = """
import json, os, sys, time
from pathlib import Path
from platoon.envs.harbor.fetch import fetch
from platoon.envs.harbor.options import HarborOptions
from platoon.envs.harbor.publish import HarborCache
from platoon.envs.harbor.sources import git
from platoon.envs.harbor.sources.protocol import FetchTools
options, base, cache, stop = json.loads(sys.argv[1]), Path(sys.argv[2]), HarborCache(Path(sys.argv[3])), sys.argv[4]

def progress(text):
    (base / f"told-{os.getpid()}").write_text(text)
    if f": {stop} of " in text:
        (base / "stopped").touch()
        time.sleep(600)

git.BATCH_TASKS = 2
done = fetch(HarborOptions.parse(options), base, cache, tools=FetchTools(cache, progress=progress))
print(json.dumps({"lock": str(done.path), "copied": done.copied}))
"""


Start = Callable[..., subprocess.Popen[str]]


@pytest.fixture
def start(fetching: Fetching, checkout: Path) -> Iterator[Start]:
    """Starts a fetch, which ends with the test."""
    started: list[subprocess.Popen[str]] = []

    def starting(options: dict[str, object], *, stop: int = 0) -> subprocess.Popen[str]:
        arguments = [json.dumps(options), str(fetching.base), str(fetching.cache.root), str(stop)]
        process = subprocess.Popen(
            [sys.executable, "-c", SCRIPT, *arguments],
            env={**os.environ, "PYTHONPATH": str(checkout)},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        started.append(process)
        return process

    yield starting
    for process in started:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()


def tells_what_it_waits_for(base: Path, pid: int) -> bool:
    told = base / f"told-{pid}"
    return told.is_file() and ": waiting for another fetch " in told.read_text()


@pytest.mark.parametrize("more", [{}, {"select": {"name": "t*"}}], ids=["the same question", "another question"])
def test_a_killed_fetch_leaves_the_cache_to_the_other(
    make_repository: Callable[..., Repository],
    fetching: Fetching,
    start: Start,
    more: dict[str, object],
) -> None:
    repository = make_repository()
    for number in range(TASKS):
        repository.task(f"t{number}", {"environment/n": str(number)})
    options: dict[str, object] = {"dataset": f"git+{repository.url}@{repository.commit()}"}
    killed = start(options, stop=3)
    until((fetching.base / "stopped").exists, killed)
    other = start({**options, **more})
    until(lambda: tells_what_it_waits_for(fetching.base, other.pid), other)
    os.killpg(killed.pid, signal.SIGKILL)
    killed.communicate()
    output, _ = other.communicate(timeout=90)
    assert other.returncode == 0, output
    told = json.loads(output)
    lock = HarborLock.read(Path(told["lock"]))
    # Of what the killed one brought nothing is fetched again.
    assert (len(lock.tasks), told["copied"]) == (TASKS, TASKS - 3)
    assert cache_problems([row.digest for row in lock.tasks], fetching.cache) == [None] * TASKS
    assert gone([killed.pid, other.pid])
    # What the killed one was at is removed by the next that begins.
    assert fetching({**options, "select": {"name": ["t0"]}}).copied == 0
    assert not list(fetching.cache.staging.iterdir())


def test_fetches_at_a_time_copy_each_task_once(
    make_repository: Callable[..., Repository], fetching: Fetching, start: Start
) -> None:
    repository = make_repository()
    for number in range(TASKS):
        repository.task(f"t{number}", {"environment/n": str(number)})
    options = {"dataset": f"git+{repository.url}@{repository.commit()}"}
    running = [start(options), start({**options, "select": {"name": "t*"}}), start(options)]
    outputs = [process.communicate(timeout=90)[0] for process in running]
    assert [process.returncode for process in running] == [0, 0, 0], outputs
    assert sum(json.loads(output)["copied"] for output in outputs) == TASKS
    assert not list(fetching.cache.staging.iterdir())
