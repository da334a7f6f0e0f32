"""How many processes share the limits of an endpoint: the workers of a pool tell their clients here."""

from __future__ import annotations

_processes = 1


def processes() -> int:
    """Return how many processes draw on every endpoint at the same time, this one included; 1 unless told."""
    return _processes


def set_processes(count: int) -> None:
    """Say so, before the first client is made. A client keeps to its share of every limit."""
    global _processes  # noqa: PLW0603  one fact about this process
    if count < 1:
        raise ValueError(f"{count} processes cannot share anything")
    _processes = count
