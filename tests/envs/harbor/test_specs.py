"""From task, options and needs to a sandbox's spec; what keeps a task from running. No sandbox is started."""

from __future__ import annotations

from typing import Any

import pytest

from platoon.core.protocols import Mount, SessionNeeds
from platoon.envs.harbor.format import read_task
from platoon.envs.harbor.lock import LockRow
from platoon.envs.harbor.options import HarborOptions
from platoon.envs.harbor.specs import apply_needs, build_spec, refusals, resolve_image
from platoon.errors import EnvNotPrepared, EnvSetupError
from platoon.sandbox.base import SandboxSpec
from platoon.sandbox.process import ProcessProvider

pytestmark = pytest.mark.unit


class Docker:
    """A provider that runs images."""

    name = "docker"
    capabilities = frozenset({"network_none", "gpu"})

    def __init__(self) -> None:
        self.options: dict[str, Any] = {}

    @classmethod
    def network_none_refusal(cls, options):
        return "this site gives none"


OPTIONS = {"task_dirs": ["x"]}


def options(**more: Any) -> HarborOptions:
    return HarborOptions.parse({**OPTIONS, **more})


def row(**image: Any) -> LockRow:
    return LockRow("task", "sha256:" + "0" * 64, "task", image=image)


@pytest.mark.parametrize(
    ("image", "images", "more", "expected"),
    [
        ({"kind": "none"}, {}, {"default_image": "busybox"}, "busybox"),
        ({"kind": "none"}, {"none": {"image": None}}, {"default_image": "busybox"}, "busybox"),
        ({"kind": "none"}, {"none": {"image": "local"}}, {}, "local"),
        ({"kind": "prebuilt", "ref": "python:3.12"}, {}, {"default_image": "busybox"}, "docker://python:3.12"),
        ({"kind": "prebuilt", "ref": "/images/a.sif"}, {}, {}, "/images/a.sif"),
        ({"kind": "prebuilt", "ref": "a"}, {"ref:a": {"image": "docker://a@sha256:1"}}, {}, "docker://a@sha256:1"),
        ({"kind": "shared", "key": "sha256:1"}, {"sha256:1": {"image": "built"}}, {}, "built"),
    ],
)
def test_images(image, images, more, expected):
    assert resolve_image(row(**image), options(**more), images, Docker())[0] == expected


def test_images_that_are_not_there():
    with pytest.raises(EnvNotPrepared):
        resolve_image(row(kind="shared", key="sha256:1"), options(), {}, Docker())
    with pytest.raises(EnvSetupError, match="default_image"):
        resolve_image(row(kind="none"), options(), {}, Docker())


def test_the_process_provider_runs_its_one_image_whatever_a_task_names():
    assert resolve_image(row(kind="prebuilt", ref="python:3.12"), options(), {}, ProcessProvider())[0] == "local"


def test_the_later_environment_wins(make_task):
    toml = '[environment]\nworkdir = "/task"\ncpus = 2.0\nmemory_mb = 512\n[environment.env]\nA = "task"\nB = "${HOST_B}"\n'
    task = read_task(make_task(files={"task.toml": toml}))
    images = {"none": {"image": "i", "env": {"A": "image", "C": "image", "D": "image"}, "workdir": "/image"}}
    spec = build_spec(
        "task",
        task,
        row(kind="none"),
        options(env={"A": "service", "C": "service"}, workdir="/service", name="mine"),
        images=images,
        provider=Docker(),
        host={"HOST_B": "host"},
        rollout_id="r1",
    )
    assert spec.env == {"A": "task", "B": "host", "C": "service", "D": "image"}
    assert (spec.workdir, spec.cpus, spec.memory_mb, spec.image) == ("/task", 2.0, 512, "i")
    assert spec.labels == {"platoon.env": "mine", "platoon.rollout_id": "r1", "platoon.task": "task"}


