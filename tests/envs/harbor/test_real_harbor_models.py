"""`task.toml` is taken, refused and read as Harbor's own model does it.

Runs the Python of the `harbor` on PATH, which has to be the pin's, of a tool or of a virtual environment: by hand.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import tomllib
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from platoon.envs.harbor.sources.harbor_cli import PIN
from platoon.envs.harbor.task_toml import TaskToml
from tests.envs.harbor.task_toml_texts import REFUSED_BY_BOTH, REFUSED_HERE, TAKEN_BY_BOTH, TAKEN_HERE

pytestmark = [pytest.mark.harbor, pytest.mark.timeout(600)]

# A verdict a text: the values of what Harbor takes, None of what it refuses.
PROGRAM = """
import json, sys, warnings
from importlib.metadata import version
warnings.simplefilter("ignore")
from harbor.models.task.config import TaskConfig
def verdict(text):
    try:
        return TaskConfig.model_validate_toml(text).model_dump(mode="json")
    except Exception:
        return None
print(json.dumps([version("harbor"), [verdict(text) for text in json.load(sys.stdin)]]))
"""


@pytest.fixture(scope="module")
def harbor() -> dict[str, dict[str, Any] | None]:
    """What Harbor makes of each text."""
    command = shutil.which("harbor")
    assert command is not None, "the Harbor CLI at its pin is on PATH"
    python = Path(command).read_text().splitlines()[0].removeprefix("#!")
    texts = [*TAKEN_BY_BOTH, *REFUSED_BY_BOTH, *REFUSED_HERE, *TAKEN_HERE]
    done = subprocess.run([python, "-c", PROGRAM], input=json.dumps(texts), capture_output=True, text=True, check=True)
    version, verdicts = json.loads(done.stdout)
    assert f"harbor=={version}" == PIN
    return dict(zip(texts, verdicts, strict=True))


def ours(text: str) -> dict[str, Any] | None:
    try:
        toml = TaskToml.model_validate(tomllib.loads(text))
    except (ValidationError, ValueError):
        return None
    value = toml.model_dump(mode="json")
    for table, plain in ((toml.environment, value["environment"]), (toml.verifier.environment, value["verifier"]["environment"])):
        if table is not None:
            plain["network_mode"] = table.network
            plain["os"] = table.os.lower()
    return value


def said(value: Any, known: Any) -> Any:
    """A value without what says nothing and without keys that the other side has not."""
    if isinstance(value, dict):
        plain = {"source": known} if isinstance(known, str) else known
        shared = {key: said(item, plain[key]) for key, item in value.items() if isinstance(plain, dict) and key in plain}
        return {key: item for key, item in shared.items() if item not in (None, "", [], {}) and (key, item) != ("service", "main")}
    if isinstance(value, list):
        return [said(item, other) for item, other in zip(value, known or [], strict=True)]
    return {"source": value} if isinstance(known, dict) else value


def test_both_take_and_refuse_the_same_texts(harbor: dict[str, dict[str, Any] | None]) -> None:
    assert {text for text, value in harbor.items() if value is not None} ^ {*TAKEN_BY_BOTH, *REFUSED_HERE} == set()
    assert {text for text in harbor if ours(text) is not None} ^ {*TAKEN_BY_BOTH, *TAKEN_HERE} == set()


def test_both_read_the_same_values(harbor: dict[str, dict[str, Any] | None]) -> None:
    for text in TAKEN_BY_BOTH:
        assert said(ours(text), harbor[text]) == said(harbor[text], ours(text)), text
