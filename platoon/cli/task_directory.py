"""A task directory that a person names: refused in the same words by every command that takes one."""

from __future__ import annotations

from pathlib import Path


def check_task_directory(directory: Path, command: str) -> None:
    """Raises ConfigError for what holds no task. command: to be run with a task below it, where it holds tasks."""
    from platoon.config.files import path_fault
    from platoon.config.text import short_path
    from platoon.errors import ConfigError, Problem

    shown = short_path(str(directory))
    if (fault := path_fault(directory, "directory")) is not None:
        raise ConfigError(Problem(fault, file=shown, advice="a task is a directory with a task.toml"))
    if (fault := path_fault(directory / "task.toml", "file")) is not None:
        tasks = sorted(path.parent.name for path in directory.glob("*/task.toml"))
        advice = f"its children are tasks: {command} {shown}/{short_path(tasks[0])}" if tasks else ""
        raise ConfigError(Problem(f"is no task: its task.toml: {fault}", file=shown, advice=advice))
