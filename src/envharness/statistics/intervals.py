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


def paired_difference(
    both: int, first_only: int, second_only: int, neither: int, z: float = CONFIDENCE_Z
) -> tuple[float, float]:
    """Return the interval of the first share less the second, from counts of matched pairs, within [-1, 1].

    Newcombe's hybrid of two Wilson intervals with their correlation, which is taken to be smaller than it is seen to
    be where few pairs say so (Statistics in Medicine 17, 1998, paired data, method 10). (-1, 1) where there is no pair.
    """
    pairs = both + first_only + second_only + neither
    if not pairs:
        return (-1.0, 1.0)
    first, second = both + first_only, both + second_only
    rates = (first / pairs, second / pairs)
    (low_1, high_1), (low_2, high_2) = wilson(first, pairs, z), wilson(second, pairs, z)
    correlation = _correlation(both, first_only, second_only, neither)
    gap = rates[0] - rates[1]
    below = _joined(rates[0] - low_1, high_2 - rates[1], correlation)
    above = _joined(high_1 - rates[0], rates[1] - low_2, correlation)
    return (max(-1.0, gap - below), min(1.0, gap + above))


def _correlation(both: int, first_only: int, second_only: int, neither: int) -> float:
    """Return the correlation within pairs, a positive one with a continuity correction; 0 where a side is constant."""
    pairs = both + first_only + second_only + neither
    sides = (both + first_only) * (second_only + neither) * (both + second_only) * (first_only + neither)
    excess = both * neither - first_only * second_only
    corrected = max(excess - pairs / 2, 0.0) if excess > 0 else excess
    return corrected / sqrt(sides) if sides else 0.0


def _joined(one: float, other: float, correlation: float) -> float:
    # Rounding must not make the square of nothing negative.
    return sqrt(max(0.0, one * one - 2 * correlation * one * other + other * other))
