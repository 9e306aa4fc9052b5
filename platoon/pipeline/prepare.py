"""Runs the workflow's `prepare` target for a recipe, as a program of its own, and tells its steps one line each.

The workflow comes with the installation, so that any folder will do; results and logs go below the working directory. Rollout
workers and the trainer never import Snakemake: only this subprocess does.
"""

from __future__ import annotations

import argparse
import os
import re
import signal
import subprocess
import sys
from collections import deque
from collections.abc import Iterable, Sequence
from pathlib import Path

from platoon import exits
from platoon.config.load import load
from platoon.config.text import counted
from platoon.errors import ConfigError, NotPreparedError, PlatoonError, Problem
from platoon.host.console import Console
from platoon.host.processes import die_with_parent
from platoon.pipeline.job_lines import FAILED, TIMED
from platoon.pipeline.layout import DEFAULT_RESULTS
from platoon.pipeline.played import check_units
from platoon.pipeline.recipe import Recipe
from platoon.shipped import snakefile
from platoon.site import DEFAULTS, load_site, site_file

PROFILE = "local"
KEPT_LINES = 60
# The rules below `prepare`: each takes its site by resource.
RULES = ("resolve", "lock", "plan", "image_map")
# What the target itself says of its job, which makes nothing (rules/images.smk).
TARGET = "all inputs are there"
# How our own commands begin a line that a person should see whatever becomes of the step.
WARNING = "warning: "
# A dry run's lines are Snakemake's own.
_PLANNED = re.compile(r"^Job \d+: (?P<message>.+)$")
_STATUS = re.compile(r"(?:exit status|exit code|exit codes?:?) (?P<code>\d+)")


def prepare(
    path: Path, recipe: Recipe, *, site: Path | None, profile: str, dry_run: bool, extra: Sequence[str], console: Console
) -> int:
    """Makes the inputs of every unit; an exit code of `exits`.

    Raises ConfigError when a step refused its configuration, and with what runs and evaluations would refuse of their tasks.
    """
    tail: deque[str] = deque(maxlen=KEPT_LINES)
    warned = set[str]()
    steps = 0
    with _workflow(command(path, site=site, profile=profile, dry_run=dry_run, extra=extra)) as process:
        assert process.stdout is not None
        try:
            for line in process.stdout:
                text = line.rstrip("\n")
                tail.append(text)
                if (found := (_PLANNED if dry_run else TIMED).match(text)) and found["message"] != TARGET:
                    steps += 1
                    console.say(f"{'would ' if dry_run else ''}{found['message']}")
                elif text.startswith(WARNING) and text not in warned:
                    # Units that share a dataset are warned of the same.
                    warned.add(text)
                    console.say(text)
        except SystemExit:
            # TERM, which came to this process alone. The way out waits for the workflow.
            process.terminate()
            console.say("steps under way end first")
            raise
        code = process.wait()
    if code == 0:
        if dry_run and steps:
            console.say(f"not ready: {counted(steps, 'step')} to do")
            return exits.FAILED
        try:
            check_units(recipe, path.parent, _results(extra), load_site(_site_of_rules(site, profile)), console)
        except ConfigError:
            console.say(f"not ready: {path}")
            raise
        console.say(f"ready: {path}" if steps else f"ready: {path}, nothing to do")
        return exits.DONE
    report = "\n".join(_relevant(tail))
    console.say(f"not ready: {path}")
    if exits.CONFIG in {int(found["code"]) for line in tail for found in _STATUS.finditer(line)}:
        raise NotPreparedError(Problem(f"a step refused its configuration\n{report}"))
    raise PlatoonError(f"a step failed (code {code})\n{report}")


def command(recipe: Path, *, site: Path | None, profile: str, dry_run: bool, extra: Sequence[str]) -> list[str]:
    """The command line of the workflow: this interpreter, this installation's Snakefile and profiles."""
    settings, others = _split_config(extra)
    argv = [sys.executable, "-m", "snakemake", "--snakefile", str(snakefile()), "--profile", _profile(profile)]
    argv += ["--workflow-profile", str(_profiles() / "default"), "--config", *settings, f"recipe={recipe}"]
    if (named := _site(site, profile)) is not None:
        argv += ["--set-resources", *(f"{rule}:platoon_site={named}" for rule in RULES)]
    if dry_run:
        argv.append("--dry-run")
    return [*argv, *others, "--", "prepare"]


def _split_config(extra: Sequence[str]) -> tuple[list[str], list[str]]:
    """KEY=VALUE of the workflow's `--config`, and every other option. Snakemake takes the last `--config` alone."""
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    parser.add_argument("--config", "-C", nargs="*", action="extend", default=[])
    found, others = parser.parse_known_args(list(extra))
    if given := [setting for setting in found.config if setting.startswith("recipe=")]:
        raise ConfigError(Problem(f"{given[0]}: the recipe is the command's argument", key="--config", advice="leave it out"))
    return found.config, others


def _results(extra: Sequence[str]) -> Path:
    """The workflow's folder of results."""
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    parser.add_argument("--directory", "-d", type=Path, default=Path())
    parser.add_argument("--configfile", "--configfiles", nargs="+", type=Path, action="extend", default=[])
    settings, others = _split_config(extra)
    found, _ = parser.parse_known_args(others)
    values = {key: value for file in found.configfile for key, value in load(file).values.items()}
    values |= dict(setting.partition("=")[::2] for setting in settings)
    return Path(found.directory, str(values.get("results", DEFAULT_RESULTS)))


def _site_of_rules(option: Path | None, profile: str) -> Path:
    """The site that the workflow's steps take."""
    named = _site(option, profile)
    return _site_of_profile(profile) if named is None else Path(named)


def _site_of_profile(profile: str) -> Path:
    return Path("profiles", profile, "site.yaml")


def _profile(name: str) -> str:
    """A path as it is; a name is looked up beside the workflow."""
    if os.sep in name or Path(name).is_dir():
        return name
    shipped = _profiles() / name
    if not shipped.is_dir():
        known = sorted(path.name for path in shipped.parent.iterdir() if path.is_dir())
        raise ConfigError(Problem(f"no profile is called {name}", key="--profile", advice=f"known here: {', '.join(known)}"))
    return str(shipped)


def _profiles() -> Path:
    return snakefile().parent.parent / "profiles"


def _site(option: Path | None, profile: str) -> str | None:
    """The site for the rules: the one that is in force here, else the profile's where its file is reached, else the defaults."""
    found = site_file(option)
    if found is not None:
        return str(found.absolute())
    return None if _site_of_profile(profile).is_file() and option is None else DEFAULTS


def _workflow(argv: Sequence[str]) -> subprocess.Popen[str]:
    return subprocess.Popen(
        argv,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        # A wheel in a folder of its own, or a checkout: the child imports the same package as this process.
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, (_package_root(), os.environ.get("PYTHONPATH"))))},
        preexec_fn=die_with_parent(signal.SIGTERM),  # noqa: PLW1509  because it makes two system calls looked up before the fork
    )


def _package_root() -> str:
    return str(Path(__file__).resolve().parents[2])


def _relevant(lines: Iterable[str]) -> list[str]:
    """What a person needs of Snakemake's last lines: the refusals of our own commands, else everything kept."""
    kept: list[str] = []
    telling = False
    for line in lines:
        telling = line.startswith("platoon: ") or (telling and not line.startswith(FAILED))
        if telling or line.startswith(FAILED):
            kept.append(line)
    return kept or list(lines)
