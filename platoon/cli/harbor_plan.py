"""`platoon harbor plan`: what a fetch makes of one task's compose file and Dockerfile."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from platoon.cli.options import FILE
from platoon.cli.task_directory import check_task_directory

if TYPE_CHECKING:
    from platoon.envs.harbor.overlays import Overlay


@click.command()
@click.argument("task_dir", type=FILE)
@click.option("--overlay", "overlay_dirs", multiple=True, type=FILE, help="An overlay whose [[compose]] entries apply; repeatable.")
@click.option("--privileges", is_flag=True, help="Plan privileges, as refuse: {privileges: false} does.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object.")
def plan(task_dir: Path, overlay_dirs: tuple[Path, ...], privileges: bool, as_json: bool) -> None:
    """Show what a fetch makes of one task directory.

    Its stack plan, its image plan and its warnings, or every reason why it is refused (exit 1).
    """
    from platoon import exits
    from platoon.envs.harbor.overlays import read_overlay

    check_task_directory(task_dir, "platoon harbor plan")
    found = _planned(task_dir, [read_overlay(path) for path in overlay_dirs], privileges)
    if as_json:
        click.echo(json.dumps(found, ensure_ascii=False, sort_keys=True))
    else:
        _show(found, task_dir)
    if found["refused"] is not None:
        sys.exit(exits.FAILED)


def _planned(task_dir: Path, overlays: list[Overlay], privileges: bool) -> dict[str, Any]:
    """The object that `--json` prints. Overlays' file edits are not applied: the directory is read as it is."""
    from platoon.envs.harbor.compose import ComposeRefused, plan_task
    from platoon.envs.harbor.format import TaskRefused, read_task, read_toml
    from platoon.envs.harbor.task_toml import unread

    found: dict[str, Any] = dict.fromkeys(("kind", "stack", "stack_digest", "image", "user"))
    found |= {"gpus": 0, "unrewritable_references": [], "warnings": [], "refused": None, "problems": []}
    try:
        toml = read_toml(task_dir)
        found["warnings"] = unread(toml)
        planned = plan_task(toml, task_dir, overlays=overlays, privileges=privileges)
        found |= {
            "kind": planned.kind,
            "image": dict(planned.image),
            "gpus": planned.gpus,
            "user": planned.user,
            "unrewritable_references": [item.to_dict() for item in planned.unrewritable],
            "warnings": [*found["warnings"], *planned.warnings],
        }
        if planned.plan is not None:
            found |= {"stack": planned.plan.to_dict(), "stack_digest": planned.plan.digest}
        read_task(task_dir)
    except ComposeRefused as refusal:
        found |= {"refused": refusal.refusal, "problems": list(refusal.problems)}
    except TaskRefused as refusal:
        found |= {"refused": refusal.refusal, "problems": [refusal.why]}
    return found


def _show(found: dict[str, Any], task_dir: Path) -> None:
    from rich.table import Table

    from platoon.cli.screen import cell, say, screen
    from platoon.config.text import printable

    console = screen()
    name = printable(task_dir.resolve().name)
    for warning in found["warnings"]:
        say(console, f"warning: {warning}")
    if found["refused"] is not None:
        say(console, f"{name} is refused: {found['refused']}")
        for problem in found["problems"][1:]:
            say(console, f"  and {problem}")
        return
    say(console, f"{name}: {found['kind']}")
    if found["stack"] is not None:
        table = Table(title="stack, in the order of starting", title_justify="left", show_header=False)
        table.add_column(no_wrap=True)
        table.add_column(no_wrap=True)
        table.add_column(overflow="fold")
        for service, rows in _service_rows(found["stack"]):
            for number, (key, value) in enumerate(rows):
                table.add_row(cell(service if number == 0 else ""), key, cell(value))
            table.add_section()
        console.print(table)
    table = Table(title="task image", title_justify="left", show_header=False)
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for key, value in _image_rows(found["image"]):
        table.add_row(key, cell(value))
    console.print(table)
    for reference in found["unrewritable_references"]:
        place = f"{reference['file']}:{reference['line']}"
        say(console, f"{place} names {reference['service']}:{reference['port']}, which the host network cannot rewrite")


def _service_rows(stack: dict[str, Any]) -> Iterator[tuple[str, list[tuple[str, str]]]]:
    """Each service with what the plan says of it."""
    services = {"main": stack["main"], **stack["services"]}
    for name in stack["order"]:
        service = services[name]
        image = service["image"]
        init = service.get("init") or service
        words = [*(init.get("entrypoint") or []), *(init.get("command") or [])]
        check = service["healthcheck"] or {}
        privileges = stack["privileges"].get(name, {})
        rows = {
            "image": "the task's" if "from" in image else image.get("ref") or f"built, {image['build']['key'][:19]}",
            "command": " ".join(map(_text, words)),
            "ports": ", ".join(f"{port['port']}/{port['protocol']}" for port in service["ports"]),
            "waits for": ", ".join(f"{other} ({_condition(wait)})" for other, wait in service["depends_on"].items()),
            "health": " ".join(map(_text, check.get("test") or [])),
            "mounts": ", ".join(_mounts(service)),
            "environment": ", ".join(service["env"]),
            "privileges": ", ".join(["privileged"] * ("privileged" in privileges) + list(privileges.get("cap_add", ()))),
        }
        yield name, [(key, value) for key, value in rows.items() if value]
    for name, external in stack["externals"].items():
        ports = ", ".join(str(port["port"]) for port in external["ports"])
        scope = ", ".join(f"{key}={_text(value)}" for key, value in external["scope"].items())
        rows = {"served by": f"the node service {external['service']}", "ports": ports, "scope": scope}
        yield name, [(key, value) for key, value in rows.items() if value]


def _mounts(service: dict[str, Any]) -> Iterator[str]:
    for bind in service.get("binds", ()):
        ((kind, source),) = bind["source"].items()
        shown = source if kind == "task" else f"<{kind} {source}>"
        yield f"{bind['target']} from {shown}{' (read-only)' if bind['read_only'] else ''}"
    for volume in service.get("volumes", ()):
        yield volume["target"] if volume["name"] is None else f"{volume['target']} from the volume {volume['name']}"
    for mount in service.get("tmpfs", ()):
        yield f"{mount['target']} in memory"


def _condition(wait: Any) -> str:
    return str(wait if isinstance(wait, str) else wait["condition"]).removeprefix("service_")


def _text(value: Any) -> str:
    """A text of a plan on one line; a part shows what it stands for."""
    if isinstance(value, str):
        return value
    shown = []
    for piece in value:
        if isinstance(piece, str):
            shown.append(piece)
        else:
            kind, what = next(iter(piece.items()))
            shown.append(f"<{kind} {':'.join(map(str, what)) if isinstance(what, list) else what}>")
    return "".join(shown)


def _image_rows(image: dict[str, Any]) -> Iterator[tuple[str, str]]:
    yield "kind", image["kind"]
    for key in ("ref", "key"):
        if key in image:
            yield key, image[key]
    if image.get("base"):
        yield "base", ", ".join(image["base"])
    for step in image.get("deferred", ()):
        yield "deferred", " ".join(step)
    for key, value in image.get("config", {}).items():
        yield key, json.dumps(value, ensure_ascii=False)
    for note in image.get("notes", ()):
        yield "built", note
    for name in image.get("empty_directories", ()):
        yield "built", f"{name}/ as an empty directory"
    if image.get("upload_environment"):
        yield "uploads", "environment/"
