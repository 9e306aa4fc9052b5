"""From a task, an entry's options and a harness's needs to the sandbox that is started; and what keeps a task from running.

Pure: the host's environment and the provider's class are given.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from platoon.config.text import counted
from platoon.core.protocols import Mount, SessionNeeds
from platoon.envs.harbor.format import HarborTask
from platoon.envs.harbor.lock import LockRow
from platoon.envs.harbor.options import HarborOptions
from platoon.envs.harbor.task_toml import TaskToml
from platoon.envs.harbor.templates import resolve_env
from platoon.errors import EnvNotPrepared, EnvSetupError
from platoon.images.plan import NO_IMAGE
from platoon.sandbox import network_none_refusal
from platoon.sandbox.base import SandboxProvider, SandboxSpec

PREPARE_ADVICE = "run platoon prepare"
SCHEMES = ("docker://", "/", "local")


def build_spec(
    task_id: str,
    task: HarborTask,
    row: LockRow,
    options: HarborOptions,
    *,
    images: Mapping[str, Mapping[str, Any]],
    provider: SandboxProvider,
    host: Mapping[str, str],
    rollout_id: str,
) -> SandboxSpec:
    """The agents' sandbox of a task. Raises EnvSetupError (`env_config`)."""
    image, entry = resolve_image(row, options, images, provider)
    try:
        own = resolve_env(task.environment.env, host)
    except KeyError as error:
        raise EnvSetupError("env_config", f"[environment].env of {task_id} needs {error.args[0]}, which is unset here") from None
    return SandboxSpec(
        image,
        workdir=task.environment.workdir or entry.get("workdir") or options.workdir,
        env={**(entry.get("env") or {}), **options.env, **own},
        mounts=tuple(Mount(mount.source, mount.target, mount.read_only) for mount in options.mounts),
        network=network_of(task, options),
        cpus=task.environment.cpus,
        memory_mb=task.environment.memory_mb,
        labels={"platoon.env": options.name, "platoon.rollout_id": rollout_id, "platoon.task": task_id},
        file_owners=entry.get("file_owners"),
    )


def resolve_image(
    row: LockRow, options: HarborOptions, images: Mapping[str, Mapping[str, Any]], provider: SandboxProvider
) -> tuple[str, Mapping[str, Any]]:
    """The image and its entry of the map, {} without one: what was prepared, the provider's only one, the task's, the options'."""
    reference = row.image.get("ref")
    entry = images.get(row.image_key or (NO_IMAGE if reference is None else f"ref:{reference}"), {})
    if entry.get("image") is not None:
        return str(entry["image"]), entry
    if (only := getattr(type(provider), "only_image", None)) is not None:
        return str(only), {}
    if row.image_key is not None:
        raise EnvNotPrepared(f"task {row.name}: its image is not built here ({PREPARE_ADVICE})")
    if reference is not None:
        return (reference if str(reference).startswith(SCHEMES) else f"docker://{reference}"), {}
    if options.default_image is None:
        raise EnvSetupError("env_config", f"task {row.name} names no image (set default_image)")
    return options.default_image, {}


def network_of(task: HarborTask, options: HarborOptions) -> Any:
    """`none` or `host` while agents run; allowlists are read as public, as documented."""
    mode = task.agent.network_mode or task.environment.network
    return "none" if options.network_policy == "none" or mode == "no-network" else "host"


def apply_needs(spec: SandboxSpec, needs: SessionNeeds | None) -> SandboxSpec:
    """Adds a harness's upstreams, its mounts whose targets are free, and its memory where there is a limit."""
    if needs is None:
        return spec
    bound = {mount.target for mount in spec.mounts}
    return replace(
        spec,
        upstreams={**spec.upstreams, **needs.upstreams},
        mounts=(*spec.mounts, *(mount for mount in needs.mounts if mount.target not in bound)),
        memory_mb=None if spec.memory_mb is None else spec.memory_mb + needs.extra_memory_mb,
    )


def refusals(task: HarborTask, row: LockRow, options: HarborOptions, provider: SandboxProvider) -> Iterator[str]:
    """Everything that keeps a task from running on this provider under these options, with the way out."""
    yield from unserved(task, row)
    # A compose file may ask for GPUs too: the row has both.
    gpus = row.flags.get("gpus") or task.environment.gpus
    if gpus and "gpu" not in provider.capabilities:
        yield f"it asks for {counted(gpus, 'GPU')}, and the provider {provider.name} gives none"
    if network_of(task, options) == "none" and (why := network_none_refusal(provider)):
        yield f"it runs without a network, and {why}"
    yield from _user_refusals(task, options, provider)


def unserved(task: HarborTask | TaskToml, row: LockRow) -> Iterator[str]:
    """What a task asks for that no session does, whatever the provider and the options."""
    yield from row_refusals(row)
    if task.verifier.separate:
        yield "its tests run in a sandbox of their own, which is not served (set [verifier].environment_mode to shared)"
    if other := sorted({hook.service for hook in task.verifier.collect} - {"main"}):
        yield f"a collect hook runs in the service {other[0]}, and only main is served"
    if task.environment.mcp_servers:
        yield "it gives agents MCP servers, which sessions do not offer (exclude_tasks leaves it out)"


def row_refusals(row: LockRow) -> Iterator[str]:
    """What the plans of a task ask for that no session does."""
    stack = row.flags.get("stack")
    if stack == "sidecars":
        yield (
            "it is a stack of several containers, which no session starts"
            " (exclude_tasks leaves it out, refuse: {sidecars: true} refuses it when it is fetched)"
        )
    elif stack == "main_only":
        yield "its compose file sets up main, which no session does (exclude_tasks leaves it out)"
    if steps := sorted({str(step[0]) for step in row.image.get("deferred") or ()}):
        yield f"its Dockerfile ends in steps for sessions ({', '.join(steps)}), and none does them (exclude_tasks leaves it out)"


def ignored_users(task: HarborTask, options: HarborOptions) -> dict[str, str | int]:
    """Users that a task names and that the policies ignore, for the outcome's metadata."""
    policies = {"agent": options.agent_user, "verifier": options.verifier_user or options.agent_user}
    users = {"agent": task.agent.user, "verifier": task.verifier.user}
    return {role: user for role, user in users.items() if user is not None and policies[role] == "ignore"}


def _user_refusals(task: HarborTask, options: HarborOptions, provider: SandboxProvider) -> Iterator[str]:
    verifier_policy = options.verifier_user or options.agent_user
    named = [("agent_user", options.agent_user, task.agent.user), ("verifier_user", verifier_policy, task.verifier.user)]
    named += [("verifier_user", verifier_policy, hook.user) for hook in task.verifier.collect]
    for key, policy, user in named:
        if user is not None and policy == "refuse":
            yield (
                f"it names the user {user}, and the environment refuses tasks that name users; the task is refused unless it sets"
                f" {key}: honor, which runs it as that user, or ignore, which runs it as the sandbox's own"
            )
    if "honor" in (options.agent_user, verifier_policy):
        yield f"users cannot be honored: sandboxes of {provider.name} run every command as one user (set ignore or refuse)"
