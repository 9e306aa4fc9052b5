"""`platoon images`: what can be read off images."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import click

from platoon.cli.options import FILE
from platoon.cli.screen import tell_json, warn
from platoon.config.text import counted

if TYPE_CHECKING:
    from platoon.errors import Problem


ADVICE_DAMAGED = "damaged, or not all of it: save or copy it again"
ADVICE_UNSUPPORTED = "layers are plain tars or in gzip or zstd, saved images plain tars, file systems squashfs 4.0: convert it"


class Platform(click.ParamType):  # type: ignore[type-arg]  # older stubs of click know no parameter
    """`os/architecture[/variant]`."""

    name = "platform"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> str:
        if not re.fullmatch(r"[\w.-]+(/[\w.-]+){1,2}", str(value), re.ASCII):
            self.fail(f"{value!r} is no platform such as linux/amd64 or linux/arm/v7", param, ctx)
        return str(value)


@click.group()
def images() -> None:
    """Read what images hold."""


@images.command()
@click.argument("files", nargs=-1, required=True, type=FILE, metavar="FILE...")
@click.option("--out", type=FILE, help="Write the manifest to this file, whole or not at all, instead of standard output.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object: files, digest, owners, unrepresentable, rule, out.")
@click.option("--platform", type=Platform(), metavar="OS/ARCH", help="Which image of a saved one; this machine's without it.")
@click.option(
    "--image", "name", metavar="NAME", help="Which of a saved image's: a reference name, a tag, or the digest of a manifest."
)
def owners(files: tuple[Path, ...], out: Path | None, as_json: bool, platform: str | None, name: str | None) -> None:
    """Print which paths of an image are not root's.

    FILE is a squashfs, a SIF or OCI-SIF, a saved image (an OCI layout or what docker save makes, as a directory or a plain tar), or
    the tar of a layer: then name all layers, lowest first.
    """
    from platoon.artifacts.publish import publish_bytes
    from platoon.errors import ConfigError, Problem
    from platoon.images.owners import OWNERS_ERRORS, OWNERS_RULE, owners_of

    if out is not None and any(_is_same(out, file) for file in files):
        raise ConfigError(Problem("is one of the images that are read", file=str(out), advice="write the manifest to another file"))
    try:
        manifest = owners_of(files, platform=platform, name=name)
    except OWNERS_ERRORS as error:
        raise ConfigError(_problem(error)) from None
    if out is not None:
        publish_bytes(out, manifest.data)
    if manifest.unrepresentable:
        warn(f"platoon: {counted(manifest.unrepresentable, 'path')} left out: no line can hold their names")
    if as_json:
        row = {
            "files": [str(path) for path in files],
            "digest": manifest.digest,
            "owners": manifest.count,
            "unrepresentable": manifest.unrepresentable,
            "rule": OWNERS_RULE,
            "out": None if out is None else str(out),
        }
        tell_json(row)
    elif out is None:
        click.echo(manifest.data, nl=False)


def _is_same(one: Path, other: Path) -> bool:
    return one.exists() and other.exists() and one.samefile(other)


def _problem(error: Exception) -> Problem:
    from platoon.artifacts.digests import UnsupportedError
    from platoon.config.text import printable, short_path
    from platoon.errors import Problem

    if isinstance(error, OSError):
        return Problem(f"cannot be read: {error.strerror or error}", file=short_path(str(error.filename or "")))
    unsupported = isinstance(error, UnsupportedError)
    return Problem(printable(str(error)), advice=ADVICE_UNSUPPORTED if unsupported else ADVICE_DAMAGED)
