"""The driver: many task plans over one engine and one store, with the same content whatever the finish order."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

from envharness.core.trace import Episode
from envharness.rigger.plan import Batch, TaskPlan
from envharness.rigger.records import TaskResult
from envharness.rollouts.engine import Engine
from envharness.rollouts.job import RolloutJob
from envharness.store.database import RunStore

WAIT_SECONDS = 1.0
"""How long one look for a finished episode may block, so that Ctrl-C is answered."""


@dataclass
class _Running:
    """One plan and the batch it waits for."""

    name: str
    plan: TaskPlan
    batch: Batch
    missing: set[str] = field(default_factory=set[str])
    found: dict[str, Episode] = field(default_factory=dict[str, Episode])

    def take(self, key: str, episode: Episode) -> None:
        """Take one of the episodes waited for."""
        self.missing.discard(key)
        self.found[key] = episode

    def episodes(self) -> list[Episode]:
        """Return the batch's episodes in the order of its jobs."""
        return [self.found[job.key] for job in self.batch.jobs]


@dataclass
class Driver:
    """Feeds plans with episodes: from the store where they are, from the engine where they are not.

    Each episode is in the store before a plan sees it. At most `window` plans are begun at a time, so that tasks finish
    early and the queue stays short.
    """

    store: RunStore
    engine: Engine
    window: int = 32
    on_episode: Callable[[str, Episode], None] | None = None
    """Called with the phase and the episode after each rollout that was played (not for one found in the store)."""
    _waiting: dict[str, list[_Running]] = field(default_factory=dict[str, list[_Running]])
    _phases: dict[str, str] = field(default_factory=dict[str, str])

    def run(self, plans: Iterable[tuple[str, TaskPlan]]) -> Iterator[tuple[str, TaskResult]]:
        """Yield (name, result) as plans come to their end."""
        pending = iter(plans)
        ready: deque[tuple[str, TaskPlan, list[Episode] | None]] = deque()
        active = 0
        while True:
            while active < self.window and (entry := next(pending, None)) is not None:
                ready.append((*entry, None))
                active += 1
            if ready:
                result = self._advance(*ready.popleft(), ready)
                if result is not None:
                    active -= 1
                    yield result
            elif active:
                self._collect(ready)
            else:
                return

    def _advance(
        self,
        name: str,
        plan: TaskPlan,
        episodes: list[Episode] | None,
        ready: deque[tuple[str, TaskPlan, list[Episode] | None]],
    ) -> tuple[str, TaskResult] | None:
        """Send a plan what it waits for; ask for what it wants next."""
        try:
            batch = next(plan) if episodes is None else plan.send(episodes)
        except StopIteration as end:
            return name, end.value
        running = _Running(name, plan, batch)
        for job in batch.jobs:
            episode = self.store.get_episode(job.key)
            if episode is None:
                running.missing.add(job.key)
                self._request(job, running)
            else:
                running.take(job.key, episode)
        if not running.missing:
            ready.append((name, plan, running.episodes()))
        return None

    def _request(self, job: RolloutJob, running: _Running) -> None:
        """Submit a job once, however many plans ask for it."""
        waiting = self._waiting.setdefault(job.key, [])
        if not waiting:
            self._phases[job.key] = running.batch.phase
            self.engine.submit(job)
        if running not in waiting:
            waiting.append(running)

    def _collect(self, ready: deque[tuple[str, TaskPlan, list[Episode] | None]]) -> None:
        """Wait for one episode, keep it, and wake the plans whose batch it completes."""
        finished = self.engine.next_result(WAIT_SECONDS)
        if finished is None:
            return
        job, episode = finished
        phase = self._phases.pop(job.key)
        self.store.put_episode(job.key, phase, episode)
        if self.on_episode is not None:
            self.on_episode(phase, episode)
        for running in self._waiting.pop(job.key):
            running.take(job.key, episode)
            if not running.missing:
                ready.append((running.name, running.plan, running.episodes()))
