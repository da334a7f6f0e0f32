"""Fixtures of the report's tests."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from envharness.store.database import RunStore
from report.build_run import sample_run


@pytest.fixture
def finished_run(tmp_path: Path) -> Iterator[RunStore]:
    """A finished run of eight tasks, the null beside it."""
    with sample_run(tmp_path / "run") as store:
        yield store
