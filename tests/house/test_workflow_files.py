"""Rules and profiles hold together: what one names, the other has."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import yaml

from tests.setup.groups import GROUPS

pytestmark = pytest.mark.unit

RULE = re.compile(r"^(?:rule|checkpoint) (\w+):", re.MULTILINE)
KNOWN_RESOURCES = {"mem_mb", "runtime", "platoon_site", "slurm_account", "slurm_partition", "gpu", "gres", "disk_mb", "slurm_extra"}
# Rules run in the environment that started Snakemake, which `make setup` locks: none has an environment of its own.
ALLOWED_REMARK = "Specify a conda environment or container for each rule."


def rule_files(checkout: Path) -> list[Path]:
    return [checkout / "workflow" / "Snakefile", *sorted((checkout / "rules").glob("*.smk"))]


def rule_names(checkout: Path) -> set[str]:
    return {name for file in rule_files(checkout) for name in RULE.findall(file.read_text())}


def profiles(checkout: Path) -> list[Path]:
    return sorted((checkout / "profiles").rglob("profile.yaml"))


def test_rules_never_retry(checkout: Path) -> None:
    """A rule's own `retries:` is applied twice under Slurm: by the submitting process and again inside the allocation."""
    assert [file.name for file in rule_files(checkout) if re.search(r"^\s*retries:", file.read_text(), re.MULTILINE)] == []


def test_rules_never_redirect(checkout: Path) -> None:
    """Commands draw progress on the terminal and write plain lines to --log-file themselves."""
    for file in rule_files(checkout):
        assert "2>" not in file.read_text(), file


def test_profiles_name_existing_rules_and_resources(checkout: Path) -> None:
    names, shared = rule_names(checkout), yaml.safe_load((checkout / "profiles/default/profile.yaml").read_text())
    assert len(profiles(checkout)) >= 4
    for file in profiles(checkout):
        values = yaml.safe_load(file.read_text())
        for table in ("set-resources", "set-threads"):
            assert set(values.get(table, {})) <= names, f"{file}: {table} names a rule that does not exist"
        resources = [values.get("default-resources", {}), *values.get("set-resources", {}).values()]
        for table in resources:
            assert set(table) <= KNOWN_RESOURCES, f"{file}: unknown resource"
        if file.parent.name != "default":
            assert not set(values) & set(shared), f"{file}: sets a key that profiles/default would erase"


def test_every_profile_names_its_settings(checkout: Path) -> None:
    for file in profiles(checkout):
        if file.parent.name != "default":
            site = yaml.safe_load(file.read_text())["default-resources"]["platoon_site"]
            assert (checkout / site).is_file(), f"{file}: platoon_site names {site}, which is not there"


def test_every_group_of_tests_is_a_marker_that_contributors_are_told_of(checkout: Path) -> None:
    markers = tomllib.loads((checkout / "pyproject.toml").read_text())["tool"]["pytest"]["ini_options"]["markers"]
    groups = {group.name for group in GROUPS}
    assert {marker.partition(":")[0] for marker in markers} == groups
    [told] = re.findall(r"by its marker: (.*?)\. ", (checkout / "CONTRIBUTING.md").read_text())
    assert set(re.findall(r"`(\w+)`", told)) == groups


def test_a_slurm_profile_names_its_status_command(checkout: Path) -> None:
    """Unnamed, the plugin takes sacct, and a cluster without accounting is waited for without end (U64)."""
    assert yaml.safe_load((checkout / "profiles/slurm/profile.yaml").read_text())["slurm-status-command"] == "squeue"


def test_snakemake_lint(checkout: Path) -> None:
    command = [sys.executable, "-m", "snakemake", "--lint"]
    run = subprocess.run(command, cwd=checkout, capture_output=True, text=True, check=False)
    rules, remarks = (
        re.findall(r"^Lints for rule (\w+) ", run.stderr, re.MULTILINE),
        re.findall(r"^ +\* (.+):$", run.stderr, re.MULTILINE),
    )
    assert len(rules) > 5, run.stdout + run.stderr
    assert len(remarks) >= len(rules)
    assert [remark for remark in remarks if not remark.startswith(ALLOWED_REMARK)] == [], run.stderr
    assert "Lints for snakefile" not in run.stderr, run.stderr
