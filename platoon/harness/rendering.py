"""Renders a spec for one run: which program with which arguments, environment and files."""

from __future__ import annotations

import os
import posixpath
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from platoon.harness.errors import HarnessConfigError
from platoon.harness.options import option_values, resolve_options
from platoon.harness.spec import HarnessSpec
from platoon.harness.templates import TemplateError, render

NO_PROXY_HOSTS = "127.0.0.1,localhost,::1"


@dataclass(frozen=True)
class RunValues:
    """What placeholders stand for in one run. base_url: the gateway as reached from where the agent runs."""

    instruction: str
    base_url: str
    model: str
    workdir: str
    state_dir: str
    api_key: str = field(repr=False)
    max_steps: int | None = None
    task_mcp_servers: str = "[]"


@dataclass(frozen=True)
class LaunchPlan:
    """files: absolute path -> content. assets: absolute path -> file of this host. env holds the key: it is never logged."""

    argv: tuple[str, ...]
    env: Mapping[str, str] = field(repr=False)
    files: Mapping[str, str]
    assets: Mapping[str, Path]
    final_file: str | None
    final_regex: str | None


def render_launch(
    spec: HarnessSpec, values: RunValues, options: Mapping[str, Any], *, disable_builtins: bool = False
) -> LaunchPlan:
    """Raises HarnessConfigError for an option or a placeholder that does not fit this run, or a need that is not served here."""
    _refuse_unserved(spec, disable_builtins)
    try:
        resolved = option_values(resolve_options(spec.options, options))
        steps = None if values.max_steps is None else str(values.max_steps)
        plain: dict[str, str | None] = {
            "instruction": values.instruction,
            "base_url": values.base_url,
            "model": values.model,
            "workdir": values.workdir,
            "state_dir": values.state_dir,
            "max_steps": steps,
            "task_mcp_servers": values.task_mcp_servers,
            **resolved,
        }
        launch, final, disable = spec.launch, spec.final_message, spec.builtins.disable
        argv = [render(text, plain) for text in launch.argv]
        env = _proxies()
        env.update({name: render(text, {**plain, "api_key": values.api_key}) for name, text in launch.env.items()})
        if disable_builtins and disable is not None:
            argv += [render(text, plain) for text in disable.args]
            env.update({name: render(text, plain) for name, text in disable.env.items()})

        def path(template: str) -> str:
            return posixpath.join(values.state_dir, render(template, plain))

        return LaunchPlan(
            argv=tuple(argv),
            env=env,
            files={path(name): render(text, plain) for name, text in launch.files.items()},
            assets={path(name): spec.directory / asset for name, asset in launch.assets.items()},
            final_file=path(final.file) if final is not None and final.file is not None else None,
            final_regex=render(final.stdout_regex, plain) if final is not None and final.stdout_regex is not None else None,
        )
    except (TemplateError, ValueError) as error:
        raise HarnessConfigError(f"{spec.reference}: {error}") from error


def _refuse_unserved(spec: HarnessSpec, disable_builtins: bool) -> None:
    if spec.mcp is not None and spec.mcp.enabled:
        raise HarnessConfigError(f"{spec.reference}: [mcp] needs an MCP endpoint, which the gateway does not serve in this version")
    if spec.install.toolchain is not None:
        raise HarnessConfigError(f"{spec.reference}: [install] toolchain is not served in this version")
    if disable_builtins and spec.builtins.disable is None:
        raise HarnessConfigError(f"{spec.reference}: builtins: disable needs a [builtins.disable] table")


def _proxies() -> dict[str, str]:
    """Without these a site's proxy would swallow calls to the gateway."""
    found = {}
    for name in ("NO_PROXY", "no_proxy"):
        host = os.environ.get(name)
        found[name] = f"{host},{NO_PROXY_HOSTS}" if host else NO_PROXY_HOSTS
    return found
