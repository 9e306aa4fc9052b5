"""Tables of one task's plan, for people who run `platoon harbor plan`: each setting of a plan has a row, an unset one has none."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import Console

Rows = Iterator[tuple[str, str]]
TEXT_CHARACTERS = 300
UNREWRITABLE = (
    "warning: where a provider runs the stack on its host's network, services are at other addresses, which these texts do not get"
    " (an overlay's [[edit]] can change them):"
)


def show_plan(found: Mapping[str, Any]) -> None:
    """Prints what a task becomes, or why it is refused. found: the object that `--json` prints."""
    from platoon.cli.screen import say, screen
    from platoon.config.text import printable

    console = screen()
    name = printable(found["name"])
    for warning in found["warnings"]:
        say(console, f"warning: {warning}")
    if found["refused"] is not None:
        say(console, f"{name} is refused: {printable(found['refused'])}")
        for problem in found["problems"][1:]:
            say(console, f"  and {printable(problem)}")
        return
    say(console, f"{name}: {found['kind']}")
    _print_rows(console, "task", [("", _task_rows(found))])
    stack = found["stack"]
    images = {"task image": found["image"], "verifier image": found["verifier_image"]}
    if stack is not None:
        names = [*stack["order"], *stack["externals"]]
        _print_rows(console, "stack, in the order of starting", [(name, _service_rows(name, stack)) for name in names])
        images |= {f"image of {name}": service["image"].get("build") for name, service in stack["services"].items()}
    for title, image in images.items():
        if image is not None:
            _print_rows(console, title, [("", _image_rows(image))])
    if references := found["unrewritable_references"]:
        say(console, UNREWRITABLE)
    for reference in references:
        place = printable(f"{reference['file']}:{reference['line']}")
        say(console, f"  {place} names {reference['service']}:{reference['port']}")


def _print_rows(console: Console, title: str, sections: list[tuple[str, Rows]]) -> None:
    """One table. sections: a name for the first column, which is left out where nothing has one, and rows."""
    from platoon.cli.screen import print_table

    is_named = any(name for name, _ in sections)
    cells: list[tuple[str, ...]] = []
    ends = set()
    for name, rows in sections:
        before = None
        for number, (key, value) in enumerate(rows):
            first = [name if number == 0 else ""] if is_named else []
            cells.append((*first, key if key != before else "", value))
            before = key
        ends.add(len(cells) - 1)
    print_table(console, title, cells, ends=ends)


def _task_rows(found: Mapping[str, Any]) -> Rows:
    from platoon.cli.screen import short_digest
    from platoon.config.text import few

    yield "digest", short_digest(found["digest"])
    for key, value in found["flags"].items():
        # Which artifacts there are stands below.
        if key not in ("stack", "artifacts") and value not in (None, 0, [], ""):
            yield key.replace("_", " "), ", ".join(map(str, value)) if isinstance(value, list) else str(value)
    for key, value in found["settings"].items():
        # What a stack gives main is in its rows, where the compose file may say otherwise.
        if value not in (None, [], {}) and (found["stack"] is None or key not in ("cpus", "memory_mb")):
            yield from _setting(key, value)
    for key in ("overlays", "input_files"):
        if found[key]:
            yield key.replace("_", " "), few(sorted(found[key]))
    if found["stack"] is not None:
        yield "stack plan", short_digest(found["stack_digest"])
        if found["stack"]["host_env"]:
            yield "host variables", ", ".join(found["stack"]["host_env"])


def _service_rows(name: str, stack: Mapping[str, Any]) -> Rows:
    """A service with what the plan says of it; one that a node service serves too."""
    if (external := stack["externals"].get(name)) is not None:
        yield "served by", f"the node service {external['service']}"
        yield from _setting("ports", external["ports"])
        yield from _setting("aliases", external["aliases"]) if external["aliases"] else ()
        for key, value in external["scope"].items():
            yield "scope", f"{key}={_text(value)}"
        return
    for key, value in (stack["main"] if name == "main" else stack["services"][name]).items():
        if value not in (None, False, {}) and (value != [] or key in ("entrypoint", "command")):
            yield from _setting(key, value)
    privileges = stack["privileges"].get(name, {})
    if privileges:
        yield "privileges", ", ".join([*(["privileged"] if "privileged" in privileges else []), *privileges.get("cap_add", ())])
    for key, variables in stack["host_network"].get(name, {}).items():
        pairs = [f"{variable}={port}" for variable, port in variables.items()] if isinstance(variables, dict) else variables
        if pairs:
            yield "host network", f"{key} {', '.join(pairs)}"


def _setting(key: str, value: Any) -> Rows:
    """The rows of one setting of a service; one that has no form of its own shows as it stands in the plan."""
    label, lines = SETTINGS.get(key, (key, lambda value: iter([value if isinstance(value, str) else _json(value)])))
    for line in lines(value):
        yield label, line


def _image(image: Mapping[str, Any]) -> Iterator[str]:
    from platoon.cli.screen import short_digest

    yield "the task's" if "from" in image else image.get("ref") or f"built, {short_digest(image['build']['key'])}"


def _words(words: list[Any]) -> Iterator[str]:
    shown = [_text(word) for word in words]
    yield " ".join(f'"{word}"' if not word or " " in word else word for word in shown) or "none"


def _init(init: Mapping[str, Any]) -> Iterator[str]:
    entrypoint = ["<the image's entrypoint>"] if init["entrypoint"] is None else list(_words(init["entrypoint"]))
    yield " ".join((*entrypoint, *_words(init["command"])))


def _binds(binds: list[Mapping[str, Any]]) -> Iterator[str]:
    for bind in binds:
        ((kind, source),) = bind["source"].items()
        yield f"{bind['target']} from {source if kind == 'task' else f'<{kind} {source}>'}{_read_only(bind)}"


def _volumes(volumes: list[Mapping[str, Any]]) -> Iterator[str]:
    for volume in volumes:
        named = "" if volume["name"] is None else f" from the volume {volume['name']}"
        yield f"{volume['target']}{named}{_read_only(volume)}{'' if volume.get('copy', True) else ' (empty at first)'}"


def _tmpfs(mounts: list[Mapping[str, Any]]) -> Iterator[str]:
    for mount in mounts:
        size = "" if mount["size_mb"] is None else f", {mount['size_mb']} MiB"
        yield f"{mount['target']} in memory{size}{_mode(mount)}"


def _files(files: list[Mapping[str, Any]]) -> Iterator[str]:
    for file in files:
        yield f"{file['target']} holding {_text(file['content'])}{_mode(file)}"


def _mode(mount: Mapping[str, Any]) -> str:
    return "" if mount["mode"] is None else f", mode {mount['mode']:04o}"


def _read_only(mount: Mapping[str, Any]) -> str:
    return " (read-only)" if mount["read_only"] else ""


def _health(check: Mapping[str, Any]) -> Iterator[str]:
    test = check["test"]
    if test is not None and test[0] == "NONE":
        yield "not checked"
        return
    yield "the image's test" if test is None else _text(test[1]) if test[0] == "CMD-SHELL" else next(_words(test[1:]))
    forms = {
        "interval_s": "every {:g} s",
        "timeout_s": "at most {:g} s each",
        "retries": "{} failures in a row",
        "start_period_s": "free in the first {:g} s",
        "start_interval_s": "every {:g} s then",
    }
    if times := [form.format(check[key]) for key, form in forms.items() if check[key] is not None]:
        yield ", ".join(times)


def _task_health(check: Mapping[str, Any]) -> Iterator[str]:
    """The check of a `task.toml`, which says each of its times."""
    times = {f"{key}_s": check[f"{key}_sec"] for key in ("interval", "timeout")}
    starting = {
        f"{key}_s": check[f"{key}_sec"] if check["start_period_sec"] else None for key in ("start_period", "start_interval")
    }
    return _health({"test": ["CMD-SHELL", check["command"]], "retries": check["retries"], **times, **starting})


def _server(server: Mapping[str, Any]) -> str:
    address = server["url"] if server["command"] is None else next(_words([server["command"], *server["args"]]))
    headers = [f"{name}: {value}" for name, value in server["headers"].items()]
    return ", ".join([f"{server['name']} at {address} ({server['transport']})", *headers])


def _artifact(artifact: Mapping[str, Any]) -> str:
    service = "" if artifact["service"] == "main" else f" of {artifact['service']}"
    return f"{artifact['source']}{service}" + (f" without {', '.join(artifact['exclude'])}" if artifact["exclude"] else "")


def _waits(waits: Mapping[str, Any]) -> Iterator[str]:
    for other, wait in waits.items():
        condition = wait if isinstance(wait, str) else wait["condition"]
        yield f"{other} ({condition.removeprefix('service_')}{'' if isinstance(wait, str) else ', if it comes up'})"


def _limits(limits: Mapping[str, Any]) -> Iterator[str]:
    for name, limit in limits.items():
        yield f"{name} {limit['soft']} to {limit['hard']}"


def _listed(before: str = "") -> Callable[[list[str]], Iterator[str]]:
    return lambda names: iter([before + ", ".join(names)])


def _as(form: str) -> Callable[[Any], Iterator[str]]:
    return lambda value: iter([form.format(value)])


# By key of a service in a plan, or of a task's settings: what people call it, and its lines.
SETTINGS: Mapping[str, tuple[str, Callable[[Any], Iterator[str]]]] = {
    "image": ("image", _image),
    "init": ("process", _init),
    "entrypoint": ("entrypoint", _words),
    "command": ("command", _words),
    "workdir": ("directory", _as("{}")),
    "env": ("environment", lambda env: (f"{name}={_text(value)}" for name, value in env.items())),
    "aliases": ("also called", _listed()),
    "ports": ("ports", lambda ports: iter([", ".join(f"{port['port']}/{port['protocol']}" for port in ports)])),
    "volumes": ("mounts", _volumes),
    "binds": ("mounts", _binds),
    "tmpfs": ("mounts", _tmpfs),
    "files": ("files", _files),
    "healthcheck": ("health", lambda check: _health(check) if "test" in check else _task_health(check)),
    "mcp_servers": ("MCP servers", lambda servers: map(_server, servers)),
    "artifacts": ("artifacts", lambda artifacts: map(_artifact, artifacts)),
    "depends_on": ("waits for", _waits),
    "shm_mb": ("shared memory", _as("{} MiB")),
    "ulimits": ("limits", _limits),
    "cpus": ("cpus", _as("{:g}")),
    "memory_mb": ("memory", _as("{} MiB")),
    "stop_signal": ("stopped by", _as("{}")),
    "stop_grace_s": ("stopped within", _as("{:g} s")),
    "read_only": ("file system", lambda value: iter(["read-only"])),
    "cap_add": ("capabilities", _listed("with ")),
    "cap_drop": ("capabilities", _listed("without ")),
    "no_new_privileges": ("privileges", lambda value: iter(["none are gained"])),
}


def _text(value: Any) -> str:
    """A text of a plan as the task has it, its secrets too, cut where it gets long; a part shows what it stands for."""
    text = value if isinstance(value, str) else "".join(map(_piece, value))
    return text if len(text) <= TEXT_CHARACTERS else f"{text[: TEXT_CHARACTERS - 1]}…"


def _piece(piece: Any) -> str:
    if isinstance(piece, str):
        return piece
    kind, what = next(iter(piece.items()))
    words = "".join(f", {key}: {_text(piece[key])}" for key in ("unset", "empty", "set") if key in piece)
    return f"<{kind} {':'.join(map(str, what)) if isinstance(what, list) else what}{words}>"


def _image_rows(image: Mapping[str, Any]) -> Rows:
    from platoon.cli.screen import short_digest

    for key, value in {"kind": image["kind"], **image}.items():
        label, lines = IMAGE.get(key, (key, lambda value: iter([short_digest(str(value))])))
        for line in lines(value) if value else ():
            yield label, line


def _settings(settings: Mapping[str, Any]) -> Iterator[str]:
    for name, value in settings.items():
        yield f"{name}={value if isinstance(value, str) else _json(value)}"


# By key of an image's plan, as above.
IMAGE: Mapping[str, tuple[str, Callable[[Any], Iterator[str]]]] = {
    "base": ("base", _listed()),
    "deferred": ("each session", lambda steps: (" ".join(step) for step in steps)),
    "suffix_user": ("ends as user", _as("{}")),
    "config": ("config", _settings),
    "args": ("args", _settings),
    "notes": ("built", iter),
    "empty_directories": ("built", lambda names: (f"{name}/ as an empty directory" for name in names)),
    "upload_environment": ("uploads", lambda value: iter(["environment/"])),
}


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)
