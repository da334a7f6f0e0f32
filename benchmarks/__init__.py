"""Benchmarks of this package, run as `python -m benchmarks NAME [--json]`.

A benchmark is a module with a function `measure() -> dict[str, Figure]` and a line in `BENCHMARKS`.
"""

from __future__ import annotations

from dataclasses import dataclass

BENCHMARKS = {
    "alfworld": "benchmarks.alfworld",
    "client": "benchmarks.client",
    "concurrency": "benchmarks.concurrency",
    "engines": "benchmarks.engines",
    "isolation": "benchmarks.isolation",
    "layers": "benchmarks.layers",
    "overhead": "benchmarks.overhead",
    "snapshots": "benchmarks.snapshots",
    "startup": "benchmarks.startup",
    "statistics": "benchmarks.statistics",
    "store": "benchmarks.store",
    "transcripts": "benchmarks.transcripts",
}
"""Name → module, imported when the benchmark is run."""


@dataclass(frozen=True)
class Figure:
    """One measured value and the goal it is held against. `ok` is None where there is no goal."""

    value: float
    unit: str
    goal: str = ""
    ok: bool | None = None


def at_most(value: float, unit: str, limit: float) -> Figure:
    """A figure that should not exceed `limit`."""
    return Figure(value, unit, f"<= {limit:g}", value <= limit)


def at_least(value: float, unit: str, limit: float) -> Figure:
    """A figure that should reach `limit`."""
    return Figure(value, unit, f">= {limit:g}", value >= limit)