def test_needs_are_added_and_the_specs_own_mounts_win():
    spec = SandboxSpec("i", mounts=[Mount("/a", "/opt")], memory_mb=100, upstreams={"x": "http://x"})
    needs = SessionNeeds({"gateway": "unix:///g"}, (Mount("/b", "/opt"), Mount("/c", "/other")), 50)
    applied = apply_needs(spec, needs)
    assert [mount.source for mount in applied.mounts] == ["/a", "/c"]
    assert applied.memory_mb == 150 and applied.upstreams == {"x": "http://x", "gateway": "unix:///g"}
    assert apply_needs(SandboxSpec("i"), needs).memory_mb is None
    assert apply_needs(spec, None) is spec


REFUSED = [
    ("[environment]\ngpus = 2\n", {}, "process", "asks for 2 GPUs"),
    ("[environment]\ngpus = 2\n", {}, "docker", None),
    ('[environment]\nnetwork_mode = "no-network"\n', {}, "docker", "this site gives none"),
    ("[environment]\nallow_internet = false\n", {}, "docker", "this site gives none"),
    ('[agent]\nnetwork_mode = "no-network"\n', {}, "docker", "this site gives none"),
    ('[environment]\nnetwork_mode = "no-network"\n', {}, "process", None),
    ("", {"network_policy": "none"}, "docker", "this site gives none"),
    ('[verifier]\nenvironment_mode = "separate"\n', {}, "process", "sandbox of their own"),
    ('[[verifier.collect]]\ncommand = "x"\nservice = "db"\n', {}, "process", "service db"),
    ('[agent]\nuser = "me"\n', {}, "process", "names the user me"),
    ('[agent]\nuser = "me"\n', {"agent_user": "ignore"}, "process", None),
    ("[verifier]\nuser = 3\n", {"agent_user": "ignore", "verifier_user": "refuse"}, "process", "names the user 3"),
    ("", {"agent_user": "honor"}, "process", "cannot be honored"),
    ('[[environment.mcp_servers]]\nname = "m"\nurl = "http://x"\n', {}, "process", "gives agents MCP servers"),
]


@pytest.mark.parametrize(("toml", "more", "provider", "expected"), REFUSED)
def test_refusals(make_task, toml: str, more: dict[str, Any], provider: str, expected: str | None):
    task = read_task(make_task(files={"task.toml": toml}))
    found = list(refusals(task, row(kind="none"), options(**more), ProcessProvider() if provider == "process" else Docker()))
    assert (found == []) if expected is None else (len(found) == 1 and expected in found[0])


@pytest.mark.parametrize(
    ("flags", "image", "expected"),
    [
        ({"stack": "sidecars"}, {"kind": "none"}, "a stack of several containers, which no session starts"),
        ({"stack": "main_only"}, {"kind": "none"}, "its compose file sets up main"),
        ({"stack": "single", "gpus": 1}, {"kind": "none"}, "asks for 1 GPU, and"),
        ({"stack": "single"}, {"kind": "shared", "key": "k", "deferred": [["WORKDIR", "/a"], ["COPY", "a", "b"]]}, "COPY, WORKDIR"),
        ({"stack": "trivial"}, {"kind": "shared", "key": "k", "deferred": []}, None),
    ],
)
def test_s505_what_plans_ask_for_is_refused_when_tasks_are_listed(
    make_task, flags: dict[str, Any], image: dict[str, Any], expected: str | None
):
    planned = LockRow("task", "sha256:" + "0" * 64, "task", flags=flags, image=image)
    found = list(refusals(read_task(make_task()), planned, options(), ProcessProvider()))
    assert (found == []) if expected is None else (len(found) == 1 and expected in found[0])


def test_s532_tasks_that_name_users(make_task):
    task = read_task(make_task(files={"task.toml": '[agent]\nuser = "me"\n'}))
    (why,) = refusals(task, row(kind="none"), options(), Docker())
    words = "and the environment refuses tasks that name users; the task is refused unless it sets agent_user: honor, "
    assert words in why
    assert " or ignore, " in why
