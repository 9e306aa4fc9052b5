"""The shapes that compose's schema and its readers ask of values, for every key that a plan does not read itself, used or not.

One table of places to shapes: `*` is any name, `[]` an item of a list. It is held against the file as written, so that a text with
variables counts as whatever it may become.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from typing import Any

from platoon.envs.harbor.compose import values
from platoon.envs.harbor.compose.document import Number
from platoon.envs.harbor.compose.errors import ComposeError
from platoon.envs.harbor.compose.ports import check_port
from platoon.envs.harbor.compose.subset import SUBSET, is_empty

Path = tuple[str, ...]
Shape = Callable[[Any], Any]
_PULL_POLICY = re.compile(r"always|never|build|if_not_present|missing|refresh|daily|weekly|every_([0-9]+[wdhms])+")
_PLAIN = (str, Number, bool)
# Limits that a service gives in two places: a key of its own, and a part and a name below `deploy.resources`.
_ONE_LIMIT: tuple[tuple[str, str, str, Callable[[Any], int]], ...] = (
    ("pids_limit", "limits", "pids", values.whole_number),
    ("mem_reservation", "reservations", "memory", values.size_bytes),
)


def _plain_switch(value: Any) -> None:
    if not isinstance(value, bool):
        raise ComposeError("is true or false, without quotes")


def _service(value: Any) -> None:
    if not isinstance(value, dict):
        raise ComposeError("a service is a mapping")
    for key, part, name, read in _ONE_LIMIT:
        other: Any = value
        for step in ("deploy", "resources", part, name):
            other = other.get(step) if isinstance(other, dict) else None
        found = set[int]()
        # What is no limit at all is told at its own place.
        with suppress(ComposeError):
            found = {read(item) for item in (value.get(key), other) if item is not None and not _is_open(item)}
        if len(found) > 1:
            raise ComposeError(f"{key} differs from deploy.resources.{part}.{name}, and compose takes one limit")


def _whole(least: int, most: int) -> Shape:
    def shape(value: Any) -> None:
        if not least <= values.whole_number(value) <= most:
            raise ComposeError(f"is a whole number from {least} to {most}")

    return shape


def _text_list(value: Any) -> None:
    for item in values.sequence(value):
        values.only_text(item)


def _texts(value: Any) -> None:
    """One text, or several."""
    if not isinstance(value, str):
        _text_list(value)


def _env_files(value: Any) -> None:
    if not isinstance(value, str | list):
        raise ComposeError("is a file's name or a list, of names and mappings")
    for item in value if isinstance(value, list) else ():
        if isinstance(item, dict) and (other := [key for key in item if key.startswith("x-")]):
            raise ComposeError(f"has no key {other[0][:40]}")


def _text_or_switch(value: Any) -> None:
    if not isinstance(value, bool):
        values.only_text(value)


def _text_size(value: Any) -> None:
    values.size_bytes(values.only_text(value))


def _labels(value: Any) -> None:
    """Names to plain values, or a list of `NAME=value`."""
    if isinstance(value, list):
        for item in value:
            values.only_text(item)
        return
    _plain_values(value)


def _plain_values(value: Any) -> None:
    if not all(isinstance(item, (*_PLAIN, type(None))) for item in values.mapping(value).values()):
        raise ComposeError("gives each name one value")


def _build_limit(value: Any) -> None:
    """A whole number, or soft and hard; compose's reader takes no text here."""
    limits = [value]
    if isinstance(value, dict):
        _keys("soft hard")(value)
        if not {"soft", "hard"} <= set(value):
            raise ComposeError("has soft and hard")
        limits = [value["soft"], value["hard"]]
    if not all(isinstance(limit, Number) and isinstance(limit.value, int) for limit in limits):
        raise ComposeError("a limit is a whole number, without quotes")


def _size(value: Any) -> None:
    """Bytes; -1 is none."""
    if not isinstance(value, Number):
        values.size_bytes(value)


def _plain_number(value: Any) -> None:
    if not isinstance(value, Number):
        raise ComposeError("is a number, without quotes")


def _plain_whole(value: Any) -> None:
    if not isinstance(value, Number) or not isinstance(value.value, int) or not 0 <= value.value < 65536:
        raise ComposeError("is a whole number from 0 to 65535, without quotes")


def _pull_policy(value: Any) -> None:
    if not _PULL_POLICY.fullmatch(str(values.only_text(value))):
        raise ComposeError("is always, never, build, missing, refresh, daily, weekly or every_<duration>")


def _keys(known: str, *, extensions: bool = True) -> Shape:
    """A mapping with no other keys, but for those that begin with `x-` where the schema takes extensions."""

    def shape(value: Any) -> None:
        for key in values.mapping(value):
            if key not in known.split() and not (extensions and key.startswith("x-")):
                raise ComposeError(f"has no key {key[:40]}")

    return shape


def _one_of(*words: str) -> Shape:
    def shape(value: Any) -> None:
        if value not in words:
            raise ComposeError(f"is {', '.join(words[:-1])} or {words[-1]}")

    return shape


