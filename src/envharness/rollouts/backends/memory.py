"""Watches what workers' episodes take of the memory, and says whether one more may begin."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from time import monotonic
from typing import Protocol

from envharness.rollouts.machine import free_memory, resident_memory
from envharness.rollouts.sizing import EPISODE_BYTES, USABLE_MEMORY, WARM_BYTES, episode_bytes, memory_holds

LOOK_SECONDS = 0.25
"""How often it looks, while there is work that waits."""


class Watched(Protocol):
    """What it wants to know of a worker."""

    @property
    def pid(self) -> int:
        """The process."""
        ...

    base_bytes: int
    """What the worker took before it played; 0 while that is not known."""
    most_at_once: int
    """The most episodes it has played at once."""

    @property
    def playing(self) -> int:
        """How many it plays now."""
        ...


class MemoryWatch:
    """Measures episodes, and keeps their number within the memory that is free and within what a worker may take.

    Where neither can be measured, nothing is held back.
    """

    def __init__(
        self,
        worker_bytes: int,
        *,
        free: Callable[[], int | None] = free_memory,
        resident: Callable[[int], int | None] = resident_memory,
        clock: Callable[[], float] = monotonic,
    ) -> None:
        self.episode_bytes = EPISODE_BYTES
        """What an episode takes: the most that was measured, or a guess until something was."""
        self._worker_bytes = worker_bytes
        self._free = free
        self._resident = resident
        self._clock = clock
        self._measured = False
        self._next_look = 0.0
        self._left: int | None = None

    def look(self, workers: Sequence[Watched]) -> None:
        """Measure, if it is time to."""
        if self._clock() < self._next_look:
            return
        self._next_look = self._clock() + LOOK_SECONDS
        used = playing = 0
        for worker in workers:
            resident = self._resident(worker.pid) if worker.base_bytes else None
            if resident is None:
                continue
            used += max(resident - worker.base_bytes, 0)
            playing += worker.playing
            if worker.most_at_once:
                self._take(episode_bytes(resident, worker.base_bytes, worker.most_at_once))
        free = self._free()
        room = None if free is None else int(free * USABLE_MEMORY)
        self._left = memory_holds(room, self.episode_bytes, playing, used)

    def has_room(self, worker: Watched) -> bool:
        """Whether the worker may begin one more episode; the only one it plays always may."""
        if not worker.playing:
            return True
        if self._left is not None and self._left <= 0:
            return False
        needed = worker.base_bytes + WARM_BYTES + (worker.playing + 1) * self.episode_bytes
        return not worker.base_bytes or needed <= self._worker_bytes

    def begun(self) -> None:
        """Count an episode that begins between two looks."""
        if self._left is not None:
            self._left -= 1

    def _take(self, measured: int) -> None:
        self.episode_bytes = max(measured, self.episode_bytes) if self._measured else measured
        self._measured = True
