"""One service for the tests that only talk to it; those that harm one start their own."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from platoon.local.launcher import LocalServiceProcess, start_local_service

os.environ["TINKER_TELEMETRY"] = "0"


@pytest.fixture(scope="session")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalServiceProcess]:
    """A running service with faults on demand."""
    with start_local_service(tmp_path_factory.mktemp("state"), faults=True, deterministic=True) as running:
        yield running


@pytest.fixture(scope="session")
def client(service: LocalServiceProcess) -> Iterator[Any]:
    """The SDK's service client."""
    import tinker

    with tinker.ServiceClient(base_url=service.base_url, api_key=service.api_key) as opened:
        # The session begins with the first use of its holder; here, so that it is no test's own.
        _ = opened.holder
        yield opened


@pytest.fixture(scope="session")
def rest(service: LocalServiceProcess) -> Iterator[Any]:
    """The SDK's REST client. It shares a holder for the life of the process, which is closed here for its open sockets."""
    import tinker

    opened = tinker.RestClient(base_url=service.base_url, api_key=service.api_key)
    yield opened
    opened.holder.run_coroutine_threadsafe(opened.holder.aclose()).result(10)


@pytest.fixture
def faults(service: LocalServiceProcess) -> Iterator[Any]:
    """Asks the shared service for a fault; none is left after the test."""
    import httpx

    with httpx.Client(base_url=service.base_url, headers={"X-API-Key": service.api_key}) as http:

        def ask(**fault: Any) -> None:
            http.post("/local/faults", json=fault).raise_for_status()

        yield ask
        http.delete("/local/faults").raise_for_status()


@pytest.fixture(scope="session")
def state_dir(service: LocalServiceProcess) -> Path:
    return service.settings.state_dir
