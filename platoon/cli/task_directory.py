"""A task directory that a person names: refused in the same words by every command that takes one."""

from __future__ import annotations

from pathlib import Path


def check_task_directory(directory: Path, command: str) -> None:
    """Raises ConfigError for what holds no task. command: to be run with a task below it, where it holds tasks."""
    from platoon.config.text import printable
    from platoon.errors import ConfigError, Problem

    shown = printable(str(directory))
    if not directory.is_dir():
        rule = "is no directory" if directory.exists() else "no such directory"
        raise ConfigError(Problem(rule, file=shown, advice="a task is a directory with a task.toml"))
    if not (directory / "task.toml").is_file():
        tasks = sorted(path.parent.name for path in directory.glob("*/task.toml"))
        advice = f"its children are tasks: {command} {shown}/{printable(tasks[0])}" if tasks else ""
        raise ConfigError(Problem("is no task: a task directory holds a task.toml", file=shown, advice=advice))
