"""The pool engine: long-lived worker processes, replaced when they die, and none left when the driver is gone."""

from __future__ import annotations

import os
from queue import Empty, SimpleQueue
from time import monotonic

from envharness.core.errors import MachineryError
from envharness.core.trace import Episode
from envharness.rollouts.backends.supervisor import Finished, Supervisor, Withdrawn
from envharness.rollouts.backends.worker_process import Ticket, WorkerSettings, registered_ids
from envharness.rollouts.engine import Engine
from envharness.rollouts.episode import CLOSE_SECONDS
from envharness.rollouts.job import RolloutJob
from envharness.rollouts.snapshots.snapshots import SnapshotMode

MAX_EPISODES = 2000
MAX_MEMORY_BYTES = 1 << 30
"""Engines leak (ALFWorld 4 MB an environment): a worker retires after so many episodes, or at so much memory."""
GRACE_SECONDS = 2 * CLOSE_SECONDS + 5
"""Beyond an episode's own limit, which the worker keeps by itself: closing policy and environment, and some air."""
_PATIENCE = 0.5


class PoolEngine(Engine):
    """Plays in `workers` processes, `episodes_per_worker` at a time in each.

    A worker that dies is replaced, and its episodes are tried again. Results come in the order in which they finish.
    """

    def __init__(
        self,
        *,
        workers: int | None,
        retries: int,
        unsafe_hooks: bool = False,
        episodes_per_worker: int = 1,
        max_episodes: int = MAX_EPISODES,
        max_memory_bytes: int = MAX_MEMORY_BYTES,
        grace_seconds: float = GRACE_SECONDS,
        snapshots: SnapshotMode = "auto",
    ) -> None:
        workers = workers or os.cpu_count() or 1
        self._slots = workers * episodes_per_worker
        settings = WorkerSettings(
            unsafe_hooks=unsafe_hooks,
            max_episodes=max_episodes,
            max_memory_bytes=max_memory_bytes,
            grace_seconds=grace_seconds,
            workers=workers,
            registered=registered_ids(),
            snapshots=snapshots,
        )
        self._finished: SimpleQueue[Finished | Withdrawn] = SimpleQueue()
        self._supervisor = Supervisor(
            settings,
            workers=workers,
            episodes_per_worker=episodes_per_worker,
            retries=retries,
            finished=self._finished.put,
        )
        self._submitted = 0
        self._in_flight = 0
        self._generation = 0

    def submit(self, job: RolloutJob) -> None:
        """Queue a job; workers are started as there is work for them."""
        self._submitted += 1
        self._in_flight += 1
        self._supervisor.submit(Ticket(self._submitted, job, self._generation))

    def next_result(self, timeout: float | None = None) -> tuple[RolloutJob, Episode] | None:
        """Return a finished episode, waiting for one; None after `timeout` seconds or where nothing is in flight.

        Raises MachineryError where workers cannot be started at all.
        """
        until = None if timeout is None else monotonic() + timeout
        while self._in_flight:
            finished = self._take(until)
            if finished is None:
                if until is not None and monotonic() >= until:
                    return None
            elif finished.generation != self._generation:
                continue
            elif isinstance(finished, Withdrawn):
                self._in_flight -= finished.jobs
            else:
                self._in_flight -= 1
                return finished.job, finished.episode
        return None

    @property
    def in_flight(self) -> int:
        """Jobs submitted and not yet returned."""
        return self._in_flight

    @property
    def capacity(self) -> int:
        """Two jobs a slot: one that is played and one that waits, so that no worker waits for the driver."""
        return 2 * self._slots

    def withdraw(self) -> None:
        """Take back what no worker has begun; the supervisor says how much that is, and `next_result` hears it."""
        if self._in_flight:
            self._supervisor.withdraw()

    def cancel(self) -> None:
        """Drop everything in flight. Workers that play are asked to stop, and others take their place."""
        if self._in_flight:
            self._generation += 1
            self._in_flight = 0
            self._supervisor.cancel()

    def close(self) -> None:
        """Drop everything and end all workers."""
        self.cancel()
        self._supervisor.close()

    def _take(self, until: float | None) -> Finished | Withdrawn | None:
        """Take one result, or None after a while: whether the supervisor still lives is looked at in between."""
        left = _PATIENCE if until is None else max(min(until - monotonic(), _PATIENCE), 0.0)
        try:
            return self._finished.get(timeout=left)
        except Empty:
            if (fault := self._supervisor.fault) is not None:
                raise MachineryError(fault) from None
            return None
