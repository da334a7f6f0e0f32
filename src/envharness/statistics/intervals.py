"""Intervals of a share from its counts."""

from __future__ import annotations

from math import sqrt

CONFIDENCE_Z = 1.959963984540054
"""Two-sided 95 %."""


def wilson(successes: int, trials: int, z: float = CONFIDENCE_Z) -> tuple[float, float]:
    """Return the Wilson score interval of a share, within [0, 1]; (0, 1) where there are no trials."""
    if trials == 0:
        return (0.0, 1.0)
    rate = successes / trials
    spread = z * z / trials
    middle = (rate + spread / 2) / (1 + spread)
    half = z * sqrt(rate * (1 - rate) / trials + spread / (4 * trials)) / (1 + spread)
    # Rounding must not push the ends past a share that was really seen.
    return (max(0.0, min(middle - half, rate)), min(1.0, max(middle + half, rate)))
