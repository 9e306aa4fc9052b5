"""Tables in the docs and indexes of folders say what the code says."""

from __future__ import annotations

import pkgutil
import re
import typing
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

import platoon
from platoon import exits
from platoon.cli.main import COMMANDS
from platoon.config.meanings import meanings
from platoon.pipeline.reference import MODELS
from platoon.train.config_defs.trainer_options import SftOptions

pytestmark = pytest.mark.unit

INDEXED = ("platoon", "native")


def test_exit_codes(checkout: Path) -> None:
    rows = re.findall(r"^\| (\d+) \| (.+) \|$", (checkout / "docs/reference/exits.md").read_text(), re.MULTILINE)
    assert {int(code): meaning for code, meaning in rows} == exits.MEANINGS


@pytest.mark.parametrize("folder", INDEXED)
def test_index_names_every_entry(checkout: Path, folder: str) -> None:
    """Each package, module or crate of a folder has one line in its README, and no line names what is not there."""
    text = (checkout / folder / "README.md").read_text()
    named = set(re.findall(r"^\| `([\w./-]+)` \|", text, re.MULTILINE))
    hidden = ("__init__.py", "__pycache__", "README.md", "_native.pyi", "target")
    present = {
        path.name
        for path in (checkout / folder).iterdir()
        if path.name not in hidden and not path.name.startswith("_native") and path.suffix in ("", ".py")
    }
    assert named == present


def test_tables_are_tables(checkout: Path) -> None:
    """No text was reflowed that holds a table: a row of dashes stands alone on its line, below a row of as many cells."""
    pages = [*(checkout / "docs").rglob("*.md"), *checkout.glob("*.md"), *(checkout / "recipes").rglob("*.md")]
    for page in pages:
        lines = page.read_text(encoding="utf-8").splitlines()
        for number, line in enumerate(lines):
            if re.search(r"\|\s*:?---", line):
                assert re.fullmatch(r"\|(\s*:?-+:?\s*\|)+", line), f"{page}:{number + 1}"
                assert len(re.findall(r"(?<!\\)\|", lines[number - 1])) == line.count("|"), f"{page}:{number}"


def test_the_index_of_the_docs_names_every_page(checkout: Path) -> None:
    linked = set(re.findall(r"\]\(([\w./-]+\.md)\)", (checkout / "docs/README.md").read_text()))
    pages = {str(path.relative_to(checkout / "docs")) for path in (checkout / "docs").glob("*/*.md")}
    assert linked == {page for page in pages if not page.startswith("adr/")}


def test_public_names(checkout: Path) -> None:
    """The public names of the package and the paths of its public modules are a snapshot: a change is seen in review."""
    lines = (checkout / "tests/public_names.txt").read_text().split()
    assert lines == sorted(set(lines))
    assert {f"platoon.{name}" for name in platoon.__all__} <= set(lines)
    for line in lines:
        assert pkgutil.resolve_name(line) is not None, line


def sections(model: type[BaseModel], prefix: str = "") -> Iterator[tuple[str, str | None]]:
    """Every key below a model, those of alternatives too, with its meaning."""
    texts = meanings(model)
    for name, field in model.model_fields.items():
        if not field.exclude:
            key = f"{prefix}{field.alias or name}"
            yield key, texts.get(name)
            for inner in models_in(field.annotation):
                yield from sections(inner, f"{key}.")


def models_in(annotation: Any) -> Iterator[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for argument in typing.get_args(annotation):
        yield from models_in(argument)


@pytest.mark.parametrize("model", [*(model for model, _, _ in MODELS.values()), SftOptions])
def test_every_configuration_key_has_a_meaning_in_one_sentence(model: type[BaseModel]) -> None:
    found = dict(sections(model))
    assert found
    for key, meaning in found.items():
        assert meaning, f"{key} says nothing of itself: give its field a docstring"
        assert not meaning.endswith("."), f"{key}: a cell of a table has no period at its end"
        assert "\n\n" not in meaning and len(meaning) <= 240, f"{key}: more than one sentence belongs into a guide"


def test_every_command_exists() -> None:
    from platoon.cli.main import platoon as group

    for name in COMMANDS:
        command = group.get_command(None, name)  # type: ignore[arg-type]  because the group reads no context
        assert command is not None
        assert command.name == name
        assert command.help, f"platoon {name} says nothing of itself"
