"""How many episodes each worker plays at once: pure arithmetic over what the work asks and what the machine has."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from envharness.llm.share import split
from envharness.rollouts.demand import Demand

Count = int | Literal["auto"]
"""A number that was set by hand, which then holds, or `auto`."""

MOST = 10_000
"""The largest number that is taken for a count of workers or of episodes at once."""
WORKER_BYTES = 128 << 20
"""What a worker and its hooks' server take before they play: 60 to 100 MiB were measured."""
WARM_BYTES = 64 << 20
"""What the first episodes load for good: engines, clients, caches. It is no episode's own."""
EPISODE_BYTES = 4 << 20
"""What an episode is taken to need until it has been measured."""
LEAST_EPISODE_BYTES = 128 << 10
"""What an episode is taken to need at least, however little was measured: its trace grows."""
EPISODE_FILES = 4
"""Descriptors of an episode: a connection to the model, or the pipes of a program."""
SPARE_FILES = 128
"""Descriptors of the worker itself."""
USABLE_MEMORY = 0.8
"""The part of the memory that is free when the engine starts, which it may fill."""


@dataclass(frozen=True)
class Machine:
    """What there is for this process and its children."""

    cores: int
    """Processors they may use at once."""
    memory: int | None = None
    """Bytes that are free; None where it cannot be known, and is no bound."""
    files: int | None = None
    """Descriptors that one process may open; None is no bound."""


def read_count(value: object) -> Count:
    """Read a number from 1 to 10,000, or `auto`, as files and command lines give it. Raises ValueError."""
    if value == "auto":
        return "auto"
    text = str(value)
    if isinstance(value, bool) or not (text.isascii() and text.isdigit()) or not 1 <= int(text[:6]) <= MOST:
        raise ValueError(f"must be a whole number from 1 to {MOST}, or auto")
    return int(text)


def seats(workers: Count, machine: Machine) -> int:
    """Return how many worker processes there may be: as many as cores, if that many fit into the memory."""
    if workers != "auto":
        return workers
    if machine.memory is None:
        return machine.cores
    return max(min(machine.cores, int(machine.memory * USABLE_MEMORY) // WORKER_BYTES), 1)


def places(demand: Demand, seats: int, episodes_per_worker: Count, machine: Machine) -> list[int]:
    """Return, for each worker, how many episodes of this demand it plays at once, memory aside.

    A policy that computes gets one. One that waits gets as many as its endpoints take, each worker its part of every
    endpoint, but no more than the limits by the minute and the descriptors of a process allow; workers without a
    part get none. The first worker always gets one.
    """
    if episodes_per_worker != "auto":
        return [episodes_per_worker] * seats
    if not demand.waits:
        return [1] * seats
    parts = [sum(part) for part in split(demand.places, seats)]
    if machine.files is not None:
        most = max((machine.files - SPARE_FILES) // EPISODE_FILES, 1)
        parts = [min(part, most) for part in parts]
    if demand.turns_a_minute is not None:
        # Were there more, episodes would reach their time limit while they wait for their turns.
        total = max(int(demand.turns_a_minute / 60 * demand.turn_seconds), 1)
        parts = _cut(parts, total)
    return parts


def memory_holds(room: int | None, episode_bytes: int, playing: int, used: int) -> int | None:
    """Return how many more episodes fit where `playing` of them use `used` bytes and `room` bytes are free.

    Those that play have yet to grow to `episode_bytes`, and that is set aside. None is no bound.
    """
    if room is None:
        return None
    return max((room - max(playing * episode_bytes - used, 0)) // episode_bytes, 0)


def episode_bytes(resident: int, base: int, most_at_once: int) -> int:
    """Return what one episode takes, in a worker that took `base` bytes and, with so many at once, takes `resident`."""
    return max((resident - base - WARM_BYTES) // max(most_at_once, 1), LEAST_EPISODE_BYTES)


def _cut(parts: list[int], total: int) -> list[int]:
    """Return `parts` with at most `total` in all, evenly, the first ones first."""
    cut = [0] * len(parts)
    while total and any(have < part for have, part in zip(cut, parts, strict=True)):
        open_parts = [index for index, part in enumerate(parts) if cut[index] < part]
        share = max(total // len(open_parts), 1)
        for index in open_parts[:total]:
            added = min(share, parts[index] - cut[index])
            cut[index] += added
            total -= added
    return cut
