"""The compose subset: one table, which the planner, the reference page and the tests read.

`*` is any name, `[]` an item of a list. A key that stands in no row is refused, and so is the value of a refused key
unless it is empty: null, false, `""`, `[]` or `{}`. What stands below an ignored key is ignored with it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

# run: planned with compose's meaning. judged: planned or refused by its value. noted: accepted without effect, as the plan says.
# ignored: accepted without effect.
Verdict = Literal["run", "judged", "noted", "ignored", "refused"]
Role = Literal["main", "sidecar"]

ADVICE = "an overlay's [[compose]] can unset it"


@dataclass(frozen=True)
class Rule:
    """key: path in the file, `*` for any name. meaning: what a plan makes of it, or why it is refused; one sentence."""

    key: str
    main: Verdict
    sidecar: Verdict
    meaning: str

    def verdict(self, role: Role) -> Verdict:
        return self.main if role == "main" else self.sidecar


def _both(verdict: Verdict, meaning: str, *keys: str) -> list[Rule]:
    return [Rule(key, verdict, verdict, meaning) for key in keys]


def _service(verdict: Verdict, meaning: str, *keys: str) -> list[Rule]:
    return _both(verdict, meaning, *(f"services.*.{key}" for key in keys))


_SWARM = "only a swarm reads it"
_KERNEL = "it changes what a container may do on its host"
_OTHER_FILE = "a plan is made of one file"
_HOOK = "its hooks are not planned"
_NAMES = "names are resolved by the stack alone, so that a network phase can be closed"

_ROWS: list[Rule] = [
    *_both("run", "the stack's services", "services"),
    *_both("run", "volumes, networks, configs and secrets that services name", "volumes", "networks", "configs", "secrets"),
    *_both("ignored", "of no effect in a stack", "name", "version"),
    *_both("refused", _OTHER_FILE, "include"),
    *_both("refused", "models are served by the gateway alone", "models"),
    *_service("judged", "registry reference; for `main` only where neither Dockerfile nor `docker_image` gives one", "image"),
    *_service("run", "image built of a context in the task, by `platoon prepare`", "build"),
    *_service("run", "for `main` its init; text is split into words, no shell reads it", "command", "entrypoint"),
    *_service("run", "a bare name takes the variable of that name", "environment"),
    *_service("run", "read when the task is fetched, below `environment`", "env_file"),
    *_service("run", "absolute", "working_dir"),
    Rule("services.*.user", "judged", "run", "over the image's USER; on `main` only root, or with `refuse: {agent_user: false}`"),
    *_service("run", "what it leaves out is the image's", "healthcheck"),
    *_service("run", "three conditions; `restart` is ignored, `required: false` honoured", "depends_on"),
    *_service("run", "named, anonymous, binds of the task's files and log directories, tmpfs", "volumes"),
    *_service("run", "with size and mode", "tmpfs"),
    *_service("run", "MiB, rounded up", "shm_size"),
    *_service("run", "declared ports; published host ports are not opened; at most 64 of a range", "ports", "expose"),
    *_service("run", "a name", "hostname"),
    *_service("run", "another name of the service", "container_name"),
    *_service("run", "all services share one network; aliases are names", "networks"),
    *_service("judged", "`bridge` or `default`, or `none` for no network", "network_mode"),
    *_service("run", "another name of the other service, and a dependency on it", "links"),
    *_service("refused", _NAMES, "external_links", "extra_hosts", "dns", "dns_search", "dns_opt", "domainname"),
    *_service("run", "limits of CPUs and memory", "cpus", "mem_limit"),
    *_service("judged", "limits run; reservations are ignored but for GPUs", "deploy"),
    Rule("services.*.gpus", "run", "refused", "on `main` the task's GPUs; a sidecar gets none"),
    *_service(
        "ignored",
        "a hint about resources",
        *("mem_swappiness", "memswap_limit", "mem_reservation", "oom_kill_disable", "oom_score_adj", "cpu_shares", "cpu_count"),
        *("cpu_percent", "cpu_period", "cpu_quota", "cpu_rt_period", "cpu_rt_runtime", "blkio_config", "cpuset", "pids_limit"),
    ),
    *_service("run", "soft and hard limits", "ulimits"),
    *_service(
        "ignored",
        "of no effect in a stack",
        *("init", "stdin_open", "tty", "labels", "label_file", "annotations", "logging", "attach", "pull_policy"),
        *("pull_refresh_after",),
    ),
    *_service("judged", "`linux/amd64`", "platform"),
    Rule("services.*.profiles", "judged", "run", "a service with a profile is left out, as `up` does; `main` cannot be"),
    Rule("services.*.stop_signal", "ignored", "run", "used when the stack stops"),
    Rule("services.*.stop_grace_period", "ignored", "run", "used when the stack stops"),
    *_service("noted", "a service that exits is down; nothing starts it again", "restart"),
    Rule("services.*.read_only", "refused", "run", "honoured where the provider can; `main` is written to"),
    *_service("run", "content in the file, or a file of the task, read-only", "configs", "secrets"),
    Rule("services.*.privileged", "refused", "judged", "planned only with `refuse: {privileges: false}`, for docker"),
    *_service("judged", "capabilities that a rootless root holds; others are privileges", "cap_add"),
    Rule("services.*.cap_drop", "ignored", "run", "applied where the provider can"),
    *_service("judged", "`no-new-privileges` alone", "security_opt"),
    *_service(
        "refused",
        _KERNEL,
        *("devices", "device_cgroup_rules", "pid", "uts", "userns_mode", "cgroup", "cgroup_parent", "runtime", "sysctls"),
        *("volumes_from", "group_add", "credential_spec", "isolation", "storage_opt", "mac_address", "use_api_socket"),
    ),
    *_service("judged", "`private` or `shareable`, without effect", "ipc"),
    *_service("refused", _OTHER_FILE, "extends"),
    *_service("refused", _HOOK, "post_start", "pre_stop", "develop"),
    *_service("refused", "it is not a container", "provider", "models"),
    *_service("judged", "1", "scale"),
    *_service("run", "a directory of the task", "build.context"),
    *_service("run", "a file of the context", "build.dockerfile"),
    *_service("run", "part of the build's key; the docker builder alone takes them", "build.args"),
    *_service("run", "the stage that is built", "build.target"),
    *_service(
        "ignored",
        "of no effect on the image's content",
        *("build.cache_from", "build.cache_to", "build.no_cache", "build.pull", "build.labels", "build.tags"),
        *("build.provenance", "build.sbom", "build.shm_size", "build.ulimits"),
    ),
    *_service(
        "refused",
        "an image is built of the task's files and its registry bases alone",
        *("build.dockerfile_inline", "build.ssh", "build.secrets", "build.network", "build.additional_contexts"),
        *("build.privileged", "build.extra_hosts", "build.entitlements", "build.platforms", "build.isolation"),
    ),
    *_service("run", "text for a shell, or a list that begins CMD, CMD-SHELL or NONE", "healthcheck.test"),
    *_service("run", "a duration", *(f"healthcheck.{key}" for key in ("interval", "timeout", "start_period", "start_interval"))),
    *_service("run", "failures in a row that make a service unhealthy", "healthcheck.retries"),
    *_service("run", "no check, whatever the image has", "healthcheck.disable"),
    *_service("run", "the condition waited for", "depends_on.*.condition"),
    *_service("run", "whether a failure of the other service is one of the stack", "depends_on.*.required"),
    *_service("ignored", "nothing is started again", "depends_on.*.restart"),
    *_service("run", "a file of the task", "env_file[].path"),
    *_service("run", "false goes on without a file that is missing", "env_file[].required"),
    *_service("judged", "`raw`, or none", "env_file[].format"),
    *_service("run", "the port in the container, one number", "ports[].target"),
    *_service("judged", "`tcp` or `udp`", "ports[].protocol"),
    *_service("judged", "a port or a range, not opened", "ports[].published"),
    *_service("judged", "an address, not bound", "ports[].host_ip"),
    *_service("ignored", "published host ports are not opened", *(f"ports[].{key}" for key in ("mode", "name", "app_protocol"))),
    *_service("run", "whole numbers, -1 for no limit; both are needed", "ulimits.*.soft", "ulimits.*.hard"),
    *_service("judged", "`volume`, `bind` or `tmpfs`", "volumes[].type"),
    *_service("run", "what is mounted, where, and how", *(f"volumes[].{key}" for key in ("source", "target", "read_only"))),
    *_service("ignored", "a hint", "volumes[].consistency"),
    *_service("ignored", "a source that is missing is refused", "volumes[].bind.create_host_path"),
    *_service("ignored", "a hint", "volumes[].bind.selinux", "volumes[].bind.recursive", "volumes[].bind.propagation"),
    *_service("run", "the image's content does not fill it", "volumes[].volume.nocopy"),
    *_service("ignored", "of no effect in a stack", "volumes[].volume.labels"),
    *_service("refused", "a volume is mounted whole", "volumes[].volume.subpath"),
    *_service("run", "size and mode", "volumes[].tmpfs.size", "volumes[].tmpfs.mode"),
    *_service("run", "names of the service", "networks.*.aliases"),
    *_service("ignored", "there is one network", "networks.*.priority", "networks.*.gw_priority"),
    *_service(
        "refused",
        "the stack gives addresses",
        *(f"networks.*.{key}" for key in ("ipv4_address", "ipv6_address", "link_local_ips", "mac_address")),
        *("networks.*.driver_opts", "networks.*.interface_name"),
    ),
    *_service("run", "limits", "deploy.resources.limits.cpus", "deploy.resources.limits.memory"),
    *_service("ignored", "a hint about resources", "deploy.resources.limits.pids"),
    *_service("ignored", "a hint about resources", "deploy.resources.reservations.cpus", "deploy.resources.reservations.memory"),
    *_service("ignored", "a hint about resources", "deploy.resources.reservations.generic_resources"),
    Rule(
        "services.*.deploy.resources.reservations.devices", "judged", "refused", "GPUs: on `main` the task's; a sidecar gets none"
    ),
    *(
        rule
        for devices in ("gpus[]", "deploy.resources.reservations.devices[]")
        for rule in (
            Rule(f"services.*.{devices}.capabilities", "judged", "refused", "holds `gpu`"),
            Rule(f"services.*.{devices}.count", "run", "refused", "a number, or `all`, which is one"),
            Rule(f"services.*.{devices}.device_ids", "run", "refused", "as many as it lists"),
            Rule(f"services.*.{devices}.driver", "ignored", "refused", "the provider chooses"),
            Rule(f"services.*.{devices}.options", "ignored", "refused", "the provider chooses"),
        )
    ),
    *_service("run", "limits and reservations", "deploy.resources", "deploy.resources.limits", "deploy.resources.reservations"),
    *_service("judged", "1", "deploy.replicas"),
    *_service("noted", "a service that exits is down; nothing starts it again", "deploy.restart_policy"),
    *_service(
        "ignored",
        _SWARM,
        *(f"deploy.{key}" for key in ("mode", "labels", "endpoint_mode", "update_config", "rollback_config", "placement")),
    ),
    *_both("judged", "`bridge`", "networks.*.driver"),
    *_both("ignored", "of no effect in a stack", *(f"networks.*.{key}" for key in ("name", "labels", "attachable"))),
    *_both("ignored", "of no effect in a stack", "networks.*.enable_ipv4", "networks.*.enable_ipv6"),
    *_both("refused", "the phase of a task decides who reaches out", "networks.*.internal"),
    *_both("refused", "a stack has one network of its own", *(f"networks.*.{key}" for key in ("external", "ipam", "driver_opts"))),
    *_both("judged", "`local`", "volumes.*.driver"),
    *_both("ignored", "of no effect in a stack", "volumes.*.name", "volumes.*.labels"),
    *_both("refused", "a volume lives and ends with its stack", "volumes.*.external", "volumes.*.driver_opts"),
    *(rule for kind in ("configs", "secrets") for rule in _both("run", "a file of the task", f"{kind}.*.file")),
    *_both("run", "the file's content", "configs.*.content"),
    *(
        rule
        for kind in ("configs", "secrets")
        for rule in _both("ignored", "of no effect in a stack", f"{kind}.*.name", f"{kind}.*.labels")
    ),
    *(
        rule
        for kind in ("configs", "secrets")
        for rule in _both(
            "refused", "a plan holds no host value", *(f"{kind}.*.{key}" for key in ("environment", "external", "driver"))
        )
    ),
    *_both(
        "refused", "a plan holds no host value", "secrets.*.driver_opts", "configs.*.template_driver", "secrets.*.template_driver"
    ),
    *(
        rule
        for kind in ("configs", "secrets")
        for rule in _service("run", "which, where, and its mode", *(f"{kind}[].{key}" for key in ("source", "target", "mode")))
    ),
    *(
        rule
        for kind in ("configs", "secrets")
        for rule in _service("ignored", "files are root's, as compose makes them", *(f"{kind}[].{key}" for key in ("uid", "gid")))
    ),
]

SUBSET: Mapping[str, Rule] = {rule.key: rule for rule in _ROWS}


def is_empty(value: object) -> bool:
    """Whether a value asks for nothing."""
    return value is None or value is False or value in ("", "false") or (isinstance(value, list | dict) and not value)
