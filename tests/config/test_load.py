"""The configuration kit: layers, bounds, and reports that name file, key, value and rule."""

from __future__ import annotations

import os
import random
from pathlib import Path
from typing import Annotated, Any, Literal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import Field

from platoon import exits
from platoon.config.load import load, load_model
from platoon.config.model import ConfigModel, Options
from platoon.config.yaml import parse_yaml
from platoon.errors import ConfigError, Problem

pytestmark = pytest.mark.unit


class Optimizer(ConfigModel):
    learning_rate: float = 1e-3
    beta1: Annotated[float, Field(ge=0, lt=1)] = 0.9


class Entry(ConfigModel):
    name: str
    weight: float | Literal["tasks"] = "tasks"
    service_kwargs: Options = Field(default_factory=dict)


class Example(ConfigModel):
    batch_size: Annotated[int, Field(gt=0)] = 32
    optimizer: Optimizer = Optimizer()
    entries: tuple[Entry, ...] = ()
    label: str | None = None
    flag: bool = False
    limits: dict[str, Annotated[int, Field(gt=0)]] = Field(default_factory=dict)

    def checks(self) -> Any:
        if self.batch_size == 13:
            yield Problem("must not be 13 {really}", key="batch_size")
            yield Problem("must be another", key="optimizer.beta1")


def write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


def refusal(path: Path, *overrides: str) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        load_model(Example, path, overrides)
    assert caught.value.exit_code == exits.CONFIG
    return [str(problem) for problem in caught.value.problems]


def test_extends_merges_mappings_and_replaces_the_rest(tmp_path: Path) -> None:
    write(tmp_path / "base/a.yaml", "batch_size: 4\noptimizer: {learning_rate: 1, beta1: 0.5}\nentries: [{name: x}]\n")
    write(tmp_path / "base/b.yaml", "extends: a.yaml\nentries: [{name: y, service_kwargs: {p: 1, q: 2}}]\nlimits: {one: 1}\n")
    top = write(tmp_path / "top.yaml", "extends: [base/b.yaml]\noptimizer: {beta1: 0.25}\nlimits: {two: 2}\n")
    config = load_model(Example, top)
    assert config.batch_size == 4
    assert config.optimizer == Optimizer(learning_rate=1, beta1=0.25)
    assert [entry.name for entry in config.entries] == ["y"]
    assert config.limits == {"one": 1, "two": 2}


def test_free_form_mappings_are_replaced_whole(tmp_path: Path) -> None:
    write(tmp_path / "a.yaml", "service_kwargs: {p: 1, q: 2}\nother: {p: 1, q: 2}\n")
    top = write(tmp_path / "b.yaml", "extends: a.yaml\nservice_kwargs: {q: 3}\nother: {q: 3}\n")
    assert load(top).values == {"service_kwargs": {"q": 3}, "other": {"p": 1, "q": 3}}


def test_paths_are_relative_to_the_file_that_names_them(tmp_path: Path) -> None:
    write(tmp_path / "base/a.yaml", "entries: [{name: data}]\nlabel: here\n")
    top = write(tmp_path / "top.yaml", "extends: base/a.yaml\nlabel: there\n")
    loaded = load(top, ["flag=true"])
    assert loaded.directory_of("entries", "0", "name") == tmp_path / "base"
    third = write(tmp_path / "third.yaml", "extends: base/a.yaml\nentries: [{weight: 1}]\n")
    assert load(third).directory_of("entries", "0", "name") == tmp_path
    assert load(top, ["entries.0.name=x"]).directory_of("entries", "0", "name") == Path.cwd()
    assert load(top, ["entries.0.name=x"]).directory_of("entries", "0", "weight") == tmp_path / "base"
    assert loaded.directory_of("label") == tmp_path
    assert loaded.directory_of("flag") == Path.cwd()


def test_overrides(tmp_path: Path) -> None:
    top = write(tmp_path / "a.yaml", "entries: [{name: x}, {name: y}]\n")
    overrides = ["entries.1.name=z", "entries+={name: w}", "entries.2.weight=2", "optimizer.beta1=0.5", "label=7", "limits.a=3"]
    config = load_model(Example, top, overrides)
    assert [entry.name for entry in config.entries] == ["x", "z", "w"]
    assert config.entries[2].weight == 2
    assert config.optimizer.beta1 == 0.5
    assert config.label == "7"
    assert config.limits == {"a": 3}


