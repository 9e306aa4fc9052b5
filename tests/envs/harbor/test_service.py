"""The Harbor service: lists, checks, fetched datasets, and what its sessions leave."""

from __future__ import annotations

import asyncio
import os
from contextlib import suppress
from pathlib import Path

import pytest

from platoon.core.protocols import SessionNeeds
from platoon.core.task import Task
from platoon.envs import get_service
from platoon.envs.harbor.options import HarborOptions
from platoon.envs.harbor.session import HarborSession
from platoon.errors import ConfigError, PlatoonError
from platoon.sandbox.labels import LIVE
from platoon.sandbox.process import killing
from tests.envs.harbor.sessions import (
    PASS,
    belongs_to,
    make_service,
    open_descriptors,
    play,
    sandboxes,
    until,
    write_task,
)

pytestmark = pytest.mark.process


def test_get_service_and_lists(dataset: Path):
    write_task(dataset, "b")
    write_task(dataset / "group", "a", toml='[task]\nname = "org/a"\n')
    write_task(dataset, "refused", toml="[environment]\ngpus = 1\n")

    async def main():
        service = get_service("harbor", dataset_dir=str(dataset), provider="process", agent_user="ignore")
        assert await service.list_tasks("train") == ("b", "group/a", "refused")
        assert (await service.list_task_names("train"))["group/a"] == "org/a"
        with pytest.raises(ConfigError, match="1 GPU, and"):
            await service.check_tasks("train", ["b", "refused"])
        await service.check_tasks("train", ["b"])
        task = await service.get_task("group/a")
        assert task.goal == "Do a.\n" and task.misc["harbor"]["digest"].startswith("sha256:")
        with pytest.raises(ConfigError):
            await service.get_task("none")

    asyncio.run(main())
    with pytest.raises(ConfigError, match="harbor"):
        get_service("habor")
    with pytest.raises(ConfigError):
        get_service("harbor", dataset_dir=str(dataset), provder="process")


def test_check_tasks_names_every_task_that_would_be_refused(dataset: Path):
    write_task(dataset, "a", toml='[verifier]\nenvironment_mode = "separate"\n')
    write_task(dataset, "b", toml='[[verifier.collect]]\ncommand = "x"\nservice = "db"\n')
    service = make_service(dataset)
    with pytest.raises(ConfigError) as caught:
        asyncio.run(service.check_tasks("train", ["a", "b"]))
    assert len(caught.value.problems) == 2


def test_a_fetched_dataset_is_served_from_its_lock_and_cache(dataset: Path, tmp_path: Path):
    from platoon.envs.harbor.fetch import fetch
    from platoon.envs.harbor.publish import HarborCache

    write_task(dataset, "task", environment={"data": "x"})
    options = {"dataset": "dataset", "provider": "process", "provider_options": {"root": str(tmp_path / "sandboxes")}}
    fetched = fetch(HarborOptions.parse(options), tmp_path, HarborCache(tmp_path / "cache" / "harbor"))
    files = {"lock_file": str(fetched.path), "cache_dir": str(tmp_path / "cache" / "harbor")}
    service = get_service("harbor", **options, **files)

    async def scenario(session: HarborSession):
        assert str(session.harbor_task.directory).startswith(str(tmp_path / "cache"))
        return await session.grade()

    assert play(service, scenario).reward == 1
    (tmp_path / "cache" / "harbor" / fetched.lock.tasks[0].path / "tests" / "test.sh").write_text("changed")
    # By the service that read it before, too.
    for serving in (service, get_service("harbor", **options, **files)):
        with pytest.raises(PlatoonError, match="not what its digest says"):
            play(serving, scenario)


def test_nothing_of_the_hosts_environment_is_left_in_the_process(dataset: Path):
    assert "PLATOON_SANDBOX_ROOT" not in os.environ


def test_a_rollout_cancelled_at_any_moment_leaves_nothing(dataset: Path):
    write_task(dataset, "task", tests=f"setsid sleep 300 & sleep 0.02; {PASS}", environment={"file": "x"})
    service = make_service(dataset)

    async def rollout() -> None:
        session = await service.open(Task("task"), rollout_id="r")
        try:
            await session.call_tool("bash", {"command": "setsid sleep 300 >/dev/null 2>&1 & sleep 0.02"})
            copy = await session.fork("copy")
            try:
                await session.grade()
            finally:
                await copy.close()
        finally:
            await session.close()

    async def main() -> None:
        began = asyncio.get_running_loop().time()
        await rollout()
        whole_s = asyncio.get_running_loop().time() - began
        descriptors, registered = open_descriptors(), LIVE.live()
        for part in range(16):
            task = asyncio.create_task(rollout())
            await asyncio.sleep(whole_s * part / 16)
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task
            await until(lambda: not sandboxes(dataset))
        await until(lambda: LIVE.live() == registered)
        # What was cancelled last may still close its pipes.
        await until(lambda: open_descriptors() <= descriptors)

    asyncio.run(main())
    assert [row for row in killing.process_table().values() if belongs_to(row.pid, dataset.parent)] == []


def test_a_gateways_socket_is_reached_from_the_session(dataset: Path, tmp_path: Path):
    write_task(dataset, "task")

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.0 200 OK\r\n\r\nhello")
        await writer.drain()
        writer.close()

    async def main() -> None:
        server = await asyncio.start_unix_server(answer, tmp_path / "gateway.sock")
        needs = SessionNeeds({"gateway": f"unix://{tmp_path}/gateway.sock"})
        session = await make_service(dataset).open(Task("task"), rollout_id="r", needs=needs)
        try:
            port = session.sandbox.routes["gateway"].rpartition(":")[2]
            ask = f"exec 3<>/dev/tcp/127.0.0.1/{port}; printf 'GET / HTTP/1.0\\r\\n\\r\\n' >&3; cat <&3"
            assert (await session.call_tool("bash", {"command": ask})).as_text().endswith("hello")
            assert (await session.grade()).reward == 1
            assert (await session.call_tool("bash", {"command": ask})).as_text().endswith("hello")
        finally:
            await session.close()
            server.close()

    asyncio.run(main())


def test_the_runs_image_map_is_read(dataset: Path, tmp_path: Path):
    write_task(dataset, "task")
    images = tmp_path / "image_map.json"
    images.write_text('{"providers": {"process": {"images": {"none": {"image": "local", "env": {"FROM_MAP": "yes"}}}}}}')
    service = get_service(
        "harbor",
        options=HarborOptions.parse({"dataset_dir": str(dataset), "provider": "process"}),
        image_map_file=images,
        base_dir=tmp_path,
    )

    async def scenario(session: HarborSession):
        assert (await session.call_tool("bash", {"command": "echo $FROM_MAP"})).as_text() == "yes"

    play(service, scenario)
    images.write_text("[]")
    with pytest.raises(ConfigError, match="no image map"):
        get_service("harbor", dataset_dir=str(dataset), provider="process", image_map_file=images)
