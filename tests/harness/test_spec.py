from __future__ import annotations

import json
import re

import pytest

from platoon.errors import ConfigError
from platoon.harness.errors import HarnessConfigError
from platoon.harness.options import OptionSpec, option_text, resolve_options
from platoon.harness.registry import BUILT_IN, FunctionHarness, get_harness, harness
from platoon.harness.rendering import RunValues, render_launch
from platoon.harness.spec import HarnessSpec, load_spec
from platoon.harness.templates import TemplateError, render

pytestmark = pytest.mark.unit

WHOLE = """
name = "mine"
version = "2.1"
dialect = "anthropic_messages"
timeout_s = 10
max_steps = 7
[install]
commands = ["pip install {not a template}"]
toolchain = "tools"
timeout_s = 5
[install.recipe]
python = "3.12.14"
lock = "lock.txt"
cache = ["tiktoken"]
generate = { "a" = "b.py" }
[launch]
argv = ["{toolchain}/bin/x", "${HOME}", "{ literal }", "{options.level}"]
env = { KEY = "{api_key}", ALL = "{options}" }
files = { "{workdir}/a.txt" = "{instruction}" }
assets = { "s.py" = "s.py" }
[builtins]
tools = ["a"]
[builtins.disable]
args = ["--no-tools"]
[mcp]
args = ["{mcp_config_path}"]
env = { M = "{mcp_url}", K = "{api_key}" }
config_template = "{mcp_url}"
[final_message]
file = "out.json"
json_key = "a.b"
[exit_codes]
0 = "completed"
4 = "error"
[resources]
memory_mb = 100
[budget]
enforce = "gateway"
[options.level]
type = "int"
default = 3
min = 1
max = 5
description = "How much"
"""


def spec_of(tmp_path, text: str) -> HarnessSpec:
    (tmp_path / "s.py").write_text("")
    path = tmp_path / "h.toml"
    path.write_text(text)
    return load_spec(path)


def test_every_key_of_a_spec(tmp_path):
    spec = spec_of(tmp_path, WHOLE)
    assert (spec.reference, spec.exit_codes, spec.budget.enforce, spec.options["level"].max) == (
        "mine@2.1",
        {0: "completed", 4: "error"},
        "gateway",
        5,
    )


SMALL = 'name = "m"\nversion = "1"\n[launch]\nargv = ["x"]\n'


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (SMALL.replace("argv", "argw"), "launch.argw"),
        (SMALL + "[extra]\n", "extra"),
        (SMALL.replace('"x"', '"{api_key}"'), "api_key"),
        (SMALL.replace('"x"', '"{mcp_url}"'), "mcp_url"),
        (SMALL.replace('"x"', '"{nonsense}"'), "nonsense"),
        (SMALL.replace('"x"', '"{options.a}"'), "options.a"),
        (SMALL.replace('"x"', '"{toolchain}"'), "toolchain"),
        (SMALL.replace('["x"]', "[]"), "launch.argv"),
        (SMALL + 'files = { "{options}" = "" }\n', "options"),
        (SMALL + 'assets = { "a" = "missing.py" }\n', "missing.py"),
        (SMALL + "[final_message]\n", "exactly one"),
        (SMALL + '[final_message]\nstdout_regex = "("\n', "stdout_regex"),
        (SMALL + '[exit_codes]\nzero = "completed"\n', "exit_codes"),
        (SMALL + '[exit_codes]\n1 = "fine"\n', "exit_codes"),
        (SMALL + '[options.a]\ntype = "int"\ndefault = true\n', "options.a"),
        (SMALL + '[options.a]\ntype = "int"\ndefault = 1\nmaximum = 2\n', "maximum"),
        (SMALL + '[install.recipe]\npython = "3"\nlock = "l"\n', "toolchain"),
        ("timeout_s = true\n" + SMALL, "timeout_s: must be a number, got true"),
        ("install = 3\n" + SMALL, "install: must be a mapping, got 3"),
        ("max_steps = 1.5\n" + SMALL, "max_steps"),
        ('directory = "/"\n' + SMALL, "directory"),
        (SMALL.replace('"m"', '"M m"'), "name"),
        ("name = [", "not a readable"),
    ],
)
def test_faults_name_file_and_key(tmp_path, text, told):
    with pytest.raises(ConfigError, match=told) as caught:
        spec_of(tmp_path, text)
    assert "h.toml" in str(caught.value)


def test_all_faults_are_told_at_once(tmp_path):
    with pytest.raises(ConfigError) as caught:
        spec_of(tmp_path, SMALL + "[one]\n[two]\n")
    assert len(caught.value.problems) == 2


def test_substitution_is_one_pass():
    assert render("{a}{b}${a}{ a }", {"a": "{b}", "b": "B"}) == "{b}B${a}{ a }"
    with pytest.raises(TemplateError):
        render("{a}", {"a": None})


@pytest.mark.parametrize(
    ("kind", "value", "told"),
    [
        ("int", True, "int"),
        ("int", 1.0, "int"),
        ("bool", 1, "bool"),
        ("str", 1, "str"),
        ("float", float("inf"), "finite"),
        ("int", 9, "at most"),
    ],
)
def test_options_are_typed(kind, value, told):
    defaults = {"int": 1, "bool": True, "str": "", "float": 1.0}
    declared = {"a": OptionSpec(type=kind, default=defaults[kind], max=5 if kind == "int" else None)}
    with pytest.raises(ValueError, match=rf"harness_options\.a: .*{told}"):
        resolve_options(declared, {"a": value})


