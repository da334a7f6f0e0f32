"""What a test needs and this machine may lack: the test is skipped with the reason, but in CI it fails."""

from __future__ import annotations

import os

import pytest


def absent(reason: str) -> BaseException:
    """Return what to raise where something is missing; `reason` says what, and how to get it."""
    return pytest.fail.Exception(reason) if os.environ.get("CI") == "true" else pytest.skip.Exception(reason)
