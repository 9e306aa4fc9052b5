"""`platoon harbor images`: the images that the tasks of locks need."""

from __future__ import annotations

from pathlib import Path

import click

from platoon.cli.options import FILE, common, overrides_argument
from platoon.config.text import counted


@click.group()
def images() -> None:
    """Plan the images of tasks."""


@images.command()
@click.argument("path", metavar="CONFIG|LOCK", type=FILE)
@overrides_argument
@click.option("--json", "as_json", is_flag=True, help="One JSON object an image.")
@common
def plan(path: Path, overrides: tuple[str, ...], as_json: bool, site_path: Path | None, log_file: Path | None) -> None:
    """List the images that locked tasks need.

    Those of most tasks come first. Nothing is fetched or built: what CONFIG names has to be locked.
    """
    from platoon.cli.screen import print_table, say, screen, short_digest, tell_json
    from platoon.host.console import Console
    from platoon.pipeline.harbor_images import needed_images
    from platoon.site import load_site

    with Console(log_file=log_file):
        needed = needed_images(path, load_site(site_path), overrides)
    if as_json:
        for image in needed:
            tell_json(image.to_dict())
        return
    rows = []
    for image in needed:
        base = ", ".join(image.base) if not image.key.startswith("ref:") else ""
        more = f" and {image.tasks - 1} more" if image.tasks > 1 else ""
        rows.append((short_digest(image.key), image.role, image.kind, base, f"{image.example}{more}"))
    console = screen()
    print_table(console, "images", rows, ("key", "role", "kind", "base", "tasks"))
    built = sum(image.kind in ("shared", "per_task") for image in needed)
    served = sum(image.kind == "prebuilt" for image in needed)
    say(console, f"{counted(built, 'image')} to build, {served} of registries")
