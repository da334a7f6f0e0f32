"""The inline engine: plays in this process, one episode at a time, in the order of submission."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterator

from envharness.core.trace import Episode
from envharness.core.usage import Meter, Usage
from envharness.rollouts.blame import after, worth_another_try
from envharness.rollouts.engine import Engine
from envharness.rollouts.environment_thread import EnvironmentThread
from envharness.rollouts.episode import play
from envharness.rollouts.job import RolloutJob
from envharness.rollouts.snapshots.snapshots import SnapshotMode, Snapshots


class InlineEngine(Engine):
    """Plays a job when its result is asked for. All environments live on one thread, one after another.

    An environment call that hangs is given up after its limit, and its thread is left behind until the process ends. A
    policy that blocks without awaiting cannot be stopped here; the pool can end its process.
    """

    def __init__(self, *, retries: int, unsafe_hooks: bool = False, snapshots: SnapshotMode = "auto") -> None:
        self._retries = retries
        self._unsafe_hooks = unsafe_hooks
        self._queue: deque[RolloutJob] = deque()
        self._cut: list[tuple[RolloutJob, Usage]] = []
        """What was being played when something from outside ended it, and what it had used."""
        self._thread: EnvironmentThread | None = None
        self._runner = asyncio.Runner()
        self._snapshots = Snapshots(snapshots)

    def submit(self, job: RolloutJob) -> None:
        """Queue a job."""
        self._queue.append(job)

    def next_result(self, timeout: float | None = None) -> tuple[RolloutJob, Episode] | None:
        """Play the next job to its end, however long `timeout` is; None where none is queued, or `timeout` is 0."""
        if not self._queue or timeout == 0:
            return None
        job = self._queue.popleft()
        episode: Episode | None = None
        meter = Meter()
        try:
            for attempt in range(1, self._retries + 2):
                meter.used = Usage()
                episode = after(episode, self._play(job, attempt, meter))
                if not worth_another_try(episode):
                    break
        except BaseException:
            former = Usage() if episode is None else episode.usage + episode.wasted
            self._cut.append((job, meter.used + former))
            raise
        return None if episode is None else (job, episode)

    @property
    def in_flight(self) -> int:
        """Jobs submitted and not yet returned."""
        return len(self._queue)

    @property
    def capacity(self) -> int:
        """One at a time."""
        return 1

    def withdraw(self) -> None:
        """Forget what is queued: nothing is being played between two calls."""
        self._queue.clear()

    def cancel(self) -> None:
        """Forget what is queued."""
        self._queue.clear()

    def abort(self) -> Iterator[tuple[RolloutJob, Usage]]:
        """Forget what is queued, and yield what was used by the episode that a signal ended."""
        self.cancel()
        while self._cut:
            yield self._cut.pop()

    def close(self) -> None:
        """Forget what is queued and let the environments' thread end."""
        self.cancel()
        # First the loop: an episode that a signal left behind is ended there, and closes its environment on the thread.
        self._runner.close()
        if self._thread is not None:
            self._thread.close()
            self._thread = None
        self._snapshots.close()

    def _play(self, job: RolloutJob, attempt: int, meter: Meter) -> Episode:
        if self._thread is not None and self._thread.stuck:
            self._thread.close()
            self._thread = None
        if self._thread is None:
            self._thread = EnvironmentThread()
        thread, episodes = self._thread, list[Episode]()

        async def play_job() -> None:
            # Not returned: the runner's signal handling spells out the task with its result, which costs more than
            # a short episode does.
            episodes.append(
                await play(
                    job,
                    host=thread,
                    attempt=attempt,
                    worker="inline",
                    unsafe_hooks=self._unsafe_hooks,
                    snapshots=self._snapshots,
                    meter=meter,
                )
            )

        self._runner.run(play_job())
        return episodes[0]
