"""Fixtures every test may use."""

from __future__ import annotations

import os
import shutil
import signal
from pathlib import Path

import pytest

from presence import absent

pytest_plugins = ["local_model"]


def pytest_configure() -> None:
    """Undo an inherited disregard of Ctrl-C (`nohup`, a background job): children of tests would inherit it too."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The folder of real data beside the repository. Absent: skip, but in CI fail."""
    folder = Path(os.environ.get("ENVHARNESS_SHARED_DATA", Path(__file__).parents[2] / "shared" / "data"))
    if folder.is_dir():
        return folder
    raise absent(f"no shared data at {folder}; set ENVHARNESS_SHARED_DATA")


@pytest.fixture(scope="session")
def chromium() -> str:
    """The path of a Chromium."""
    for name in ("chromium", "chromium-browser", "google-chrome"):
        if found := shutil.which(name):
            return found
    raise absent("no Chromium here: apt-get install chromium")
