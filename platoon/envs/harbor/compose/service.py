"""One service of a compose file, from an interpolated mapping to a draft of its plan."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

from platoon.config.text import clip
from platoon.envs.harbor.compose import builds, health, mounts, ports, resources, security, values
from platoon.envs.harbor.compose.env_file import SIZE_LIMIT_BYTES, parse_env_file
from platoon.envs.harbor.compose.errors import ComposeError
from platoon.envs.harbor.compose.interpolate import FILES_LIMIT, Host
from platoon.envs.harbor.compose.merge import pairs
from platoon.envs.harbor.compose.reading import Draft, Reading, admitted, context_subpath, task_path
from platoon.envs.harbor.compose.subset import Role
from platoon.envs.harbor.compose.text import HostPart, Text

Handler = Callable[[str, Any, Draft, Reading], None]
_BAD_NAME = frozenset("=\0\n")
CONTAINER_NAME_CHARACTERS = 2


def read_service(name: str, tree: Mapping[str, Any], role: Role, reading: Reading) -> Draft:
    """Reads every key; what is wrong becomes a problem of the reading, and the rest goes on."""
    draft = Draft(name, role)
    settings = dict(admitted(tree, "services.*", name, role, reading.findings))
    for key, handler in HANDLERS.items():
        if settings.get(key) is not None or (key in ("command", "entrypoint") and key in settings):
            with reading.findings.at(name, key):
                handler(key, settings[key], draft, reading)
    _check_targets(draft, reading)
    _check_label_files(name, tree.get("label_file"), reading)
    draft.plan["env"] = dict(sorted(draft.plan.get("env", {}).items()))
    return draft


def _check_targets(draft: Draft, reading: Reading) -> None:
    """No runtime mounts two things at one place; within `volumes` the last of a place wins already."""
    targets = [mount.target for key in ("volumes", "binds", "tmpfs", "files") for mount in draft.plan.get(key, ())]
    for target in sorted(target for target, count in Counter(targets).items() if count > 1):
        reading.findings.problems.append(ComposeError(f"two things are mounted at {target[:60]}", f"{draft.name}.volumes"))


def _check_label_files(name: str, value: Any, reading: Reading) -> None:
    """They have no effect, but compose starts nothing without them."""
    for item in value if isinstance(value, list) else [] if value is None else [value]:
        with reading.findings.at(name, "label_file"):
            if reading.files.kind(_path(item)) != "file":
                raise ComposeError(f"{clip(_path(item), 100)} is no file of the task")


def read_external(name: str, tree: Mapping[str, Any], reading: Reading) -> Draft:
    """What a stack needs of a service that a node service serves: its ports and its names. Other keys are not its own."""
    draft = Draft(name, "sidecar", external=True)
    for key in ("ports", "expose", "networks", "container_name", "hostname"):
        if tree.get(key) is not None:
            with reading.findings.at(name, key):
                HANDLERS[key](key, tree[key], draft, reading)
    return draft


def _environment(key: str, value: Any, draft: Draft, reading: Reading) -> None:
    env: dict[str, Text] = draft.plan.setdefault("env", {})
    for name, item in pairs(value).items():
        with reading.findings.at(draft.name, key, name):
            if isinstance(value, list) and name != name.rstrip():
                raise ComposeError("a variable's name does not end in a blank")
            if not name or _BAD_NAME & set(name):
                raise ComposeError("a variable has a name, without '=' or a line break")
            if item is not None:
                env[name] = values.text(item)
                continue
            # A bare name takes the variable of that name, over what an env_file gives; unset, it is not in the environment.
            looked_up = reading.variables.lookup(name)
            if looked_up is None:
                raise ComposeError("takes the host's value (list it in compose_host_env of an overlay, or give it a value)")
            env[name] = _as_text(looked_up)


def _env_file(key: str, value: Any, draft: Draft, reading: Reading) -> None:
    env: dict[str, Text] = draft.plan.setdefault("env", {})
    found: dict[str, Text | Host | None] = {}
    for item in value if isinstance(value, list) else [value]:
        long = item if isinstance(item, dict) else {"path": item}
        settings = dict(admitted(long, "services.*.env_file[]", f"{draft.name}.{key}", draft.role, reading.findings))
        form = settings.get("format")
        if form not in (None, "raw"):
            raise ComposeError("the format is raw, or none")
        path = _path(settings.get("path"))
        if (kind := reading.files.kind(path)) != "file":
            if kind is None and not values.switch(settings.get("required", True)):
                continue
            raise ComposeError(f"{path[:100]} is no file of the task")
        reading.env_files.add(path)
        text = reading.files.read(path, SIZE_LIMIT_BYTES)
        reading.budget.file_characters -= len(text)
        if reading.budget.file_characters < 0:
            raise ComposeError(f"the task's files of variables have more than {FILES_LIMIT} characters in all")
        before = {name: entry for name, entry in found.items() if entry is not None}
        found |= parse_env_file(text, path, reading.variables, raw=form == "raw", service=env, before=before, budget=reading.budget)
    for name, entry in found.items():
        if entry is not None:
            env.setdefault(name, _as_text(entry))


def _path(value: Any) -> str:
    text = values.only_text(value)
    path = text if isinstance(text, str) else context_subpath(text)
    found = task_path(path) if path and not path.startswith(("/", "~")) else None
    if found is None:
        raise ComposeError("is a file of the task")
    return found


def _as_text(value: Text | Host) -> Text:
    return (HostPart(value.name, unset=value.default),) if isinstance(value, Host) else value


def _words(key: str, value: Any, draft: Draft, reading: Reading) -> None:
    words = values.command_line(value)
    # Null takes away what a layer below gives, and only main's command has one.
    if words is not None or (key == "command" and draft.role == "main"):
        draft.plan[key] = words or ()


def _working_dir(key: str, value: Any, draft: Draft, reading: Reading) -> None:
    draft.plan["workdir"] = values.container_path(values.only_text(value))


def _hostname(key: str, value: Any, draft: Draft, reading: Reading) -> None:
    name = values.name(value)
    if key == "hostname":
        draft.plan["hostname"] = name
    elif len(name) < CONTAINER_NAME_CHARACTERS:
        raise ComposeError(f"a container's name has at least {CONTAINER_NAME_CHARACTERS} characters, got {name}")
    draft.aliases.setdefault(name, key)


def _networks(key: str, value: Any, draft: Draft, reading: Reading) -> None:
    named = dict.fromkeys(values.names(value)) if isinstance(value, list) else values.mapping(value)
    if named and draft.network_mode:
        raise ComposeError("excludes network_mode")
    for network, settings in named.items():
        with reading.findings.at(draft.name, key, network):
            if network != "default" and network not in reading.tables.get("networks", {}):
                raise ComposeError("is none of the file's networks")
            place = f"{draft.name}.{key}.{network}"
            for inner, item in admitted(settings or {}, "services.*.networks.*", place, draft.role, reading.findings):
                if inner == "aliases" and item is not None:
                    for alias in values.sequence(item):
                        draft.aliases.setdefault(values.name(alias), f"{key}.{network}.aliases")
    if named:
        draft.networks = frozenset(named)


def _read_only(key: str, value: Any, draft: Draft, reading: Reading) -> None:
    draft.plan["read_only"] = values.switch(value)


def _stop(key: str, value: Any, draft: Draft, reading: Reading) -> None:
    if key == "stop_signal":
        draft.plan["stop_signal"] = values.name(value)
    else:
        draft.plan["stop_grace_s"] = values.duration_s(value)


def _profiles(key: str, value: Any, draft: Draft, reading: Reading) -> None:
    """Read when the stack is put together; here it is checked alone."""
    if draft.role == "main" and values.sequence(value):
        raise ComposeError("main belongs to every stack")


# In this order: what `environment` gives wins over `env_file`, and a limit is known before `deploy` repeats it.
HANDLERS: Mapping[str, Handler] = {
    "profiles": _profiles,
    "image": lambda key, value, draft, reading: builds.read_image(value, draft),
    "build": lambda key, value, draft, reading: builds.read_build(value, draft, reading),
    "environment": _environment,
    "env_file": _env_file,
    "command": _words,
    "entrypoint": _words,
    "working_dir": _working_dir,
    "user": lambda key, value, draft, reading: security.read_user(value, draft),
    "healthcheck": lambda key, value, draft, reading: health.read_healthcheck(value, draft, reading),
    "depends_on": lambda key, value, draft, reading: health.read_depends_on(value, draft, reading),
    "links": lambda key, value, draft, reading: health.read_links(value, draft, reading),
    "volumes": lambda key, value, draft, reading: mounts.read_volumes(value, draft, reading),
    "tmpfs": lambda key, value, draft, reading: mounts.read_tmpfs(value, draft, reading),
    "configs": mounts.read_files,
    "secrets": mounts.read_files,
    "ports": ports.read_ports,
    "expose": ports.read_ports,
    "hostname": _hostname,
    "container_name": _hostname,
    "network_mode": lambda key, value, draft, reading: security.read_network_mode(value, draft),
    "networks": _networks,
    "cpus": lambda key, value, draft, reading: resources.read_limit(key, value, draft),
    "mem_limit": lambda key, value, draft, reading: resources.read_limit(key, value, draft),
    "shm_size": lambda key, value, draft, reading: resources.read_limit(key, value, draft),
    "deploy": lambda key, value, draft, reading: resources.read_deploy(value, draft, reading),
    "gpus": lambda key, value, draft, reading: resources.read_gpus(value, draft, reading),
    "scale": lambda key, value, draft, reading: resources.read_scale(value),
    "ulimits": lambda key, value, draft, reading: resources.read_ulimits(value, draft, reading),
    "read_only": _read_only,
    "privileged": lambda key, value, draft, reading: security.read_privileged(value, draft, reading),
    "cap_add": lambda key, value, draft, reading: security.read_cap_add(value, draft, reading),
    "cap_drop": lambda key, value, draft, reading: security.read_cap_drop(value, draft),
    "security_opt": lambda key, value, draft, reading: security.read_security_opt(value, draft),
    "platform": lambda key, value, draft, reading: security.read_platform(value),
    "ipc": lambda key, value, draft, reading: security.read_ipc(value),
    "stop_signal": _stop,
    "stop_grace_period": _stop,
}
