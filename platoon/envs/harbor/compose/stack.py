"""A whole compose file put together: which services run, on which network, in which order, and what the stack asks for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from platoon.envs.harbor.compose import builds, values
from platoon.envs.harbor.compose.edits import Edited
from platoon.envs.harbor.compose.errors import ComposeError, Findings
from platoon.envs.harbor.compose.form import form_problems
from platoon.envs.harbor.compose.host_network import host_network_rules, ruled_names
from platoon.envs.harbor.compose.interpolate import Use, interpolate
from platoon.envs.harbor.compose.order import MAIN, start_order
from platoon.envs.harbor.compose.reading import UNKNOWN_KEY, Draft, Reading, admitted
from platoon.envs.harbor.compose.references import Names, tokenised
from platoon.envs.harbor.compose.service import read_external, read_service
from platoon.envs.harbor.compose.stack_plan import Dependency, External, Init, Port, ServicePlan, StackPlan
from platoon.envs.harbor.compose.subset import Role, is_empty
from platoon.envs.harbor.compose.text import ImagePart, Text
from platoon.envs.harbor.compose.variables import TaskVariables

SERVICE_LIMIT = 64
# Of one service, its own not counted: aliases, links of others, a host's and a container's name.
NAME_LIMIT = 256
# Harbor's own command of main, which keeps it alive and is no init.
IDLE: tuple[Text, ...] = ("sh", "-c", "sleep infinity")
TABLES = ("volumes", "networks", "configs", "secrets")


@dataclass
class Services:
    """The drafts of a file: main, the sidecars that run, the external ones, and the names that a profile leaves out."""

    main: Draft
    sidecars: dict[str, Draft] = field(default_factory=dict)
    externals: dict[str, Draft] = field(default_factory=dict)
    dropped: set[str] = field(default_factory=set)

    @property
    def all(self) -> dict[str, Draft]:
        return {MAIN: self.main, **self.sidecars, **self.externals}


def read_services(edited: Edited, reading: Reading) -> Services:
    """Reads the file's sections and services. Raises ComposeRefused where nothing can be made of it, keeps other problems."""
    findings = reading.findings
    findings.problems.extend(form_problems(values.mapping(edited.tree)))
    top = dict(admitted(values.mapping(edited.tree), "", "", "main", findings))
    for key, value in values.mapping(edited.tree).items():
        if key in ("name", "version") or key.startswith("x-"):
            reading.table(key, value, ignored=True)
    held: dict[tuple[str, str], Findings] = {}
    reading.tables = {name: _table(name, top.get(name), reading, held) for name in TABLES}
    trees = values.mapping(top.get("services"))
    if len(trees) > SERVICE_LIMIT:
        raise ComposeError(f"has more than {SERVICE_LIMIT} services", "services")
    services = Services(Draft(MAIN, "main"))
    for name, tree in trees.items():
        with findings.at("services", name):
            values.name(name)
            role: Role = "main" if name == MAIN else "sidecar"
            if not isinstance(tree, dict | None):
                raise ComposeError("a service is a mapping")
            if name in edited.externals:
                kept = {key: value for key, value in (tree or {}).items() if key in _EXTERNAL_KEYS}
                services.externals[name] = read_external(name, reading.interpolated(name, kept, "sidecar"), reading)
                continue
            dropped = role == "sidecar" and not is_empty((tree or {}).get("profiles"))
            own = replace(reading, variables=replace(reading.variables, ruled=ruled_names(name, edited.rules)))
            interpolated = own.interpolated(name, tree or {}, role, dropped=dropped)
            if dropped:
                services.dropped.add(name)
                continue
            draft = read_service(name, interpolated, role, own)
            if role == "main":
                services.main = draft
            else:
                services.sidecars[name] = draft
    used = _used(services, reading)
    for place, found in held.items():
        # A key that compose does not know it refuses in what nothing uses, too.
        findings.problems.extend(item for item in found.problems if place in used or item.why.startswith(UNKNOWN_KEY))
        findings.notes.update(found.notes if place in used else {})
    return services


def _used(services: Services, reading: Reading) -> set[tuple[str, str]]:
    """The entries of the file's tables that services name which run; others have no effect, whatever they say."""
    running = (services.main, *services.sidecars.values())
    networks = {("networks", name) for draft in running for name in draft.networks or ()}
    volumes = {("volumes", mount.name) for draft in running for mount in draft.plan.get("volumes", ()) if mount.name is not None}
    return networks | volumes | reading.named


_EXTERNAL_KEYS = ("ports", "expose", "networks", "container_name", "hostname")


