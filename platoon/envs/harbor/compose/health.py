"""`healthcheck`, `depends_on` and `links` of a service."""

from __future__ import annotations

from typing import Any

from platoon.envs.harbor.compose import values
from platoon.envs.harbor.compose.errors import ComposeError
from platoon.envs.harbor.compose.reading import Draft, Reading, admitted
from platoon.envs.harbor.compose.stack_plan import Condition, Dependency, Healthcheck
from platoon.envs.harbor.compose.text import Text

CONDITIONS: tuple[Condition, ...] = ("service_started", "service_healthy", "service_completed_successfully")
_TIMES = ("interval", "timeout", "start_period", "start_interval")


def read_healthcheck(value: Any, draft: Draft, reading: Reading) -> None:
    place = f"{draft.name}.healthcheck"
    found: dict[str, Any] = {}
    for key, item in admitted(values.mapping(value), "services.*.healthcheck", place, draft.role, reading.findings):
        with reading.findings.at(place, key):
            if item is None:
                continue
            if key == "test":
                found["test"] = _test(item)
            elif key in _TIMES:
                # Zero means that the image's value counts, as the engine has it.
                found[f"{key}_s"] = values.duration_s(item) or None
            elif key == "retries":
                retries = values.whole_number(item)
                if retries < 0:
                    raise ComposeError(f"is at least 0, got {retries}")
                found["retries"] = retries or None
            elif key == "disable" and values.switch(item):
                found["disabled"] = True
    if found.pop("disabled", False):
        found["test"] = ("NONE",)
    if any(item is not None for item in found.values()):
        draft.plan["healthcheck"] = Healthcheck(**found)


def read_depends_on(value: Any, draft: Draft, reading: Reading) -> None:
    place = f"{draft.name}.depends_on"
    found: dict[str, Dependency] = {}
    if isinstance(value, list):
        with reading.findings.at(place):
            found = dict.fromkeys(values.names(value), Dependency("service_started"))
    else:
        for service, item in values.mapping(value).items():
            with reading.findings.at(place, service):
                settings = dict(
                    admitted(values.mapping(item), "services.*.depends_on.*", f"{place}.{service}", draft.role, reading.findings)
                )
                condition = settings.get("condition")
                if condition not in CONDITIONS:
                    raise ComposeError(f"the condition is one of {', '.join(CONDITIONS)}")
                found[service] = Dependency(condition, values.switch(settings.get("required", True)))
    draft.plan["depends_on"] = {**draft.plan.get("depends_on", {}), **found}


def read_links(value: Any, draft: Draft, reading: Reading) -> None:
    for item in values.sequence(value):
        with reading.findings.at(f"{draft.name}.links"):
            service, _, alias = values.known(item).partition(":")
            draft.links.append((values.name(service), values.name(alias) if alias else None))


def _test(value: Any) -> tuple[Text, ...] | None:
    if isinstance(value, str | tuple):
        if not value:
            raise ComposeError("is empty")
        return ("CMD-SHELL", value)
    words = tuple(values.only_text(item) for item in values.sequence(value))
    if not words:
        return None
    if words[0] == "NONE" and len(words) == 1:
        return words
    if words[0] == "CMD-SHELL" and len(words) != 2:
        raise ComposeError("CMD-SHELL takes one command")
    if words[0] not in ("CMD", "CMD-SHELL") or len(words) < 2:
        raise ComposeError("a list begins with CMD, CMD-SHELL or NONE, and has a command")
    return words
