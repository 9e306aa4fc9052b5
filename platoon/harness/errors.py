"""Why a harness could not run: each class is one row of the failure taxonomy."""

from __future__ import annotations

from platoon.errors import PlatoonError


class HarnessSetupError(PlatoonError):
    """Setup or installation failed, or the gateway cannot be reached from where the harness would run."""


class HarnessConfigError(PlatoonError):
    """The harness cannot be rendered or launched with these settings."""
