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


def difference(first: tuple[int, int], second: tuple[int, int], z: float = CONFIDENCE_Z) -> tuple[float, float]:
    """Return the interval of the first share less the second, each (successes, trials), within [-1, 1].

    Newcombe's hybrid of two Wilson intervals (Statistics in Medicine 17, 1998, method 10), for independent samples;
    where trials are matched, and so go up and down together, it is wider than it need be. (-1, 1) without trials.
    """
    if not first[1] or not second[1]:
        return (-1.0, 1.0)
    rates = (first[0] / first[1], second[0] / second[1])
    (low_1, high_1), (low_2, high_2) = wilson(*first, z), wilson(*second, z)
    gap = rates[0] - rates[1]
    below = sqrt((rates[0] - low_1) ** 2 + (high_2 - rates[1]) ** 2)
    above = sqrt((high_1 - rates[0]) ** 2 + (rates[1] - low_2) ** 2)
    return (max(-1.0, gap - below), min(1.0, gap + above))
