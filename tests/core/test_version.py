"""One version, wherever it is written."""

from __future__ import annotations

from importlib.metadata import version

import envharness
from envharness.core.version import VERSION


def test_the_package_says_the_version_it_is_built_as() -> None:
    assert envharness.__version__ == VERSION == version("envharness")
