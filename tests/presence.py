"""What a test needs and this machine may lack: the test is skipped with the reason, but in CI it fails."""

from __future__ import annotations

import os
from typing import NoReturn

import pytest


def absent(reason: str) -> NoReturn:
    """Leave the test because something is missing; `reason` says what, and how to get it."""
    if os.environ.get("CI") == "true":
        pytest.fail(reason)
    pytest.skip(reason)
