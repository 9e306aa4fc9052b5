"""The commands that make the inputs of a run, one a rule of the workflow: resolve, lock, plan, image-map."""

from __future__ import annotations

from pathlib import Path

import click

from platoon.cli.options import FILE, common, out, overrides_argument
from platoon.config.text import counted


@click.command()
@click.argument("config", type=FILE)
@overrides_argument
@out("The resolved configuration to write.")
@common
def resolve(config: Path, overrides: tuple[str, ...], out: Path, site_path: Path | None, log_file: Path | None) -> None:
    """Write CONFIG in canonical form: the keys that were given, paths relative to its folder, nothing of this machine."""
    from platoon.host.console import Console
    from platoon.pipeline.resolve import resolve as resolve_config
    from platoon.pipeline.resolve import write_resolved
    from platoon.site import load_site

    with Console(log_file=log_file) as console:
        console.progress("resolve", str(config))
        write_resolved(out, resolve_config(config, load_site(site_path), overrides))


@click.command()
@click.argument("config", type=FILE)
@click.option("--base", required=True, type=FILE, help="Folder of the configuration CONFIG was resolved from.")
@out("The lock of datasets to write.")
@common
def lock(config: Path, base: Path, out: Path, site_path: Path | None, log_file: Path | None) -> None:
    """Lock the data of a resolved CONFIG: contents go into the site's cache, their digests into the lock."""
    from platoon.artifacts.publish import publish_json
    from platoon.host.console import Console
    from platoon.pipeline.lock import lock_datasets
    from platoon.pipeline.resolve import read_resolved
    from platoon.site import load_site

    with Console(log_file=log_file) as console:
        datasets = lock_datasets(read_resolved(config), base, load_site(site_path), console)
        publish_json(out, datasets)
        for entry in datasets["harbor"]:
            runnable = entry.get("runnable", entry["tasks"])
            console.say(f"locked {entry['environment']}: {counted(entry['tasks'], 'task')}, {runnable} runnable")
        for entry in datasets["chat"]:
            console.say(f"locked {entry['path']}: {counted(entry['size_bytes'], 'byte')}")


@click.command()
@click.argument("config", type=FILE)
@click.option("--datasets", required=True, type=FILE, help="The lock of CONFIG's datasets.")
@out("The plan to write.")
@common
def plan(config: Path, datasets: Path, out: Path, site_path: Path | None, log_file: Path | None) -> None:
    """Name every image that the tasks of a resolved CONFIG need."""
    from platoon.artifacts.publish import publish_json
    from platoon.host.console import Console
    from platoon.pipeline.lock import read_datasets
    from platoon.pipeline.plan import make_plan
    from platoon.pipeline.resolve import read_resolved
    from platoon.site import load_site

    with Console(log_file=log_file) as console:
        console.progress("plan", str(config))
        publish_json(out, make_plan(read_resolved(config), read_datasets(datasets), load_site(site_path)))


@click.command("image-map")
@click.argument("plan_file", metavar="PLAN", type=FILE)
@out("The image map to write.")
@common
def image_map(plan_file: Path, out: Path, site_path: Path | None, log_file: Path | None) -> None:
    """Write where each image of PLAN is."""
    from platoon.artifacts.canonical import read_json
    from platoon.artifacts.publish import publish_json
    from platoon.host.console import Console
    from platoon.images.image_map import image_map as map_images

    with Console(log_file=log_file) as console:
        console.progress("image map", str(plan_file))
        publish_json(out, map_images(read_json(plan_file, "plan")))