def _driver_options(value: Any) -> None:
    if not all(isinstance(item, str | Number) for item in values.mapping(value).values()):
        raise ComposeError("gives each name text or a number")


def _gpu(value: Any) -> None:
    if {"count", "device_ids"} <= set(values.mapping(value)):
        raise ComposeError("has count or device_ids, not both")


def _reserved(value: Any) -> None:
    _gpu(value)
    if "capabilities" not in value:
        raise ComposeError("needs capabilities")


def _volume(value: Any) -> None:
    if values.mapping(value).get("external") not in (None, False) and (
        other := sorted(set(value) & {"driver", "driver_opts", "labels"})
    ):
        raise ComposeError(f"is external, and then has no {other[0]}")


def _file_source(*sources: str) -> Shape:
    """A config or a secret says what it is."""

    def shape(value: Any) -> None:
        given = set(values.mapping(value)) & set(sources)
        if not given and value.get("external") in (None, False):
            raise ComposeError(f"names no {' and no '.join(sources)}")
        if len(given) > 1:
            raise ComposeError(f"is one of {', '.join(sources[:-1])} and {sources[-1]}")

    return shape


_DEVICES = "deploy.resources.reservations.devices[]"
_UPDATES = ("deploy.update_config", "deploy.rollback_config")
_RATES = " ".join(f"device_{way}_{what}" for way in ("read", "write") for what in ("bps", "iops"))
_S = "services.*"
_BY_SHAPE: list[tuple[Shape, str, str]] = [
    (values.switch, _S, "init stdin_open tty attach oom_kill_disable privileged read_only build.no_cache build.pull"),
    (values.switch, _S, "depends_on.*.restart healthcheck.disable volumes[].read_only volumes[].bind.create_host_path"),
    (values.switch, _S, "volumes[].volume.nocopy"),
    (values.switch, "networks.*", "attachable enable_ipv4 enable_ipv6 internal"),
    (_plain_switch, _S, "depends_on.*.required"),
    (values.only_text, _S, "hostname restart cpuset pull_refresh_after stop_signal build.target build.dockerfile"),
    (values.only_text, _S, "deploy.mode deploy.endpoint_mode volumes[].consistency volumes[].bind.propagation"),
    (values.only_text, _S, "ports[].name ports[].mode ports[].app_protocol ports[].protocol ports[].host_ip"),
    (
        values.only_text,
        _S,
        "gpus[].driver deploy.resources.reservations.devices[].driver configs[].uid configs[].gid secrets[].uid secrets[].gid",
    ),
    *[(values.only_text, f"{table}.*", "name driver") for table in ("networks", "volumes", "configs", "secrets")],
    (_texts, _S, "label_file"),
    (_env_files, _S, "env_file"),
    (_text_or_switch, _S, "build.provenance build.sbom"),
    (_text_size, _S, "deploy.resources.limits.memory deploy.resources.reservations.memory"),
    (_labels, _S, "gpus[].options deploy.resources.reservations.devices[].options"),
    (_text_list, _S, "profiles cap_drop build.tags build.cache_from build.cache_to networks.*.aliases"),
    (_labels, _S, "labels annotations build.labels deploy.labels volumes[].volume.labels"),
    *[(_labels, f"{table}.*", "labels") for table in ("networks", "volumes", "configs", "secrets")],
    (_whole(-1000, 1000), _S, "oom_score_adj"),
    (_whole(0, 100), _S, "cpu_percent"),
    (_whole(0, values.WHOLE_LIMIT), _S, "cpu_count"),
    (_plain_whole, _S, "blkio_config.weight"),
    *[
        row
        for place in (f"{_S}.{key}" for key in _UPDATES)
        for row in (
            (_keys("parallelism delay failure_action monitor max_failure_ratio order"), _S, place.removeprefix(f"{_S}.")),
            (values.whole_number, place, "parallelism"),
            (values.duration_s, place, "delay monitor"),
            (values.number, place, "max_failure_ratio"),
            (values.only_text, place, "failure_action"),
            (_one_of("start-first", "stop-first"), place, "order"),
        )
    ],
    (_keys("condition delay max_attempts window"), _S, "deploy.restart_policy"),
    (_keys("constraints preferences max_replicas_per_node"), _S, "deploy.placement"),
    (_keys("spread"), _S, "deploy.placement.preferences[]"),
    (values.only_text, _S, "deploy.restart_policy.condition deploy.placement.preferences[].spread"),
    (values.duration_s, _S, "deploy.restart_policy.delay deploy.restart_policy.window"),
    (values.whole_number, _S, "deploy.restart_policy.max_attempts deploy.placement.max_replicas_per_node"),
    (values.sequence, _S, "deploy.placement.preferences"),
    (_text_list, _S, "deploy.placement.constraints"),
    (_one_of("host", "private"), _S, "cgroup"),
    (_one_of("enabled", "disabled", "writable", "readonly"), _S, "volumes[].bind.recursive"),
    (_one_of("z", "Z"), _S, "volumes[].bind.selinux"),
    (_gpu, _S, "gpus[]"),
    (_reserved, _S, _DEVICES),
    (values.whole_number, _S, "deploy.replicas scale deploy.resources.limits.pids"),
    (values.number, _S, "cpus cpu_shares cpu_period cpu_quota cpu_rt_period cpu_rt_runtime pids_limit"),
    (values.number, _S, "deploy.resources.limits.cpus deploy.resources.reservations.cpus"),
    (_plain_number, _S, "networks.*.priority networks.*.gw_priority volumes[].tmpfs.mode"),
    (_size, _S, "mem_swappiness mem_limit mem_reservation memswap_limit shm_size build.shm_size"),
    (values.duration_s, _S, "stop_grace_period healthcheck.interval healthcheck.timeout"),
    (values.mapping, _S, "build.ulimits"),
    (_build_limit, _S, "build.ulimits.*"),
    (values.sequence, _S, "deploy.resources.reservations.generic_resources"),
    (_keys("discrete_resource_spec"), _S, "deploy.resources.reservations.generic_resources[]"),
    (_pull_policy, _S, "pull_policy"),
    (_keys("driver options"), _S, "logging"),
    (values.only_text, _S, "logging.driver"),
    (_plain_values, _S, "logging.options"),
    (_keys(f"weight weight_device {_RATES}", extensions=False), _S, "blkio_config"),
    *[
        row
        for key, (item, shape) in {
            "weight_device": ("weight", _plain_whole),
            **dict.fromkeys(_RATES.split(), ("rate", values.size_bytes)),
        }.items()
        for row in (
            (values.sequence, f"{_S}.blkio_config", key),
            (_keys(f"path {item}", extensions=False), f"{_S}.blkio_config", f"{key}[]"),
            (values.only_text, f"{_S}.blkio_config", f"{key}[].path"),
            (shape, f"{_S}.blkio_config", f"{key}[].{item}"),
        )
    ],
    (_service, "services", "*"),
    (values.mapping, "networks", "*"),
    (_keys("driver config options"), "networks.*", "ipam"),
    (values.only_text, "networks.*", "ipam.driver"),
    (values.sequence, "networks.*", "ipam.config"),
    *[(_driver_options, f"{table}.*", "driver_opts") for table in ("networks", "volumes", "secrets")],
    (_volume, "volumes", "*"),
    (_file_source("file", "content", "environment"), "configs", "*"),
    (_file_source("file", "environment"), "secrets", "*"),
]
SHAPES: Mapping[str, Shape] = {f"{prefix}.{key}": shape for shape, prefix, keys in _BY_SHAPE for key in keys.split()}
# Places that lead to others in the table, so that no more of a file is walked.
_INNER = frozenset(key[: place.start()] for key in SHAPES for place in re.finditer(r"\.|\[\]", key))


