"""Help as a person reads it at 80 columns."""

from __future__ import annotations

from collections.abc import Iterator

import click
import pytest
from click.testing import CliRunner

from platoon.cli.main import COMMANDS, platoon
from platoon.config.text import counted, few

pytestmark = pytest.mark.unit


def groups(group: click.Group, *path: str) -> Iterator[tuple[tuple[str, ...], click.Group]]:
    yield path, group
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        if isinstance(command, click.Group):
            yield from groups(command, *path, name)


def test_no_command_is_cut_short_in_a_listing() -> None:
    found = dict(groups(platoon))
    assert ("harbor",) in found
    for path in found:
        result = CliRunner().invoke(platoon, [*path, "--help"], terminal_width=80)
        assert result.exit_code == 0
        listing = result.output.partition("Commands:")[2].splitlines()
        assert listing and not [line for line in listing if line.endswith("...")], (path, listing)


def test_what_is_no_override_is_a_wrong_command_line() -> None:
    """In every command that takes overrides."""
    found = []
    for path, group in groups(platoon):
        for name, command in (
            group.commands.items() if path else ((name, group.get_command(click.Context(group), name)) for name in COMMANDS)
        ):
            for parameter in command.params if command is not None else ():
                if "KEY=VALUE]" in (parameter.metavar or ""):
                    found.append(" ".join((*path, name)))
                    for text in ("x", "=1", "a..b=1", ""):
                        with pytest.raises(click.BadParameter, match="an override is key=value"):
                            parameter.type_cast_value(click.Context(click.Command(name)), [text])
                    assert parameter.type_cast_value(click.Context(click.Command(name)), ["a=", "b.0+=[1"]) == ("a=", "b.0+=[1")
    assert len(found) == len({*found}) == 9, found


def test_train_says_where_a_run_goes() -> None:
    text = " ".join(CliRunner().invoke(platoon, ["train", "--help"]).output.split())
    assert "EXPERIMENT/TRIAL below log_path" in text and 'TRIAL is stats.trial_name, or "run"' in text


def test_counts_and_names() -> None:
    assert [counted(number, "run") for number in (0, 1, 2)] == ["0 runs", "1 run", "2 runs"]
    assert counted(2, "box", "boxes") == "2 boxes"
    assert few(["a", "\x1b"]) == r"a, \x1b"
    assert few([str(number) for number in range(8)]) == "0, 1, 2, 3, 4, 5 and 2 more"
