"""Real games from the shared data, and a check that the engine is there."""

from __future__ import annotations

import importlib.util
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from envharness.bridges.alfworld import Alfworld
from presence import absent


@pytest.fixture(scope="session")
def alfworld_engine() -> None:
    """Skip without TextWorld and ALFWorld; in CI fail."""
    if importlib.util.find_spec("textworld") and importlib.util.find_spec("alfworld"):
        return
    raise absent("the ALFWorld engine is not installed; run scripts/install-alfworld")


@pytest.fixture(scope="session")
def games_folder(shared_data: Path, alfworld_engine: None, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder that holds json_2.1.1, unpacked once."""
    folder = tmp_path_factory.mktemp("alfworld")
    with tarfile.open(shared_data / "alfworld" / "games.tar.xz") as archive:
        archive.extractall(folder, filter="data")
    return folder


@pytest.fixture
def mug(alfworld_engine: None) -> Iterator[Alfworld]:
    """The built-in game: put a mug in desk; the mug is on the countertop."""
    with Alfworld(task="builtin/mug-to-desk") as env:
        yield env
