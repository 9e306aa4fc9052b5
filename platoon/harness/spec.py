"""Harness specs: a TOML file that says how an external agent is installed, launched and read.

Strict: an unknown key anywhere is an error, and so is a placeholder where its field does not allow it. All faults of a file are
told at once.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from platoon.artifacts.digests import DataError, sha256_bytes, sha256_file
from platoon.artifacts.reading import parse_toml, read_regular
from platoon.config.problems import from_validation_error
from platoon.errors import ConfigError, Problem
from platoon.harness.options import OptionSpec
from platoon.harness.templates import TemplateError, check_template, placeholders

Dialect = Literal["openai_chat", "openai_responses", "anthropic_messages"]
ExitMeaning = Literal["completed", "error"]
Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]
# Longer texts stand as digests where a spec is compared.
MOST_SHOWN = 160
# Where a spec lies, and what is for a reader alone; assets are told by what they hold.
NO_CONTENT: Any = {"directory": True, "launch": {"assets"}, "options": {"__all__": {"description"}}}
Whole = Annotated[int, Field(gt=0)]


class _Table(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class Recipe(_Table):
    python: str
    lock: str
    cache: list[Literal["tiktoken"]] = []
    generate: dict[str, str] = {}


class Install(_Table):
    commands: list[str] = []
    toolchain: str | None = None
    timeout_s: Positive = 1200.0
    recipe: Recipe | None = None

    @model_validator(mode="after")
    def _recipe_needs_toolchain(self) -> Install:
        if self.recipe is not None and self.toolchain is None:
            raise ValueError("[install.recipe] needs a toolchain")
        return self


class Launch(_Table):
    """files: path template -> content template. assets: path template -> file beside the spec.

    Relative paths lie in {state_dir}.
    """

    argv: Annotated[list[str], Field(min_length=1)]
    env: dict[str, str] = {}
    files: dict[str, str] = {}
    assets: dict[str, str] = {}


class Disable(_Table):
    args: list[str] = []
    env: dict[str, str] = {}


class Builtins(_Table):
    tools: list[str] = []
    disable: Disable | None = None


class Mcp(_Table):
    enabled: bool = True
    args: list[str] = []
    env: dict[str, str] = {}
    config_template: str | None = None
    config_file: str = "mcp.json"

    @model_validator(mode="after")
    def _path_needs_template(self) -> Mcp:
        texts = [*self.args, *self.env.values()]
        if self.config_template is None and any("mcp_config_path" in placeholders(text) for text in texts):
            raise ValueError("{mcp_config_path} needs a config_template")
        return self


class FinalMessage(_Table):
    """Exactly one of file and stdout_regex (last match, group 1 if it has one). json_key: dotted, into the file's JSON."""

    file: str | None = None
    stdout_regex: str | None = None
    json_key: str | None = None

    @model_validator(mode="after")
    def _one_source(self) -> FinalMessage:
        if (self.file is None) == (self.stdout_regex is None):
            raise ValueError("exactly one of file and stdout_regex must be set")
        if self.json_key is not None and self.file is None:
            raise ValueError("json_key needs file")
        if self.stdout_regex is not None:
            try:
                re.compile(self.stdout_regex)
            except re.error as error:
                raise ValueError(f"stdout_regex: {error}") from None
        return self


class Resources(_Table):
    memory_mb: Whole | None = None


class BudgetTable(_Table):
    enforce: Literal["harness", "gateway"] = "harness"


