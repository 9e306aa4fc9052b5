"""`platoon harbor`: content hashes, plans, fetches and locks of Harbor datasets."""

from __future__ import annotations

from pathlib import Path

import click

from platoon.cli.harbor_fetch import fetch, lock, verify
from platoon.cli.harbor_images import images
from platoon.cli.harbor_plan import plan
from platoon.cli.options import FILE
from platoon.cli.screen import tell, tell_json
from platoon.cli.task_directory import check_task_directory


@click.group()
def harbor() -> None:
    """Hash and plan tasks, fetch and lock datasets."""


harbor.add_command(plan)
harbor.add_command(fetch)
harbor.add_command(lock)
harbor.add_command(verify)
harbor.add_command(images)


@harbor.command("hash")
@click.argument("directories", nargs=-1, required=True, type=FILE)
@click.option("--json", "as_json", is_flag=True, help="One JSON object a directory: directory, digest, rule, files.")
def hash_tasks(directories: tuple[Path, ...], as_json: bool) -> None:
    """Print the content hash of task directories."""
    from platoon.artifacts.digests import CONTENT_HASH_RULE
    from platoon.config.text import short_path
    from platoon.envs.harbor.content import HASH_ERRORS, excess_problem, fault_text, read_contents
    from platoon.errors import ConfigError, Problem

    for directory in directories:
        check_task_directory(directory, "platoon harbor hash")
        if (problem := excess_problem(directory, short_path(str(directory)))) is not None:
            raise ConfigError(problem)
        try:
            contents = read_contents(directory)
        except HASH_ERRORS as error:
            rule = f"has no content hash: {fault_text(error, directory)}"
            raise ConfigError(Problem(rule, file=short_path(str(directory)))) from None
        if as_json:
            files = {file.path: file.digest for file in contents.files}
            row = {"directory": str(directory), "digest": contents.digest, "rule": CONTENT_HASH_RULE, "files": files}
            tell_json(row)
        else:
            tell(f"{contents.digest}  {directory}" if len(directories) > 1 else contents.digest)
