"""Locks as files: what cannot be read is told, and every byte counts."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from platoon.envs.harbor.differences import first_difference
from platoon.envs.harbor.lock import HarborLock, LockRow
from platoon.errors import ConfigError

pytestmark = pytest.mark.unit


LOCK = HarborLock("d", "tree:x", {}, "me", "0" * 64, {}, (LockRow("é", "sha256:" + "0" * 64, "t"),))
ROW = LOCK.to_bytes().decode().splitlines()[-3]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda text: text[:-10], "is no lock"),
        (lambda text: text.replace('"version": 1', '"version": 2'), "version: must be 1, got 2"),
        (lambda text: text.replace("harbor-packager-v1", "other"), "hash_rule: must be harbor-packager-v1"),
        (lambda text: text.replace("platoon-compose-v1", "other"), "compose_rule: must be platoon-compose-v1, got other"),
        (lambda text: text.replace('"tasks": [', '"tasks": [1,'), "is no lock"),
        (lambda text: "[]", "is no lock: it holds no mapping"),
        (lambda text: "null", "is no lock: it holds no mapping"),
        (lambda text: text.replace('"tasks": [', '"tasks": 5, "x": ['), "is no lock: its tasks are no list of mappings"),
        (lambda text: text.replace('"inputs"', '"input"'), "is no lock: it has no inputs"),
        (lambda text: text.replace(ROW, f"{ROW},\n{ROW}"), "lists task é twice"),
        (lambda text: text.replace('"refused":null', '"refused":5'), "a value of task é is of another type"),
        (lambda text: text.replace('"flags":{}', '"flags":[]'), "a value of task é is of another type"),
        (lambda text: text.replace('"source": {}', '"source": []'), "a key of its head is of another type"),
        (lambda text: "[" * 10_000, "is no lock"),
    ],
)
def test_locks_that_cannot_be_read(change: Callable[[str], str], words: str) -> None:
    text = change(LOCK.to_bytes().decode())
    assert text != LOCK.to_bytes().decode()
    with pytest.raises(ConfigError, match="fetch the dataset again") as caught:
        HarborLock.from_bytes(text.encode(), "lock")
    assert words in str(caught.value)


@pytest.mark.parametrize(
    ("before", "after", "told"),
    [
        ('"path":"tasks/', '"path":"../../../../etc/', 'task é: path: locked "../../../../etc/0'),
        ('"source_path":"t"', '"source_path":"u"', 'task é: source_path: locked "u", now "t"'),
        ('"flags":{}', '"flags":{},"more":1', "task é: more: locked 1, now nothing"),
        ('"dataset": "d"', '"dataset": "e"', 'dataset: locked "e", now "d"'),
        ('"version": 1', '"version": 1,\n "more": 2', "more: locked 2, now nothing"),
        (ROW, f"{ROW},\n{ROW.replace('é', 'z')}", "task z: is no longer in the dataset"),
        (ROW, "", "task é: is new"),
        ('"plans": {}', '"plans": {"sha256:0": {}}', "plans.sha256:0: locked {}, now nothing"),
    ],
)
def test_every_byte_of_a_lock_counts(before: str, after: str, told: str) -> None:
    text = LOCK.to_bytes().decode()
    assert before in text
    assert str(first_difference(text.replace(before, after).encode(), LOCK)).startswith(told)


@pytest.mark.parametrize(
    "change",
    [
        lambda text: text.replace(ROW, f"{ROW},\n{ROW}"),
        lambda text: text.replace('"index":{}', '"index":{},"index":{}'),
        lambda text: text.replace(" ", ""),
        lambda text: f"{text}\n",
        lambda text: text.replace("\n", "\r\n"),
    ],
)
def test_the_same_values_in_another_form_differ(change: Callable[[str], str]) -> None:
    found = first_difference(change(LOCK.to_bytes().decode()).encode(), LOCK)
    assert found is not None
    assert found.key.startswith("line ")
    assert first_difference(LOCK.to_bytes(), LOCK) is None
