"""The version of this package, below the root, so that every layer may know it."""

from __future__ import annotations

VERSION = "0.1.0"
