"""`platoon harbor plan`: what a fetch makes of one task, or every reason why it refuses it."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from platoon.cli.options import FILE
from platoon.cli.screen import tell_json
from platoon.cli.task_directory import check_task_directory

if TYPE_CHECKING:
    from platoon.envs.harbor.options import Refuse
    from platoon.envs.harbor.preview import Preview
    from platoon.envs.harbor.task_toml import TaskToml


def _fields(context: click.Context, parameter: click.Parameter, texts: tuple[str, ...]) -> dict[str, str]:
    fields = dict(text.partition("=")[::2] for text in texts if "=" in text)
    if len(fields) != len(texts):
        raise click.BadParameter("is FIELD=VALUE, each field once")
    return fields


def _refuse(context: click.Context, parameter: click.Parameter, texts: tuple[str, ...]) -> Refuse:
    """The switches of `refuse:` as a configuration's overrides write them."""
    from pydantic import ValidationError

    from platoon.config.layers import Layered
    from platoon.config.problems import from_validation_error
    from platoon.envs.harbor.options import Refuse

    layered = Layered()
    problems = [problem for text in texts if (problem := layered.override(text)) is not None]
    try:
        found = Refuse.model_validate(layered.values)
    except ValidationError as error:
        problems += from_validation_error(error, Refuse, layered.values, lambda path: "")
    if problems:
        raise click.BadParameter("; ".join(str(replace(problem, file="")) for problem in problems))
    return found


@click.command()
@click.argument("task_dir", type=FILE)
@click.option("--overlay", "overlay_dirs", multiple=True, type=FILE, help="An overlay, applied where it matches; repeatable.")
@click.option("--refuse", multiple=True, metavar="KEY=VALUE", callback=_refuse, help="As under refuse: of a dataset; repeatable.")
@click.option("--name", help="The task's id, for [match] of overlays; the directory's name when unset.")
@click.option("--index", multiple=True, metavar="FIELD=VALUE", callback=_fields, help="An index field, for [match]; repeatable.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object.")
def plan(
    *,
    task_dir: Path,
    overlay_dirs: tuple[Path, ...],
    refuse: Refuse,
    name: str | None,
    index: dict[str, str],
    as_json: bool,
) -> None:
    """Show what a fetch makes of one task directory.

    Its stack plan, its image plans and its warnings, or every reason why it is refused (exit 1).
    """
    from platoon import exits
    from platoon.cli.plan_table import show_plan
    from platoon.envs.harbor.overlays import read_overlay
    from platoon.envs.harbor.preview import preview_task

    check_task_directory(task_dir, "platoon harbor plan")
    overlays = [read_overlay(path) for path in overlay_dirs]
    found = _to_dict(preview_task(task_dir, name=name, index=index, overlays=overlays, refuse=refuse))
    if as_json:
        tell_json(found)
    else:
        show_plan(found)
    if found["refused"] is not None:
        sys.exit(exits.FAILED)


def _to_dict(preview: Preview) -> dict[str, Any]:
    """The object that `--json` prints: parts of the row as a lock has it, and the plan that it names."""
    from platoon.config.text import printable

    built = preview.built
    row = built.row
    compose = row.compose or {}
    idle = [f"the overlay {printable(name)} does not match {printable(row.name)} (--name, --index)" for name in preview.idle]
    if preview.lifted:
        names = ", ".join(map(printable, preview.lifted))
        idle.append(f"overlays match by [metadata]: a fetch has it where index: [{{metadata: [{names}]}}] lists it")
    return {
        "name": row.name,
        "digest": row.digest,
        "refused": row.refused,
        "problems": list(built.refusals),
        "warnings": [*idle, *built.warnings],
        "kind": row.flags.get("stack"),
        "flags": dict(row.flags),
        "settings": None if preview.settings is None else _settings(preview.settings),
        "image": dict(row.image),
        "verifier_image": None if row.verifier_image is None else dict(row.verifier_image),
        "stack": built.plan,
        "stack_digest": compose.get("plan"),
        "unrewritable_references": compose.get("unrewritable_references", []),
        "overlays": list(row.overlays),
        "input_files": dict(row.input_files or {}),
    }


def _settings(toml: TaskToml) -> dict[str, Any]:
    """What of a `task.toml` a session is made from beside the plans, as it is written there; defaults where it says nothing."""
    environment = toml.environment.model_dump(
        mode="json", include={"cpus", "memory_mb", "workdir", "env", "healthcheck", "mcp_servers"}
    )
    return {**environment, "artifacts": [artifact.model_dump(mode="json") for artifact in toml.artifacts]}
