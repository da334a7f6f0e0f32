"""How the processes of a pool share the limits of endpoints: each has a seat, and each seat its part of every limit."""

from __future__ import annotations

from collections.abc import Sequence

_seat, _seats = 0, 1


def seat() -> tuple[int, int]:
    """Return which of how many processes this is, all of which draw on every endpoint; (0, 1) unless told."""
    return _seat, _seats


def take_seat(number: int, of: int) -> None:
    """Say so, before the first client is made. A client keeps to its part of every limit."""
    global _seat, _seats
    if not 0 <= number < of:
        raise ValueError(f"there is no seat {number} of {of}")
    _seat, _seats = number, of


def split(limits: Sequence[int], seats: int) -> list[list[int]]:
    """Return, for each seat, its part of each endpoint's `limits`, as evenly as whole numbers go.

    Each part is at least 1. So where there are more seats than the smallest limit has places, only the first ones
    get anything, and the other lists are empty: nobody should ask from there.
    """
    if not limits:
        return [[] for _ in range(seats)]
    used = max(min(seats, *limits), 1)
    parts = [[limit // used for limit in limits] for _ in range(used)]
    following = 0
    for endpoint, limit in enumerate(limits):
        for _ in range(limit % used):
            parts[following % used][endpoint] += 1
            following += 1
    return parts + [[] for _ in range(seats - used)]
