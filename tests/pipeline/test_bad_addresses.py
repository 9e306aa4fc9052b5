"""Addresses of services that are none, and the variables that stand for them: told with file and key, exit 78."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from platoon import exits
from platoon.errors import ConfigError
from platoon.sampling.model_spec import ModelSpec
from platoon.train.config_defs.values import address_problem
from platoon.train.services import base_url
from tests.pipeline.edits import edit, evaluation

pytestmark = pytest.mark.unit

MakeRecipe = Callable[..., Path]


def test_a_service_that_there_is_not(make_recipe: MakeRecipe, run: Callable[..., tuple[int, str]]) -> None:
    root = make_recipe()
    config = root / "configs/rl.yaml"
    edit(config, "service: harbor", "service: harbour")
    told = "environments.0.service: no environment service is called 'harbour'; there is: harbor (did you mean harbor?"
    for command in (("config", "validate", config), ("resolve", config, "--out", "x.json")):
        code, text = run(*command)
        assert (code, f"{config}: {told}" in text) == (exits.CONFIG, True), text
    edit(config, "service: harbour", "service: mine:Service")
    code, text = run("config", "validate", config)
    assert code == exits.DONE, text


@pytest.mark.parametrize(
    ("address", "told"),
    [("locl", "got 'locl' (did you mean local?)"), ("localhost:80", "got 'localhost:80'"), ("https://", "got 'https://'")],
)
def test_a_training_service_that_is_no_address(
    address: str, told: str, make_recipe: MakeRecipe, run: Callable[..., tuple[int, str]]
) -> None:
    root = make_recipe()
    rule = "tinker_base_url: must be `local` or an address that begins with http:// or https://, "
    config = evaluation(root, tinker_base_url=address)
    code, text = run("config", "validate", config)
    assert (code, f"{config}: {rule}{told}" in text.replace('"', "'")) == (exits.CONFIG, True), text
    edit(root / "configs/base.yaml", "tinker_base_url: local", f"tinker_base_url: {address}")
    code, text = run("resolve", root / "configs/rl.yaml", "--out", "x.json")
    assert (code, f"{rule}{told}" in text.replace('"', "'")) == (exits.CONFIG, True), text


ADDRESS_RULE = "must be `local` or an address that begins with http:// or https://, got"


# Of `tinker_base_url`, or of TINKER_BASE_URL where a configuration names none.
NO_ADDRESSES = {
    **dict.fromkeys(
        (
            "htp://:::",
            "  ",
            " local",
            "LOCAL",
            "http://[::1",
            "http://[::1]]",
            "http://",
            "http:///path",
            "http://host:",
            "http://host:x",
            "http://host:-1",
            "http://host:\uff18\uff10",
            "http://h\u00f6st",
            "http://\uff11\uff12\uff17.0.0.1",
            "http://ho st",
            " http://host",
            "http://host ",
            "http://host\n",
            "http://host\x00",
            "http://host\\x",
            "http://host/\u00e9",
            "http://host?x=1",
            "http://host#x",
            "http://.",
            "http://-",
            "http://a..b",
            "http://999.1.1.1",
            "http://" + "a" * 300,
        ),
        ADDRESS_RULE,
    ),
    "http://host:99999": "its port must be 1 to 65535, got 99999",
    "http://host:0": "its port must be 1 to 65535, got 0",
    "http://user:secret@host": "must hold no user and no password",
    "http://secret@host:80/x": "must hold no user and no password",
}


ADDRESSES = (
    "local",
    "http://host",
    "https://a_b.example.com:8000/api/v1",
    "http://127.0.0.1:1",
    "http://[::1]:65535",
    "https://xn--hst-sna.de",
)


@pytest.mark.parametrize(
    "address",
    [
        "",
        "htp://:::",
        "  ",
        "http://[::1",
        "http://",
        "http://host:99999",
        "http://user:secret@host",
        "http://h\u00f6st",
        "http://host\n",
    ],
)
def test_an_address_that_is_none_is_told_with_file_and_key(
    address: str, make_recipe: MakeRecipe, run: Callable[..., tuple[int, str]]
) -> None:
    config = evaluation(make_recipe(), tinker_base_url=address)
    code, text = run("config", "validate", config)
    rule = NO_ADDRESSES.get(address, ADDRESS_RULE)
    assert (code, f"{config}: tinker_base_url: {rule}" in text) == (exits.CONFIG, True), text
    assert "secret" not in text


@pytest.mark.parametrize("address", NO_ADDRESSES)
def test_texts_that_are_no_address_of_a_service(address: str) -> None:
    problem = address_problem(address)
    assert problem is not None and problem.rule.startswith(NO_ADDRESSES[address])


@pytest.mark.parametrize("address", ["http://host:99999", "http://user:secret@host"])
def test_a_variable_that_holds_no_address_is_named(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TINKER_BASE_URL", address)
    with pytest.raises(ConfigError, match=r"^TINKER_BASE_URL: ") as refused:
        base_url(ModelSpec("m", "r"))
    assert NO_ADDRESSES[address] in str(refused.value) and "secret" not in str(refused.value)


def test_a_timeout_of_the_environment_that_is_none_stands_in_the_report(
    make_recipe: MakeRecipe, run: Callable[..., tuple[int, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TINKER_SAMPLE_TIMEOUT_SECONDS", "soon")
    code, text = run("config", "validate", make_recipe() / "configs/rl.yaml")
    assert (code, 'TINKER_SAMPLE_TIMEOUT_SECONDS: must be a number of seconds above 0, got "soon"' in text) == (
        exits.CONFIG,
        True,
    ), text


@pytest.mark.parametrize("address", ADDRESSES)
def test_texts_that_are_addresses_of_a_service(address: str) -> None:
    assert address_problem(address) is None