def build_stack(services: Services, edited: Edited, reading: Reading) -> tuple[StackPlan, Names]:
    """The plan of the drafts and the names its texts may refer to."""
    findings = reading.findings
    _link(services, reading)
    _check_names(services, reading)
    _check_networks(services, reading)
    main = _main_plan(services.main, reading)
    sidecars = {}
    for name, draft in sorted(services.sidecars.items()):
        with findings.at(name, "image"):
            image = _image(draft, services.main, reading)
            sidecars[name] = draft.finished(image)
    order: tuple[str, ...] = (MAIN,)
    with findings.at("services"):
        running = {MAIN, *services.sidecars}
        order = start_order(
            {name: [other for other in _dependencies(services.all[name]) if other in running] for name in sorted(running)}
        )
    names = _names(services)
    if services.sidecars or services.externals:
        main = tokenised(main, names, _tcp(services.main))
        sidecars = {name: tokenised(plan, names, _tcp(services.sidecars[name])) for name, plan in sidecars.items()}
    used = {mount.name for plan in (main, *sidecars.values()) for mount in plan.volumes if mount.name is not None}
    plan = StackPlan(
        order=order,
        main=main,
        services=sidecars,
        volumes=tuple(sorted(used)),
        externals=_externals(services, edited, reading),
        privileges={name: draft.privileges for name, draft in sorted(services.sidecars.items()) if draft.privileges},
        host_network=host_network_rules(edited.rules, services.all, reading),
        notes=tuple(sorted(findings.notes)),
    )
    _check_health(plan, services, reading)
    return plan, names


def _table(name: str, tree: Any, reading: Reading, held: dict[tuple[str, str], Findings]) -> Mapping[str, Any]:
    """A section of the file. held: gets what is found of each entry, which counts where a service names it."""
    if tree is None:
        return {}
    found: dict[str, Any] = {}
    with reading.findings.at(name):
        for key, settings in values.mapping(reading.table(name, tree)).items():
            findings = held[name, key] = Findings()
            found[key] = {}
            with findings.at(name, key):
                place = f"{name}.{key}"
                inner = dict(admitted(values.mapping(settings or {}), f"{name}.*", place, "main", findings))
                driver = inner.get("driver")
                if driver is not None and values.known(driver) not in (("local", "") if name == "volumes" else ("bridge", "")):
                    raise ComposeError(f"the driver is {'local' if name == 'volumes' else 'bridge'}", f"{place}.driver")
                found[key] = inner
    return found


def _main_plan(draft: Draft, reading: Reading) -> ServicePlan:
    """main with the layers that Harbor puts below the file: the task's limits, and a command that keeps it alive."""
    environment = reading.environment
    plan = draft.plan
    if plan.get("cpus") is None:
        plan["cpus"] = environment.cpus
    if plan.get("memory_mb") is None:
        plan["memory_mb"] = environment.memory_mb
    entrypoint, command = plan.pop("entrypoint", None), plan.pop("command", None)
    if command == () and not entrypoint:
        problem = "is empty, which would run the image's own command (leave it out, or name the command)"
        reading.findings.problems.append(ComposeError(problem, f"{draft.name}.command"))
    elif entrypoint is not None or (command is not None and command != IDLE):
        plan["init"] = Init(entrypoint, IDLE if command is None else command)
    return draft.finished({"from": "task"})


def _image(draft: Draft, main: Draft, reading: Reading) -> dict[str, Any]:
    if draft.build is not None:
        try:
            return {"build": builds.plan_build(draft.build, reading, whole=True)[1]}
        except ComposeError as error:
            raise ComposeError(error.why, f"{draft.name}.build") from None
    if draft.asks_build:
        # Its fault is told already.
        return {}
    if draft.image is None:
        raise ComposeError("a service needs an image or a build")
    if main.image is not None and draft.image == main.image and reading.environment.docker_image is None:
        raise ComposeError("it is the image that main is built as (give the service a build of its own)")
    return {"ref": builds.reference(draft.image)}


def _link(services: Services, reading: Reading) -> None:
    """Resolves links and dependencies against the services that run; what a profile leaves out is waited for by nobody."""
    everyone = services.all
    for name, draft in everyone.items():
        waits: dict[str, Dependency] = dict(draft.plan.get("depends_on", {}))
        for other, alias in draft.links:
            waits.setdefault(other, Dependency("service_started"))
            if alias is not None and other in everyone:
                everyone[other].aliases.setdefault(alias, f"links of {name}")
        kept = {}
        for other, wait in sorted(waits.items()):
            with reading.findings.at(name, "depends_on"):
                if other in services.dropped and not wait.required:
                    continue
                if other in services.dropped:
                    raise ComposeError(f"{other} is left out by its profile (required: false goes on without it)")
                if other not in everyone:
                    raise ComposeError(f"{other[:60]} is no service of the file")
                if wait.condition == "service_completed_successfully" and (other == MAIN or other in services.externals):
                    raise ComposeError(f"{other} runs until the task is graded, and does not complete")
                kept[other] = wait
        draft.plan["depends_on"] = kept