@pytest.mark.parametrize(
    ("override", "words"),
    [
        ("batch_size", "an override is key=value"),
        ("=3", "an override is key=value"),
        ("a..b=3", "an override is key=value"),
        ("entries.5.name=x", "is no mapping or list"),
        ("entries.x=1", "the list has 1 item,"),
        ("batch_size.x=1", "batch_size is no mapping or list"),
        ("batch_size+=1", "+= adds to a list"),
        ("label=[1", "is not YAML 1.2"),
        ("label=.nan", "finite"),
        ("batch_size=true", "must be a whole number, got true"),
        ("batch_size=1.5", "must be a whole number, got 1.5"),
        ("entries.99999999999999999999.name=1", "is no mapping or list"),
    ],
)
def test_bad_overrides_are_named(tmp_path: Path, override: str, words: str) -> None:
    top = write(tmp_path / "a.yaml", "batch_size: 2\nentries: [{name: x}]\n")
    (text,) = refusal(top, override)
    assert text.startswith("command line")
    assert words in text


def test_every_problem_at_once_with_file_key_value_and_nearest(tmp_path: Path) -> None:
    base = write(tmp_path / "base.yaml", "optimizer: {beta1: 1.0, learning_rat: 3}\n")
    top = write(
        tmp_path / "top.yaml", "extends: base.yaml\nbatchsize: 3\nflag: 1\nbatch_size: '8'\nentries: [{weight: none}, {name: 1}]\n"
    )
    assert sorted(refusal(top)) == sorted(
        [
            f"{base}: optimizer.beta1: must be below 1, got 1.0",
            f"{base}: optimizer.learning_rat: unknown key (did you mean learning_rate?)",
            f"{top}: batchsize: unknown key (did you mean batch_size?)",
            f"{top}: flag: must be true or false, got 1",
            f'{top}: batch_size: must be a whole number, got "8"',
            f"{top}: entries.0.name: is required",
            f'{top}: entries.0.weight: must be a number or must be one of tasks, got "none"',
            f"{top}: entries.1.name: must be text, got 1",
        ]
    )


def test_checks_across_keys_come_together(tmp_path: Path) -> None:
    top = write(tmp_path / "a.yaml", "batch_size: 13\n")
    assert refusal(top) == [f"{top}: batch_size: must not be 13 {{really}}", f"{top}: optimizer.beta1: must be another"]


def test_a_hostile_key_is_shown_on_one_line(tmp_path: Path) -> None:
    top = write(tmp_path / "a.yaml", '"batch\\nsize\\e[31m": 1\n')
    (text,) = refusal(top)
    assert text.isprintable()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a: 1\nb: 2\na: 3\n", "config.yaml:3: the key 'a' is given twice"),
        ("[" * 100_000, "nested deeper"),
        ("a: " + "{a: " * 70 + "1" + "}" * 70, "nested deeper"),
        ("a: .inf", "finite"),
        ("a: !!timestamp 2026-01-01", "a date is no configuration value"),
        ("a: &a {b: 1}\nc:\n  <<: *a\n", "config.yaml:3: is not YAML 1.2: merge keys"),
        ("a: &a [*a]", "an alias refers to what holds it"),
        ("1: 2", "a key is a string"),
        ("a: !!python/object:os.system x", "could not determine a constructor"),
        ("a: 1\n---\nb: 1\n", "another document"),
        ("a: " + "9" * 5000, "is not YAML 1.2"),
        ("a: 99999999999999999999", "64 bits"),
        ("just text", "must hold a mapping of keys, holds a str"),
        ("", "holds nothing"),
        ("x: " + "y" * 1_100_000, "more than 1048576 bytes"),
    ],
)
def test_files_that_are_refused(tmp_path: Path, text: str, words: str) -> None:
    (problem,) = refusal(write(tmp_path / "config.yaml", text))
    assert words in problem


def test_a_bomb_of_aliases_is_refused(tmp_path: Path) -> None:
    lines = ["a: &a [x,x,x,x,x,x,x,x,x]"]
    lines += [f"{name}: &{name} [{','.join([f'*{last}'] * 9)}]" for last, name in zip("abcdefgh", "bcdefghi", strict=True)]
    (problem,) = refusal(write(tmp_path / "bomb.yaml", "\n".join(lines)))
    assert "once its aliases are expanded" in problem


