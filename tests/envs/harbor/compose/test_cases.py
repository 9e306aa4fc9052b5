"""The cases from users of neighbouring tools that compose files and Dockerfiles bring: where each is proved, or why not here."""

from __future__ import annotations

import pytest

from tests.envs.harbor.compose.corpus import cases, topics
from tests.images.dockerfile.test_corpus import CORPUS, read

pytestmark = pytest.mark.unit

BY_COMPOSE_CORPUS = ("U01", "U04", "U05", "U07", "U08", "U10", "U13", "U26")
BY_DOCKERFILE_CORPUS = ("U19", "U21", "U25")
# What a plan cannot show: a running stack, an engine or a user namespace decides.
BY_RUNNING = {
    "U16": "names in every service before its command runs: a driver's promise",
    "U17": "networks that outlive their stack: the docker provider's",
    "U24": "USER and the uid map: a sandbox's",
    "U27": "database images under one id: a pod's",
}


def test_u01_to_u27_are_all_accounted_for() -> None:
    in_compose = {name for topic in topics() for case in cases(topic) for name in case.header.get("cases", ())}
    in_dockerfiles = {name for path in CORPUS.glob("*/*.Dockerfile") for name in read(path)[0].get("cases", ())}
    assert in_compose == set(BY_COMPOSE_CORPUS)
    assert in_dockerfiles == set(BY_DOCKERFILE_CORPUS)
    known = {"U01", "U04", "U05", "U07", "U08", "U10", "U13", "U16", "U17", "U19", "U21", "U24", "U25", "U26", "U27"}
    assert {*BY_COMPOSE_CORPUS, *BY_DOCKERFILE_CORPUS, *BY_RUNNING} == known