def _dependencies(draft: Draft) -> Mapping[str, Dependency]:
    found: Mapping[str, Dependency] = draft.plan.get("depends_on", {})
    return found


def _check_names(services: Services, reading: Reading) -> None:
    """A service's name leads to that service alone, and no two containers have one name."""
    everyone = services.all
    containers: dict[str, str] = {}
    for name, draft in everyone.items():
        if len(draft.aliases) > NAME_LIMIT:
            key = list(draft.aliases.values())[NAME_LIMIT]
            reading.findings.problems.append(ComposeError(f"has more than {NAME_LIMIT} names", f"{name}.{key}"))
            continue
        for alias, key in draft.aliases.items():
            if alias in everyone and alias != name:
                reading.findings.problems.append(ComposeError(f"{alias} is the name of another service", f"{name}.{key}"))
            elif key == "container_name" and containers.setdefault(alias, name) != name:
                problem = f"{alias} is the name of {containers[alias]}'s container too"
                reading.findings.problems.append(ComposeError(problem, f"{name}.{key}"))


def _check_networks(services: Services, reading: Reading) -> None:
    """All services share one network here, so a file that keeps two apart is refused."""
    running = {MAIN: services.main, **services.sidecars}
    connected = [(name, draft.networks) for name, draft in sorted(running.items()) if draft.networks is not None]
    for index, (name, networks) in enumerate(connected):
        for other, others in connected[index + 1 :]:
            if not networks & others:
                problem = f"it keeps {name} and {other} apart, and a stack has one network (let them share one)"
                reading.findings.problems.append(ComposeError(problem, f"{name}.networks"))
                return


def _check_health(plan: StackPlan, services: Services, reading: Reading) -> None:
    for name, draft in services.all.items():
        for other, wait in _dependencies(draft).items():
            if wait.condition != "service_healthy" or other in services.externals:
                continue
            waited = plan.main if other == MAIN else plan.services.get(other)
            if waited is not None and _lacks_healthcheck(waited):
                problem = f"waits for {other} to be healthy, and {other} has no healthcheck (give {other} one)"
                reading.findings.problems.append(ComposeError(problem, f"{name}.depends_on"))


def _lacks_healthcheck(plan: ServicePlan) -> bool:
    """Whether a service is known to have no check. An image of a registry, and one built over one, may have one of its own, which
    is known when it is pinned."""
    check = plan.healthcheck
    if check is not None and check.test is not None:
        return check.disabled
    build = plan.image.get("build")
    if build is None:
        return False
    config = build.get("config", {})
    if "healthcheck" not in config:
        return not build["base"]
    test = (config["healthcheck"] or {}).get("test") or ["NONE"]
    return bool(test[0] == "NONE")


def _names(services: Services) -> Names:
    found: dict[str, tuple[str, frozenset[int]]] = {}
    for name, draft in services.all.items():
        found[name] = (name, _tcp(draft) | {port.port for port in draft.ports})
    for name, draft in services.all.items():
        for alias in draft.aliases:
            found.setdefault(alias, found[name])
    return Names(found)


def _tcp(draft: Draft) -> frozenset[int]:
    return frozenset(port.port for port in draft.ports if port.protocol == "tcp")


def _of_task(main: Draft, reading: Reading) -> TaskVariables:
    """What a task's own variables are to a scope: those of task.toml over those that the file gives main. None of the host's."""
    variables = reading.variables
    own = {name: text for name, text in main.plan.get("env", {}).items() if name not in variables.task}
    return replace(variables, harbor={**own, **variables.harbor}, listed=frozenset())


def _externals(services: Services, edited: Edited, reading: Reading) -> dict[str, External]:
    found = {}
    for name, draft in sorted(services.externals.items()):
        edit = edited.externals[name]
        scope: dict[str, Text] = {}
        for key, text in sorted(edit.scope.items()):
            with reading.findings.at(name, "scope", key):
                value = interpolate(text, _of_task(services.main, reading), Use(budget=reading.budget))
                if not isinstance(value, str) and any(isinstance(piece, ImagePart) for piece in value):
                    raise ComposeError("takes the task's variables")
                scope[key] = value
        ports: tuple[Port, ...] = draft.ports
        found[name] = External(str(edit.external), ports, tuple(draft.aliases), scope)
    return found