def shape_problems(tree: Mapping[str, Any]) -> Iterator[ComposeError]:
    """The problems of a file's tree, overlays applied, before it is interpolated; of nulls there are none."""
    yield from _walk(tree, "", ())
    services = tree.get("services")
    for name, service in services.items() if isinstance(services, dict) else ():
        # A service that runs is read key by key.
        if isinstance(service, dict) and not is_empty(service.get("profiles")):
            yield from _idle_problems(name, service)


def _idle_problems(name: str, service: Mapping[str, Any]) -> Iterator[ComposeError]:
    for key in service:
        if f"services.*.{key}" not in SUBSET and not key.startswith("x-"):
            yield ComposeError("unknown key", f"{name}.{key}")
    ports = service.get("ports")
    for port in ports if isinstance(ports, list) else ():
        try:
            if not _is_open(port):
                check_port(port)
        except ComposeError as error:
            yield ComposeError(error.why, f"{name}.ports")


def _walk(value: Any, pattern: str, path: Path) -> Iterator[ComposeError]:
    if value is None or _is_open(value):
        return
    if (shape := SHAPES.get(pattern)) is not None:
        try:
            shape(value)
        except ComposeError as error:
            yield ComposeError(error.why, ".".join(path[1:] if path[0] == "services" and len(path) > 2 else path))
            return
    if isinstance(value, dict):
        for key, item in value.items():
            named = f"{pattern}.{key}" if pattern else key
            inner = named if named in SHAPES or named in _INNER else f"{pattern}.*"
            if inner in SHAPES or inner in _INNER:
                yield from _walk(item, inner, (*path, key))
    elif isinstance(value, list) and ((inner := f"{pattern}[]") in SHAPES or inner in _INNER):
        for item in value:
            yield from _walk(item, inner, path)


def _is_open(value: Any) -> bool:
    """Whether a text, or one below, holds a variable, which may become anything."""
    if isinstance(value, str):
        return "$" in value
    return isinstance(value, list) and any(isinstance(item, str) and "$" in item for item in value)
