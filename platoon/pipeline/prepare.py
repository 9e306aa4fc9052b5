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
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from platoon import exits
from platoon.config.text import counted
from platoon.errors import ConfigError, NotPreparedError, PlatoonError, Problem
from platoon.host.console import Console, near
from platoon.host.processes import die_with_parent
from platoon.pipeline.job_lines import FAILED, TIMED
from platoon.pipeline.outcome import ASKED, Outcome, outcome_of
from platoon.pipeline.played import check_units, unfetched
from platoon.pipeline.recipe import Recipe
from platoon.shipped import snakefile
from platoon.site import DEFAULTS, Site, load_site, site_file

PROFILE = "local"
KEPT_LINES = 60
# The rules below `prepare`: each takes its site by resource.
RULES = ("resolve", "lock", "plan", "image_map")
# What the target itself says of its job, which makes nothing (rules/images.smk).
TARGET = "all inputs are there"
# How our own commands begin a line that a person should see whatever becomes of the step.
WARNING = "warning: "
# A dry run's lines and those of jobs on other machines are Snakemake's own.
_UNTIMED = re.compile(r"^Job \d+: (?P<message>.+)$")
_STATUS = re.compile(r"(?:exit status|exit code|exit codes?:?) (?P<code>\d+)")


@dataclass
class _Heard:
    """What the workflow wrote and how it ended. steps: how many it began, or would."""

    lines: list[str] = field(default_factory=list)
    steps: int = 0
    outcome: Outcome | None = None
    code: int = 0


def prepare(
    path: Path, recipe: Recipe, *, site: Path | None, profile: str, dry_run: bool, extra: Sequence[str], console: Console
) -> int:
    """Makes the inputs of every unit; an exit code of `exits`.

    Raises ConfigError when a step refused its configuration, and with what runs and evaluations would refuse of their tasks.
    """
    heard = _hear(command(path, site=site, profile=profile, dry_run=dry_run, extra=extra), dry_run, console)
    if heard.code != 0:
        console.say(f"not ready: {path}")
        raise _failure(heard)
    outcome = heard.outcome
    if outcome is None or not outcome.executed:
        # Options that make nothing (--list, --unlock): what they tell is all.
        for line in heard.lines:
            console.say(line)
        return exits.DONE
    results, site_here = Path(outcome.results), load_site(_site_of_rules(site, profile))
    try:
        if outcome.dry_run and (steps := heard.steps or _would_fetch(recipe, results, site_here, console)):
            console.say(f"not ready: {counted(steps, 'step')} to do")
            return exits.FAILED
        check_units(recipe, path.parent, results, site_here, console)
    except ConfigError:
        console.say(f"not ready: {path}")
        raise
    console.say(f"ready: {path}" if heard.steps else f"ready: {path}, nothing to do")
    return exits.DONE


def _would_fetch(recipe: Recipe, results: Path, site: Site, console: Console) -> int:
    """Tells for how many configurations a check of the tasks would fetch first, which a dry run leaves alone."""
    configs = unfetched(recipe, results, site)
    for config in configs:
        console.say(f"would fetch again what the cache in {near(site.cache)} lacks of {config}")
    return len(configs)


def _hear(argv: Sequence[str], dry_run: bool, console: Console) -> _Heard:
    """Runs the workflow to its end and tells its steps and what its commands warn of, each warning once."""
    heard = _Heard()
    warned = set[str]()
    with _workflow(argv) as process:
        assert process.stdout is not None
        try:
            for line in process.stdout:
                text = line.rstrip("\n")
                if (outcome := outcome_of(text)) is not None:
                    heard.outcome = outcome
                    continue
                heard.lines.append(text)
                if (found := TIMED.match(text) or _UNTIMED.match(text)) and found["message"] != TARGET:
                    heard.steps += 1
                    console.say(f"{'would ' if dry_run else ''}{found['message']}")
                elif text.startswith(WARNING) and text not in warned:
                    # Units that share a dataset are warned of the same.
                    warned.add(text)
                    console.say(text)
            heard.code = process.wait()
        except (KeyboardInterrupt, SystemExit):
            # INT or TERM, which may have come to this process alone.
            process.terminate()
            console.say("steps under way end first")
            process.communicate()
            raise
    return heard


def _failure(heard: _Heard) -> PlatoonError:
    last = heard.lines[-KEPT_LINES:]
    report = "\n".join(_relevant(last))
    if exits.CONFIG in {int(found["code"]) for line in last for found in _STATUS.finditer(line)}:
        return NotPreparedError(Problem(f"a step refused its configuration\n{report}"))
    return PlatoonError(f"a step failed (code {heard.code})\n{report}")


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
        env={
            **os.environ,
            "PYTHONPATH": os.pathsep.join(filter(None, (_package_root(), os.environ.get("PYTHONPATH")))),
            ASKED: "1",
        },
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
