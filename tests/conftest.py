"""Fixtures every test may use."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

pytest_plugins = ["local_model"]


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The folder of real data beside the repository. Absent: skip, but in CI fail."""
    folder = Path(os.environ.get("ENVHARNESS_SHARED_DATA", Path(__file__).parents[2] / "shared" / "data"))
    if folder.is_dir():
        return folder
    reason = f"no shared data at {folder}; set ENVHARNESS_SHARED_DATA"
    if os.environ.get("CI") == "true":
        pytest.fail(reason)
    pytest.skip(reason)