def test_cycles_missing_files_and_bytes_that_are_no_text(tmp_path: Path) -> None:
    write(tmp_path / "a.yaml", "extends: b.yaml\n")
    write(tmp_path / "b.yaml", "extends: a.yaml\n")
    assert "extends itself" in refusal(tmp_path / "a.yaml")[0]
    assert "No such file" in refusal(tmp_path / "none.yaml")[0]
    assert "extends: must be one path" in refusal(write(tmp_path / "c.yaml", "extends: {a: 1}\n"))[0]
    (tmp_path / "d.yaml").write_bytes(b"label: \xff\n")
    assert "not UTF-8 (byte 7)" in refusal(tmp_path / "d.yaml")[0]
    os.mkfifo(tmp_path / "f.yaml")
    assert "is no regular file" in refusal(tmp_path / "f.yaml")[0]
    (tmp_path / "e").mkdir()
    assert "directory" in refusal(tmp_path / "e")[0]


def test_yaml_is_version_1_2() -> None:
    assert parse_yaml("a: yes\nb: off\nc: 1:30\nd: 1e-5\ne: 0o10\nf: True\n", "x") == {
        "a": "yes",
        "b": "off",
        "c": "1:30",
        "d": 1e-5,
        "e": 8,
        "f": True,
    }


@pytest.mark.parametrize("version", ["", "%YAML 1.1\n---\n"])
@pytest.mark.parametrize(
    ("text", "value"),
    [
        *(
            (text, text)
            for text in ("1_000", "1_0.5", "0b101", "0o8", "0x_f", "-0x1f", "1:30", "1:30.5", "2026-01-02", "=", "_1", "+")
        ),
        *((text, text) for text in ("yes", "Off", "nUll", "1e", ".", "0o", "\u0661")),
        *((text, int(text, 0)) for text in ("0o17", "0x1F", "-7", "+7")),
        *(("010", 10), ("00", 0), ("-010", -10)),
        *((text, float(text)) for text in ("1e3", "1E+3", "+1.", ".5", "-.5e-1", "010.5", "1.0e0")),
        *(("~", None), ("", None), ("Null", None), ("TRUE", True), ("False", False)),
        *(("!!int 12", 12), ("!!float 3", 3.0), ("!!str 3", "3")),
    ],
)
def test_plain_scalars_follow_the_core_schema(version: str, text: str, value: object) -> None:
    (found,) = parse_yaml(f"{version}- {text}\n", "x")
    assert (type(found), found) == (type(value), value)


@pytest.mark.parametrize("text", ["!!int 1_000", "!!int 0b1", "!!float 1_0.5", "!!float nan", "!!int ''", "+.inf", ".nan"])
def test_what_is_no_number_of_yaml_1_2_is_refused(text: str) -> None:
    with pytest.raises(ConfigError):
        parse_yaml(f"- {text}\n", "x")


def test_a_hundred_thousand_overrides_are_taken(tmp_path: Path) -> None:
    top = write(tmp_path / "a.yaml", "batch_size: 2\n")
    numbers = list(range(1, 100_001))
    random.Random(0).shuffle(numbers)
    config = load_model(Example, top, (f"limits.k{number}={number}" for number in numbers))
    assert len(config.limits) == 100_000


@pytest.mark.parametrize("text", ["%YAML 1.3\n---\na: b", 'a: "\\U00110000"', 'a: "\\UFFFFFFFF"', 'a: "\\ud800"'])
def test_versions_and_escapes_that_cannot_be_are_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="x: "):
        parse_yaml(text, "x")


def test_a_character_that_yaml_has_not_is_told_with_its_line() -> None:
    with pytest.raises(ConfigError, match=r"x:3: is not YAML 1.2: the character U\+0000 is none of YAML"):
        parse_yaml("a: b\n\nc: \0\n", "x")


@settings(max_examples=150, deadline=None)
@given(st.text(max_size=60))
def test_any_text_is_a_value_or_a_refusal(text: str) -> None:
    try:
        value = parse_yaml(text, "x")
    except ConfigError as error:
        assert error.problems[0].rule
    else:
        assert value is None or isinstance(value, dict | list | str | int | float)


def test_a_directory_is_told_as_that(tmp_path: Path) -> None:
    (tmp_path / "tasks/one").mkdir(parents=True)
    (tmp_path / "c.yaml").write_text("extends: tasks\n")
    rule = "is a directory, and a configuration is a file"
    for path, told in (
        (tmp_path, f"{tmp_path}: {rule}"),
        (tmp_path / "c.yaml", f"{tmp_path}/tasks: {rule} ({tmp_path}/c.yaml extends it)"),
    ):
        with pytest.raises(ConfigError) as caught:
            load(path)
        assert str(caught.value) == told
    (tmp_path / "tasks/one/task.toml").write_text("")
    with pytest.raises(ConfigError, match="it holds tasks: name it in one, as the dataset of an environment"):
        load(tmp_path / "tasks")
