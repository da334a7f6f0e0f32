"""Magnitude search: bisection on [0, 1] over the success rates measured so far. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

MIN_GAP = 1 / 256
"""Two magnitudes closer than this are the same for every template."""
CLIFF_GAP = 1 / 8
"""Where everything is won at one magnitude and nothing at another this close, there is nothing in between to find."""
CLIFF_HEIGHT = 0.95
"""A fall of the success rate that makes a cliff."""


@dataclass(frozen=True)
class Response:
    """What one magnitude did."""

    magnitude: float
    success_rate: float


def next_magnitude(
    history: Sequence[Response], *, target: float, rising: bool, first: float = 0.5, largest: float = 1.0
) -> float | None:
    """Return the magnitude to try next, or None where bisection has nothing left to try.

    `rising` says that more magnitude means a higher success rate (scaffolds); obstacles fall. Rollouts are noisy, so
    the history may contradict itself: the bracket is then the nearest pair around the target that does not.
    """
    if not history:
        return min(first, largest)
    # Magnitudes that made the task too weak an intervention bound from below, those too strong from above.
    weak = [r.magnitude for r in history if (r.success_rate < target) == rising]
    strong = [r.magnitude for r in history if (r.success_rate < target) != rising]
    low = max((m for m in weak if not strong or m < max(strong)), default=0.0)
    above = [m for m in strong if m > low]
    high = min(above) if above else largest
    if not strong:
        # Nothing was strong enough yet: move fast towards the end before giving up on the type.
        return largest if largest - low > MIN_GAP else None
    if high - low <= CLIFF_GAP and _falls_off(history, low, high):
        return None
    middle = (low + high) / 2
    tried = {round(r.magnitude / MIN_GAP) for r in history}
    return None if high - low <= MIN_GAP or round(middle / MIN_GAP) in tried else middle


def _falls_off(history: Sequence[Response], low: float, high: float) -> bool:
    """Whether all that was measured at the two ends of a bracket differs as much as rates can."""
    below = [r.success_rate for r in history if r.magnitude == low]
    above = [r.success_rate for r in history if r.magnitude == high]
    if not below or not above:
        return False
    return max(min(below) - max(above), min(above) - max(below)) >= CLIFF_HEIGHT
