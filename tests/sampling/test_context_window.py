"""The window of a policy: the configuration's, else the service's, else none."""

from __future__ import annotations

import asyncio

import pytest

from platoon.sampling import context_window
from platoon.sampling.context_window import with_service_window
from platoon.sampling.model_spec import ModelSpec
from platoon.testing.fake_tinker import FakeRestClient, FakeStatusError, FakeTinkerService

pytestmark = pytest.mark.unit


def window(service: FakeTinkerService, own: int | None = None) -> int | None:
    spec = ModelSpec("base", "chat_template", context_window_length=own)
    return asyncio.run(with_service_window(spec, lambda: FakeRestClient(service))).context_window_length


@pytest.mark.parametrize(
    ("windows", "own", "expected"),
    [
        ({"other": 8, "base": 4096}, None, 4096),
        ({"base": 4096}, 512, 512),
        ({"base": None}, None, None),
        ({"other": 8}, None, None),
        ({}, None, None),
    ],
)
def test_the_window_is_the_configurations_else_the_services(
    windows: dict[str, int | None], own: int | None, expected: int | None
) -> None:
    assert window(FakeTinkerService(windows=windows), own) == expected


def test_a_service_that_does_not_tell_leaves_it_unset(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(operation: str) -> None:
        raise FakeStatusError(404)

    assert window(FakeTinkerService(windows={"base": 8}, before=refuse)) is None
    monkeypatch.setattr(context_window, "ASK_TIMEOUT_S", 0.01)
    assert window(FakeTinkerService(windows={"base": 8}, hang={"get_server_capabilities"})) is None
