"""The pool engine: long-lived worker processes, replaced when they die, and none left when the driver is gone."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from queue import Empty
from time import monotonic

from pydantic import ValidationError

from envharness.core.errors import MachineryError
from envharness.core.messages import one_line
from envharness.core.trace import Episode
from envharness.core.usage import NO_USAGE, Usage
from envharness.rollouts.backends.results import AllEnded, Cut, Finished, Told, Withdrawn
from envharness.rollouts.backends.supervisor import Supervisor
from envharness.rollouts.backends.worker_process import STOP_SECONDS, Ticket, WorkerSettings, registered_ids
from envharness.rollouts.blame import after, lost, worth_another_try
from envharness.rollouts.demand import COMPUTES, Demands, kinds_of
from envharness.rollouts.engine import Engine
from envharness.rollouts.episode import CLOSE_SECONDS
from envharness.rollouts.job import RolloutJob
from envharness.rollouts.machine import this_machine
from envharness.rollouts.sizing import Count, Machine, seats
from envharness.rollouts.snapshots.snapshots import SnapshotMode

MAX_EPISODES = 2000
MAX_MEMORY_BYTES = 1 << 30
"""Engines leak (ALFWorld 4 MB an environment): a worker retires after so many episodes, or at so much memory."""
GRACE_SECONDS = 2 * CLOSE_SECONDS + 5
"""Beyond an episode's own limit, which the worker keeps by itself: closing policy and environment, and some air."""
_PATIENCE = 0.5


class PoolEngine(Engine):
    """Plays in up to `workers` processes, `episodes_per_worker` at a time in each.

    `auto` fits both to the work and the machine (see docs/scaling.md). A worker that dies is replaced, and its
    episodes are tried again. Results come in the order in which they finish.
    """

    def __init__(
        self,
        *,
        workers: Count = "auto",
        retries: int,
        unsafe_hooks: bool = False,
        episodes_per_worker: Count = "auto",
        max_episodes: int = MAX_EPISODES,
        max_memory_bytes: int = MAX_MEMORY_BYTES,
        grace_seconds: float = GRACE_SECONDS,
        snapshots: SnapshotMode = "auto",
        machine: Machine | None = None,
    ) -> None:
        machine = machine or this_machine()
        settings = WorkerSettings(
            unsafe_hooks=unsafe_hooks,
            max_episodes=max_episodes,
            max_memory_bytes=max_memory_bytes,
            grace_seconds=grace_seconds,
            seats=seats(workers, machine),
            registered=registered_ids(),
            snapshots=snapshots,
        )
        self._supervisor = Supervisor(settings, episodes_per_worker=episodes_per_worker, machine=machine)
        self._retries = retries
        self._demands = Demands()
        self._at_once: dict[tuple[str, ...], int] = {}
        self._withdrawing = False
        self._submitted = 0
        self._in_flight = 0
        self._generation = 0

    def submit(self, job: RolloutJob) -> None:
        """Queue a job; workers are started as there is work for them."""
        demand = self._demands.of(job)
        self._at_once[self._supervisor.seats.group(demand)] = sum(self._supervisor.seats.places(demand))
        self._submitted += 1
        ticket = Ticket(self._submitted, job, self._generation, demand=demand, kinds=kinds_of(job))
        self._supervisor.submit(ticket)
        self._in_flight += 1
        self._withdrawing = False

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
            elif isinstance(finished, Withdrawn):
                self._in_flight -= finished.generation == self._generation
            elif isinstance(finished, Finished) and finished.ticket.generation == self._generation:
                episode = self._settle(finished)
                if episode is not None:
                    self._in_flight -= 1
                    return finished.ticket.job, episode
        return None

    @property
    def in_flight(self) -> int:
        """Jobs submitted and not yet returned."""
        return self._in_flight

    @property
    def capacity(self) -> int:
        """Two jobs a place: one that is played and one that waits, so that no worker waits for the driver.

        Places are known for the kinds of work that were submitted, so that this grows with the first jobs.
        """
        return 2 * (sum(self._at_once.values()) or sum(self._supervisor.seats.places(COMPUTES)))

    def withdraw(self) -> None:
        """Take back what no worker has begun; the supervisor says how much that is, and `next_result` hears it."""
        if self._in_flight:
            self._withdrawing = True
            self._supervisor.withdraw()

    def cancel(self) -> None:
        """Drop everything in flight. Workers that play are asked to stop, and others take their place."""
        if self._in_flight:
            self._generation += 1
            self._in_flight = 0
            self._supervisor.cancel()

    def abort(self) -> Iterator[tuple[RolloutJob, Usage]]:
        """Drop everything in flight; yield what it has used, once the workers that played it have told or ended."""
        if not self._in_flight:
            return
        generation, until = self._generation, monotonic() + STOP_SECONDS + _PATIENCE
        self.cancel()
        while monotonic() < until:
            told = self._take(until)
            if isinstance(told, AllEnded) and told.cancels == self._generation:
                return
            if isinstance(told, Cut) and told.ticket.generation == generation and told.used.calls:
                yield told.ticket.job, told.used
            elif isinstance(told, Finished) and told.ticket.generation == generation:
                episode = _episode(told)
                yield told.ticket.job, told.ticket.spent + episode.usage + episode.wasted

    def close(self) -> None:
        """Drop everything and end all workers."""
        self.cancel()
        self._supervisor.close()

    def _take(self, until: float | None) -> Told | None:
        """Take one result, or None after a while: whether the supervisor still lives is looked at in between."""
        left = _PATIENCE if until is None else max(min(until - monotonic(), _PATIENCE), 0.0)
        try:
            return self._supervisor.take(left)
        except Empty:
            if (fault := self._supervisor.fault) is not None:
                raise MachineryError(fault) from None
            return None

    def _settle(self, finished: Finished) -> Episode | None:
        """Return the episode to hand out, or None where its job gets another attempt."""
        ticket = finished.ticket
        # Read here and not where it arrives: until somebody takes it, it is several times smaller as JSON.
        episode = after(ticket.former, _episode(finished))
        if ticket.wasted.calls:
            episode = episode.model_copy(update={"wasted": episode.wasted + ticket.wasted})
        if not worth_another_try(episode) or ticket.attempt > self._retries or self._withdrawing:
            return episode
        self._supervisor.submit(
            replace(ticket, attempt=ticket.attempt + 1, former=episode, wasted=NO_USAGE, deadline=float("inf"))
        )
        return None


def _episode(finished: Finished) -> Episode:
    if isinstance(finished.played, Episode):
        return finished.played
    try:
        return Episode.model_validate_json(finished.played)
    except ValidationError as error:
        ticket, detail = finished.ticket, f"the worker sent what is no episode: {one_line(error)}"
        return lost(ticket.job, "worker_died", detail, attempt=ticket.attempt, worker=finished.worker)
