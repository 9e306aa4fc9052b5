"""The table of the subset, the planner and the page say the same."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from platoon.envs.harbor.compose import plan_task
from platoon.envs.harbor.compose.errors import ComposeRefused
from platoon.envs.harbor.compose.service import HANDLERS
from platoon.envs.harbor.compose.subset import SUBSET
from platoon.envs.harbor.task_toml import TaskToml
from platoon.pipeline.compose_page import GROUPS
from tests.envs.harbor.compose.corpus import cases, topics

pytestmark = pytest.mark.unit

# Every key of a service in the Compose specification of compose 2.40.
SPECIFIED = """
annotations attach blkio_config build cap_add cap_drop cgroup cgroup_parent command configs container_name cpu_count
cpu_percent cpu_period cpu_quota cpu_rt_period cpu_rt_runtime cpu_shares cpus cpuset credential_spec depends_on deploy
develop device_cgroup_rules devices dns dns_opt dns_search domainname entrypoint env_file environment expose extends
external_links extra_hosts gpus group_add healthcheck hostname image init ipc isolation label_file labels links
logging mac_address mem_limit mem_reservation mem_swappiness memswap_limit models network_mode networks
oom_kill_disable oom_score_adj pid pids_limit platform ports post_start pre_stop privileged profiles provider
pull_policy read_only restart runtime scale secrets security_opt shm_size stdin_open stop_grace_period stop_signal
storage_opt sysctls tmpfs tty ulimits use_api_socket user userns_mode uts volumes volumes_from working_dir
"""


def service_keys() -> dict[str, tuple[str, str]]:
    found = re.compile(r"services\.\*\.([a-z_]+)")
    return {key[1]: (rule.main, rule.sidecar) for rule in SUBSET.values() if (key := found.fullmatch(rule.key)) is not None}


def test_every_specified_key_has_a_verdict() -> None:
    assert set(SPECIFIED.split()) - set(service_keys()) == set()


def test_every_planned_key_has_a_handler_and_no_other_has() -> None:
    planned = {key for key, verdicts in service_keys().items() if {"run", "judged"} & set(verdicts)}
    assert planned == set(HANDLERS)


def test_every_refused_key_is_refused_by_a_case_or_shares_its_reason_with_one() -> None:
    """Row R004: what is refused, the page says; what the page says, a case shows."""
    refused = {key: SUBSET[f"services.*.{key}"].meaning for key, verdicts in service_keys().items() if "refused" in verdicts}
    texts = [case.refused or "" for topic in topics() for case in cases(topic)]
    for reason in set(refused.values()):
        assert any(
            reason in text or f".{key}: is not planned" in text for text in texts for key in refused if refused[key] == reason
        ), reason


def test_the_page_says_of_every_key_what_the_table_says(checkout: Path) -> None:
    """Row R004."""
    page = (checkout / "docs/reference/compose.md").read_text(encoding="utf-8")
    assert page.startswith("# Compose files\n")
    prefixes = dict(GROUPS)
    found: dict[str, tuple[str, ...]] = {}
    for section in page.split("\n### ")[1:]:
        heading, _, body = section.partition("\n")
        start = f"{prefixes[heading]}." if prefixes[heading] else ""
        for row in re.findall(r"^\| `([^`]+)` \| (\w+) \| (\w+) \| (.*) \|$", body, re.MULTILINE):
            found[start + row[0]] = row[1:]
    assert found == {rule.key: (rule.main, rule.sidecar, rule.meaning) for rule in SUBSET.values()}


PLACES = sorted({rule.key.rpartition(".")[0] for rule in SUBSET.values() if rule.main not in ("ignored", "refused")})


@pytest.mark.parametrize("place", PLACES)
def test_a_key_that_stands_in_no_table_is_refused(place: str, tmp_path: Path, make_task: Callable[..., Path]) -> None:
    """In every mapping of the file that the table speaks of."""
    uses = {"networks": ["own"], "volumes": ["own:/own"], "configs": ["own"], "secrets": ["own"]}
    tree: dict[str, Any] = {"services": {"main": {**uses}, "own": {"image": "x"}}, **{name: {"own": {}} for name in uses}}
    node: Any = tree
    for part in place.split(".") if place else ():
        node = below(node, part, "main" if node is tree["services"] else "own")
    node["zzz"] = 1
    directory = make_task("t", {"environment/docker-compose.yaml": json.dumps(tree), "environment/Dockerfile": "FROM x\n"})
    with pytest.raises(ComposeRefused) as caught:
        plan_task(TaskToml(), directory)
    assert any("zzz: unknown key" in problem for problem in caught.value.problems)


def below(node: dict[str, Any], part: str, name: str) -> Any:
    """The mapping that a part of a row's key leads to, made empty where there is none; `*` is the name."""
    key = name if part == "*" else part.removesuffix("[]")
    if part.endswith("[]"):
        node[key] = [{}]
        return node[key][0]
    if not isinstance(node.get(key), dict):
        node[key] = {}
    return node[key]