class HarnessSpec(_Table):
    """A spec as read. directory: where it lies, for its assets."""

    name: Annotated[str, Field(pattern=r"^[a-z0-9]+(?:[._-][a-z0-9]+)*$")]
    version: Annotated[str, Field(pattern=r"^[A-Za-z0-9]+(?:[._+-][A-Za-z0-9]+)*$")]
    dialect: Dialect = "openai_chat"
    timeout_s: Positive | None = None
    max_steps: Whole | None = None
    install: Install = Install()
    launch: Launch
    builtins: Builtins = Builtins()
    mcp: Mcp | None = None
    final_message: FinalMessage | None = None
    exit_codes: dict[int, ExitMeaning] = {}
    resources: Resources = Resources()
    budget: BudgetTable = BudgetTable()
    options: dict[str, OptionSpec] = {}
    directory: Path

    @property
    def reference(self) -> str:
        return f"{self.name}@{self.version}"

    def content(self) -> dict[str, Any]:
        """What the spec says, as JSON values without defaults: the same wherever it lies. Files and long texts stand as digests.

        Raises ConfigError for an asset that cannot be read.
        """
        assets = {place: _asset_digest(self.directory / name) for place, name in self.launch.assets.items()}
        told = self.model_dump(mode="json", exclude=NO_CONTENT, exclude_defaults=True)
        content: dict[str, Any] = _with_digests({**told, "launch": {**told["launch"], "assets": assets}})
        return content

    @field_validator("exit_codes", mode="before")
    @classmethod
    def _codes_are_numbers(cls, value: Any) -> Any:
        if not isinstance(value, dict):
            return value
        if any(not (str(key).isascii() and str(key).isdigit()) for key in value):
            raise ValueError("exit codes are whole numbers")
        return {int(key): item for key, item in value.items()}

    @model_validator(mode="after")
    def _check(self) -> HarnessSpec:
        for field, text in self._templates():
            try:
                check_template(field, text, self.options)
            except TemplateError as error:
                raise ValueError(str(error)) from None
            if "toolchain" in placeholders(text) and self.install.toolchain is None:
                raise ValueError("{toolchain} needs [install] toolchain")
        for name, option in self.options.items():
            try:
                option.check(option.default)
            except ValueError as error:
                raise ValueError(f"options.{name}.default {error}") from None
        for asset in self.launch.assets.values():
            if not (self.directory / asset).is_file():
                raise ValueError(f"launch.assets: no file {asset} beside the spec")
        return self

    def _templates(self) -> list[tuple[str, str]]:
        launch, disable, mcp, final = self.launch, self.builtins.disable or Disable(), self.mcp or Mcp(), self.final_message
        return [
            *(("launch.argv", text) for text in launch.argv),
            *(("launch.env", text) for text in launch.env.values()),
            *(("launch.files", text) for text in launch.files.values()),
            *(("launch.files key", text) for text in launch.files),
            *(("launch.assets key", text) for text in launch.assets),
            *(("builtins.disable.args", text) for text in disable.args),
            *(("builtins.disable.env", text) for text in disable.env.values()),
            *(("mcp.args", text) for text in mcp.args),
            *(("mcp.env", text) for text in mcp.env.values()),
            *([("mcp.config_template", mcp.config_template)] if mcp.config_template is not None else []),
            *([("final_message.file", final.file)] if final is not None and final.file is not None else []),
            *([("final_message.stdout_regex", final.stdout_regex)] if final is not None and final.stdout_regex is not None else []),
        ]


def _asset_digest(path: Path) -> str:
    try:
        return sha256_file(path)
    except (OSError, DataError) as error:
        raise ConfigError(Problem(f"cannot be read: {error}", key="launch.assets", file=str(path))) from error


def _with_digests(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _with_digests(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_with_digests(item) for item in value]
    return sha256_bytes(value.encode()) if isinstance(value, str) and len(value) > MOST_SHOWN else value


def load_spec(path: Path) -> HarnessSpec:
    """Reads a spec. Raises ConfigError with every fault, each naming file and key."""
    try:
        value = parse_toml(read_regular(path))
    except FileNotFoundError:
        raise ConfigError(Problem("no such harness spec", file=str(path))) from None
    except (OSError, ValueError) as error:
        raise ConfigError(Problem(f"not a readable harness spec: {error}", file=str(path))) from error
    if "directory" in value:
        raise ConfigError(Problem("unknown key", key="directory", file=str(path)))
    try:
        return HarnessSpec(**value, directory=path.parent)
    except ValidationError as error:
        raise ConfigError(from_validation_error(error, HarnessSpec, value, lambda key: str(path))) from None
