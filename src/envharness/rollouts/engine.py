"""What all engines are, which turn many jobs into episodes, and how to get one."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from types import TracebackType
from typing import Literal, Self

from envharness.core.trace import Episode
from envharness.core.usage import Usage
from envharness.rollouts.interrupts import StopRequest
from envharness.rollouts.job import RolloutJob
from envharness.rollouts.sizing import Count
from envharness.rollouts.snapshots.snapshots import SnapshotMode

Backend = Literal["inline", "pool", "ray"]

LOOK_SECONDS = 0.5
"""How long `run` waits for an episode before it looks whether it is to stop."""
RETRIES = 2
"""Attempts beyond the first for an invalid episode."""


class Engine(ABC):
    """Plays jobs, in this process or others. A context manager; use it from one thread.

    An episode that is invalid is played again, up to `retries` times, unless a component's fault made it so; then it
    is handed out as it is, with `attempt` saying which try it was. It is never turned into a failure.
    """

    @abstractmethod
    def submit(self, job: RolloutJob) -> None:
        """Queue a job; returns at once."""

    @abstractmethod
    def next_result(self, timeout: float | None = None) -> tuple[RolloutJob, Episode] | None:
        """Return a finished episode, waiting up to `timeout` seconds (None: until there is one).

        None: nothing finished in time, or nothing is in flight.
        """

    @property
    @abstractmethod
    def in_flight(self) -> int:
        """Jobs submitted and not yet returned."""

    @property
    @abstractmethod
    def capacity(self) -> int:
        """How many jobs in flight keep every worker busy."""

    def withdraw(self) -> None:
        """Take back the jobs that nobody has begun, so that `in_flight` falls to what is being played.

        What is being played is handed out as it ends, without a further attempt. An engine that cannot take jobs back
        keeps them.
        """
        return

    @abstractmethod
    def cancel(self) -> None:
        """Drop everything in flight; no result of it will be returned."""

    def abort(self) -> Iterator[tuple[RolloutJob, Usage]]:
        """Drop everything in flight, as `cancel` does, and yield what it has used of models so far, by job.

        What a policy was answered in an episode that is cut was paid for all the same. Waits a few seconds for the
        workers' word. An engine that does not know yields nothing.
        """
        self.cancel()
        yield from ()

    @abstractmethod
    def close(self) -> None:
        """Drop everything and end every process. Idempotent."""

    def run(
        self, jobs: Iterable[RolloutJob], *, stop: StopRequest | None = None
    ) -> Iterator[tuple[RolloutJob, Episode]]:
        """Play `jobs` and yield each with its episode, in the order in which they finish.

        Jobs are pulled as there is room for them, never more than `capacity` ahead of what was yielded. Leaving the
        loop early cancels what is in flight. Once `stop` is asked for no job is begun any more, and the iterator ends
        with the last one that was.
        """
        if self.in_flight:
            raise RuntimeError(f"run() needs an idle engine; {self.in_flight} submitted jobs are in flight")
        waiting = iter(jobs)
        exhausted = False
        try:
            while True:
                if stop is not None and stop.asked and not exhausted:
                    exhausted = True
                    self.withdraw()
                while not exhausted and self.in_flight < self.capacity:
                    job = next(waiting, None)
                    if job is None:
                        exhausted = True
                    else:
                        self.submit(job)
                if not self.in_flight:
                    return
                result = self.next_result(None if stop is None else LOOK_SECONDS)
                if result is not None:
                    yield result
        finally:
            self.cancel()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()


def make_engine(
    backend: Backend = "inline",
    *,
    workers: Count | None = "auto",
    retries: int = RETRIES,
    unsafe_hooks: bool = False,
    episodes_per_worker: Count = "auto",
    snapshots: SnapshotMode = "auto",
    ray_address: str | None = None,
) -> Engine:
    """Make an engine. `inline` plays in this process, one episode at a time; `pool` in up to `workers` processes.

    `ray` plays in as many actors of a cluster: the one at `ray_address` (host:port), or one that it starts for itself.

    `auto` fits the pool to the work: as many workers as there are cores to use, each with one episode of a policy that
    computes, or with its part of what the endpoints take of a policy that waits for a model, bounded by memory and
    descriptors. Numbers hold as they are; None is `auto`. The environments of one worker take turns on one thread.
    `unsafe_hooks` runs Contract hooks unconfined. `snapshots` says when rollouts are forked from one staged start:
    `auto` where that has proved to pay, `always` where it can be done, or `never`. The episodes are the same.
    """
    workers = "auto" if workers is None else workers
    if retries < 0 or any(count != "auto" and count < 1 for count in (workers, episodes_per_worker)):
        raise ValueError("retries must be at least 0, workers and episodes_per_worker at least 1, or 'auto'")
    if backend == "inline":
        from envharness.rollouts.backends.inline import InlineEngine

        return InlineEngine(retries=retries, unsafe_hooks=unsafe_hooks, snapshots=snapshots)
    if backend == "ray":
        from envharness.rollouts.backends.ray import RayEngine

        return RayEngine(
            address=ray_address,
            workers=workers,
            retries=retries,
            unsafe_hooks=unsafe_hooks,
            episodes_per_worker=episodes_per_worker,
            snapshots=snapshots,
        )
    from envharness.rollouts.backends.pool import PoolEngine

    return PoolEngine(
        workers=workers,
        retries=retries,
        unsafe_hooks=unsafe_hooks,
        episodes_per_worker=episodes_per_worker,
        snapshots=snapshots,
    )