def test_options_resolve_and_render():
    declared = {"a": OptionSpec(type="float", default=1.5), "b": OptionSpec(type="bool", default=False)}
    assert resolve_options(declared, {"a": 2}) == {"a": 2.0, "b": False}
    with pytest.raises(ValueError, match="known here: a, b"):
        resolve_options(declared, {"aa": 2})
    assert [option_text(value) for value in (True, 2.0, 0.25, 7, "x")] == ["true", "2", "0.25", "7", "x"]


def values(**changes) -> RunValues:
    base = {
        "instruction": "do",
        "base_url": "http://h",
        "model": "policy",
        "workdir": "/app",
        "state_dir": "/tmp/s",
        "api_key": "K",
    }
    return RunValues(**{**base, **changes})


def test_a_launch_is_rendered(monkeypatch):
    monkeypatch.setenv("NO_PROXY", "corp")
    plan = render_launch(get_harness("platoon-bash"), values(max_steps=4), {"command_timeout_s": 7})
    assert plan.argv[-4:] == ("policy", "4", "7", "30000")
    assert plan.env["PLATOON_API_KEY"] == "K" and plan.env["NO_PROXY"] == "corp,127.0.0.1,localhost,::1"
    assert plan.files["/tmp/s/instruction.txt"] == "do" and plan.final_file == "/tmp/s/final.txt"
    assert "K" not in "".join(plan.argv) and "'K'" not in repr(plan)


@pytest.mark.parametrize(("steps", "options"), [(None, {}), (4, {"colour": 1}), (4, {"command_timeout_s": 0})])
def test_what_does_not_render_is_a_configuration_fault(steps, options):
    with pytest.raises(HarnessConfigError):
        render_launch(get_harness("platoon-bash"), values(max_steps=steps), options)


def test_what_is_not_served_is_refused(tmp_path):
    with pytest.raises(HarnessConfigError, match="MCP"):
        render_launch(spec_of(tmp_path, WHOLE), values(), {})


def test_built_ins_resolve():
    for reference in BUILT_IN:
        found = get_harness(reference)
        assert found.reference == reference
        assert isinstance(found, FunctionHarness | HarnessSpec)
    assert get_harness("platoon-oracle").reference == "platoon-oracle@1"


@pytest.mark.parametrize("reference", ["platoon-basch", "platoon-bash@2", "no.such:thing", "json:dumps", "missing.toml"])
def test_references_that_name_nothing(reference):
    with pytest.raises(ConfigError):
        get_harness(reference)


def test_the_package_is_the_decorator():
    import platoon as pt

    @pt.harness("my-loop", version="2")
    async def loop(ctx):
        return None

    assert get_harness.__module__ == "platoon.harness.registry"
    assert loop.__platoon_harness__.reference == "my-loop@2"
    for name in ("platoon-mine", "openhands", "Bad Name"):
        with pytest.raises(ValueError, match="name"):
            harness(name)(loop)


def test_what_a_spec_says_is_the_same_wherever_it_lies_and_however_it_is_laid_out(tmp_path):
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    told = spec_of(tmp_path, WHOLE).content()
    other = WHOLE.replace("timeout_s = 10\n", "# a comment\ntimeout_s =   10.0\n").replace('description = "How much"\n', "")
    assert spec_of(elsewhere, other).content() == told
    assert spec_of(elsewhere, WHOLE.replace("max = 5\n", "max = 5\nallowed = [1, 2, 3]\n")).content() != told
    assert json.loads(json.dumps(told, allow_nan=False)) == told


CHANGES = {
    "launch.argv": ('"{ literal }"', '"{ other }"'),
    "launch.env": ('KEY = "{api_key}"', 'KEY2 = "{api_key}"'),
    "launch.files": ("{instruction}", "{instruction}!"),
    "mcp.config_template": ('config_template = "{mcp_url}"', f'config_template = "{"x" * 500}{{mcp_url}}"'),
    "options.level": ("default = 3", "default = 4"),
    "exit_codes": ('4 = "error"', '5 = "error"'),
    "version": ('"2.1"', '"2.2"'),
    "timeout_s": ("timeout_s = 10", "timeout_s = 11"),
}


@pytest.mark.parametrize("change", CHANGES)
def test_whatever_a_spec_says_otherwise_is_seen(change, tmp_path):
    old, new = CHANGES[change]
    before, after = spec_of(tmp_path, WHOLE).content(), spec_of(tmp_path, WHOLE.replace(old, new)).content()
    assert before != after
    top = change.split(".")[0]
    assert {key for key in before if before[key] != after[key]} == {top}
    assert all(len(text) < 200 for text in re.findall(r'"([^"]*)"', json.dumps(after)))


def test_an_asset_counts_by_what_it_holds(tmp_path):
    spec = spec_of(tmp_path, WHOLE)
    before = spec.content()
    (tmp_path / "s.py").write_text("print()")
    assert spec.content()["launch"]["assets"] != before["launch"]["assets"]
    (tmp_path / "s.py").unlink()
    with pytest.raises(ConfigError, match=r"s\.py: launch\.assets: cannot be read"):
        spec.content()
