"""The placeholders of harness specs: `{name}` and `{options.name}`, substituted in one pass.

Substituted text is never read again, so an instruction that holds `{api_key}` stays as it is. Every other brace and `${VAR}` is
literal.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

PLACEHOLDER = re.compile(r"(?<!\$)\{([a-z_][a-z0-9_]*(?:\.[A-Za-z_][A-Za-z0-9_]*)?)\}")

COMMON = frozenset({"instruction", "base_url", "model", "workdir", "state_dir", "toolchain", "max_steps", "task_mcp_servers"})
SECRET = frozenset({"api_key"})
OPTIONS = frozenset({"options"})
MCP = frozenset({"mcp_url", "mcp_config_path"})

ALLOWED: dict[str, frozenset[str]] = {
    "launch.argv": COMMON | OPTIONS,
    "launch.env": COMMON | OPTIONS | SECRET,
    "launch.files": COMMON | OPTIONS,
    "launch.files key": COMMON,
    "launch.assets key": COMMON,
    "builtins.disable.args": COMMON | OPTIONS,
    "builtins.disable.env": COMMON | OPTIONS,
    "mcp.args": COMMON | OPTIONS | MCP,
    "mcp.env": COMMON | OPTIONS | MCP | SECRET,
    "mcp.config_template": COMMON | OPTIONS | frozenset({"mcp_url"}),
    "final_message.file": COMMON,
    "final_message.stdout_regex": COMMON,
}


class TemplateError(ValueError):
    """A placeholder that stands where it may not, names nothing, or has no value in this run."""


def placeholders(text: str) -> list[str]:
    return PLACEHOLDER.findall(text)


def check_template(field: str, text: str, options: Mapping[str, object]) -> None:
    """Raises TemplateError for a placeholder that `field` does not allow or that names an option the spec does not declare."""
    for name in placeholders(text):
        base, _, option = name.partition(".")
        if base not in ALLOWED[field] or (option and base != "options"):
            raise TemplateError(f"{{{name}}} may not stand in [{field}]")
        if option and option not in options:
            raise TemplateError(f"{{{name}}} names an option that the spec does not declare")


def render(text: str, values: Mapping[str, str | None]) -> str:
    """The text with every placeholder replaced. Raises TemplateError for one whose value is None or missing."""

    def value(match: re.Match[str]) -> str:
        found = values.get(match.group(1))
        if found is None:
            raise TemplateError(f"{{{match.group(1)}}} has no value in this run")
        return found

    return PLACEHOLDER.sub(value, text)
