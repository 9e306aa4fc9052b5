"""Locks as files: what cannot be read is told, and every byte counts."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from platoon.envs.harbor.differences import first_difference
from platoon.envs.harbor.lock import HEAD_KEYS, HarborLock
from platoon.errors import ConfigError
from tests.envs.harbor.fakes.locks import DIGEST, make_lock, make_row

pytestmark = pytest.mark.unit


REQUIRED = ("name", "digest", "path", "source_path", "index", "flags", "image", "refused")
LOCK = make_lock(make_row("é"))
TEXT = LOCK.to_bytes().decode()
ROW = TEXT.splitlines()[-3]
PREBUILT = '"image":{"kind":"prebuilt","ref":"debian:12"}'
BUILT = f'"image":{{"base":["debian:12"],"deferred":[["ENV","A","b"]],"key":"{DIGEST}","kind":"shared"}}'


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda text: text[:-10], "is no lock"),
        (lambda text: "", "is no lock"),
        (lambda text: "[]", "is no lock: it holds no mapping"),
        (lambda text: "null", "is no lock: it holds no mapping"),
        (lambda text: "[" * 10_000, "is no lock"),
        (lambda text: text.replace('"of":1', '"of":1,"of":1'), "is no lock: the key 'of' is given twice"),
        (lambda text: text.replace('"index":{}', '"index":{"a":NaN}'), "is no lock: NaN is no number of JSON"),
        (lambda text: text.replace('"index":{}', '"index":{"a":1e999}'), "is no lock: 1e999 is too large a number"),
        (lambda text: text.replace('"tasks": [', '"tasks": 5, "x": ['), "tasks: must be a list, got 5"),
        (
            lambda text: text.replace('"tasks": [', '"tasks": [1,').replace(
                '"of":1,"select":{},"selected":1', '"of":2,"select":{},"selected":2'
            ),
            "tasks.0: ",
        ),
        (
            lambda text: text.replace(ROW, f"{ROW},\n{ROW}").replace(
                '"of":1,"select":{},"selected":1', '"of":2,"select":{},"selected":2'
            ),
            "task é: name: two rows have it",
        ),
        (lambda text: text.replace('"kind":"none"', '"kind":"shared"'), "task é: image.key: is required (kind is shared)"),
        (
            lambda text: text.replace('"image":{"kind":"none"}', PREBUILT.replace("prebuilt", "none")),
            "image.ref: is of another kind",
        ),
        (
            lambda text: text.replace('"image":{"kind":"none"}', BUILT.replace('"debian:12"', "5")),
            "image.base.0: must be text, got 5",
        ),
        (
            lambda text: text.replace('"image":{"kind":"none"}', BUILT.replace('["ENV","A","b"]', "[]")),
            "image.deferred.0: must be a",
        ),
    ],
)
def test_locks_that_cannot_be_read(change: Callable[[str], str], words: str) -> None:
    refused(change(TEXT), words)


HEAD: dict[str, list[Any]] = {
    "version": [2, True, 1.0, "1", None],
    "dataset": [5, None],
    "resolved": [5],
    "source": [[], {}, {"kind": "bogus"}, {"kind": "directory", "more": 1}, {"kind": "registry", "repositories": [{"repo": "x"}]}],
    "fetched_with": [5],
    "hash_rule": ["other"],
    "build_key_rule": ["other"],
    "compose_rule": ["other", None],
    "overlay": ["x"],
    "inputs": ["x", 5],
    "selection.selected": [9, 0, True, 1.0],
    "selection.of": [0],
    "selection.tasks": [{"ids.txt": "x"}],
    "selection.more": [1],
    "modes": [None],
    "plans": [[], {DIGEST: {}}, {"x": {}}],
    "more": [1],
    "created_at": ["2026-01-01T00:00:00+01:00"],
}
ROWS: dict[str, list[Any]] = {
    "name": ["", "../k1", "/k", "a//b", "a\nb", 5],
    "digest": ["sha256:../../x", "x", None],
    "path": ["/etc/tasks/x", "tasks/../../../etc/x", f"tasks/{'1' * 64}"],
    "source_path": ["../k1", "/etc", "a/../../b", "", "a\0b"],
    "origin": [{}, {"repo": "r", "commit": 5}],
    "upstream_digest": ["x", 5],
    "index": [[]],
    "flags": [{}, []],
    "flags.stack": ["bogus", None],
    "flags.gpus": ["x", -1, True, 1.5],
    "flags.verifier": ["none"],
    "flags.network": ["on"],
    "flags.agent_user": [[]],
    "flags.unread_compose": ["compose.yml"],
    "flags.more": [1],
    "image": [{}, []],
    "image.kind": ["bogus", "prebuilt", "per_task"],
    "image.ref": ["debian:12"],
    "verifier_image": [{"kind": "prebuilt"}],
    "compose": [{}, {"plan": DIGEST, "unrewritable_references": []}],
    "overlays": ["x", [5]],
    "refused": ["nonsense", "nonsense: x", "stack: ", 5],
    "input_files": [{"a": "x"}, []],
    "more": [1],
}


@pytest.mark.parametrize(("key", "value"), [(key, value) for key, values in HEAD.items() for value in values])
def test_every_value_of_the_head_is_held_to_its_rule(key: str, value: Any) -> None:
    told = refused(json.dumps(_changed(json.loads(TEXT), key, value)))
    assert f"lock: {key.partition('.')[0]}" in told


@pytest.mark.parametrize(("key", "value"), [(key, value) for key, values in ROWS.items() for value in values])
def test_every_value_of_a_row_is_held_to_its_rule(key: str, value: Any) -> None:
    changed = json.loads(TEXT)
    _changed(changed["tasks"][0], key, value)
    name = changed["tasks"][0]["name"]
    place = "tasks.0." if not isinstance(name, str) else f"task {name}: ".replace("\n", "\\n")
    assert f"lock: {place}{key.partition('.')[0]}" in refused(json.dumps(changed))


@pytest.mark.parametrize(
    "keys", [(key,) for key in HEAD_KEYS] + [("plans",), ("tasks",), *((("tasks", 0, key)) for key in REQUIRED)]
)
def test_no_key_may_be_missing(keys: tuple[Any, ...]) -> None:
    changed = json.loads(TEXT)
    holder = changed
    for key in keys[:-1]:
        holder = holder[key]
    del holder[keys[-1]]
    assert keys[-1] in refused(json.dumps(changed))


def test_a_refused_task_may_lack_what_could_not_be_read() -> None:
    lock = make_lock(make_row(flags={}, refused="task_config: task.toml: is not TOML"))
    assert HarborLock.from_bytes(lock.to_bytes(), "lock") == lock


def refused(text: str, words: str = "") -> str:
    assert text != TEXT
    with pytest.raises(ConfigError, match="fetch the dataset again") as caught:
        HarborLock.from_bytes(text.encode(), "lock")
    assert words in str(caught.value)
    return str(caught.value)


def _changed(value: dict[str, Any], key: str, new: Any) -> dict[str, Any]:
    *above, last = key.split(".")
    holder = value
    for part in above:
        holder = holder[part]
    holder[last] = new
    return value


@pytest.mark.parametrize(
    ("before", "after", "told"),
    [
        ('"path":"tasks/', '"path":"../../../../etc/', 'task é: path: locked "../../../../etc/0'),
        ('"source_path":"é"', '"source_path":"u"', 'task é: source_path: locked "u", now "é"'),
        ('"index":{}', '"index":{},"more":1', "task é: more: locked 1, now nothing"),
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
