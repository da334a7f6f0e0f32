"""The driver: many task plans over one engine, one store and its models, the same content whatever the finish order."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

from envharness.core.errors import BudgetExhaustedError, ProviderRefusedError
from envharness.core.trace import Episode
from envharness.rigger.calls import ModelDesk, call_key, store_answer, stored_answer
from envharness.rigger.plan import TaskPlan
from envharness.rigger.records import TaskResult
from envharness.rigger.requests import Answered, Batch, Call, Reply
from envharness.rollouts.blame import refused_by_provider
from envharness.rollouts.engine import Engine
from envharness.rollouts.interrupts import StopRequest
from envharness.rollouts.job import RolloutJob
from envharness.rollouts.ledger import Budget, Ledger, read_ledger
from envharness.store.database import RunStore

WAIT_SECONDS = 1.0
"""How long one look for a finished episode may block, so that Ctrl-C is answered."""
TURN_SECONDS = 0.05
"""How long a look may block where rollouts and model calls are both in flight, so that neither waits for the other."""

Ready = deque[tuple[str, TaskPlan, Reply | None]]


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
    """Feeds plans with episodes and answers: from the store where they are, else from the engine and the models.

    Each episode and each answer is in the store before a plan sees it. At most `window` plans are begun at a time, so
    that tasks finish early and the queue stays short.
    """

    store: RunStore
    engine: Engine
    desk: ModelDesk
    window: int = 32
    budget: Budget = field(default_factory=Budget)
    """What model calls may use, those of earlier starts of the run included."""
    ledger: Ledger = field(default_factory=Ledger)
    """What the run has used so far, earlier starts included; filled by `run`."""
    stop: StopRequest = field(default_factory=StopRequest)
    """Once it is asked for nothing is begun any more; what is in flight is finished and kept, and the signal raised."""
    on_episode: Callable[[str, Episode], None] | None = None
    """Called with the phase and the episode after each rollout that was played (not for one found in the store)."""
    _waiting: dict[str, list[_Running]] = field(default_factory=dict[str, list[_Running]])
    _phases: dict[str, str] = field(default_factory=dict[str, str])
    _playing: int = 0
    _held: deque[RolloutJob | Call] = field(default_factory=deque[RolloutJob | Call])
    _asking: dict[str, tuple[str, TaskPlan, Call]] = field(default_factory=dict[str, tuple[str, TaskPlan, Call]])

    def run(self, plans: Iterable[tuple[str, TaskPlan]]) -> Iterator[tuple[str, TaskResult]]:
        """Yield (name, result) as plans come to their end.

        Raises BudgetExhaustedError once all that was begun is kept, ProviderRefusedError at once, and what `stop`
        raises once all that was in flight is kept.
        """
        self.ledger = read_ledger(self.store)
        try:
            yield from self._run(plans)
        except ProviderRefusedError:
            while (finished := self.engine.next_result(0)) is not None:
                self._keep(*finished)
            for key, answered in self.desk.drain():
                self._keep_answer(self._asking.pop(key)[2], answered)
            raise

    def _run(self, plans: Iterable[tuple[str, TaskPlan]]) -> Iterator[tuple[str, TaskResult]]:
        pending = iter(plans)
        ready: Ready = deque()
        active = 0
        while True:
            if self.stop.asked:
                self._finish_in_flight(ready)
                self.stop.raise_()
            while active < self.window and (entry := next(pending, None)) is not None:
                ready.append((*entry, None))
                active += 1
            if ready:
                result = self._advance(*ready.popleft(), ready)
                if result is not None:
                    active -= 1
                    yield result
            elif active:
                self._send()
                self._collect(ready)
            else:
                return

    def _advance(
        self,
        name: str,
        plan: TaskPlan,
        reply: Reply | None,
        ready: Ready,
    ) -> tuple[str, TaskResult] | None:
        """Send a plan what it waits for; ask for what it wants next."""
        try:
            wanted = next(plan) if reply is None else plan.send(reply)
        except StopIteration as end:
            return name, end.value
        if isinstance(wanted, Call):
            self._ask(name, plan, wanted, ready)
        else:
            self._play(_Running(name, plan, wanted), ready)
        return None

    def _ask(self, name: str, plan: TaskPlan, call: Call, ready: Ready) -> None:
        """Answer a call from the store, or ask the model."""
        known = stored_answer(self.store, call)
        if known is not None:
            ready.append((name, plan, known))
            return
        self._asking[call_key(call)] = (name, plan, call)
        self._held.append(call)

    def _play(self, running: _Running, ready: Ready) -> None:
        """Take a batch's episodes from the store, and request those that are missing."""
        batch = running.batch
        for job in batch.jobs:
            episode = self.store.get_episode(job.key)
            if episode is None:
                running.missing.add(job.key)
                self._request(job, running)
            else:
                running.take(job.key, episode)
        if not running.missing:
            ready.append((running.name, running.plan, running.episodes()))

    def _request(self, job: RolloutJob, running: _Running) -> None:
        """Submit a job once, however many plans ask for it."""
        waiting = self._waiting.setdefault(job.key, [])
        if not waiting:
            self._phases[job.key] = running.batch.phase
            self._held.append(job)
        if running not in waiting:
            waiting.append(running)

    def _send(self) -> None:
        """Begin what plans wait for, as far as the budget goes.

        With a budget no more rollouts are begun than keep the engine busy, for what is begun is paid for.
        """
        spent = self.budget.exhausted_by(self.ledger.total)
        limited = self.budget != Budget()
        while self._held and not spent:
            if isinstance(wanted := self._held[0], Call):
                self.desk.submit(wanted)
            elif limited and self._playing >= self.engine.capacity:
                return
            else:
                self.engine.submit(wanted)
                self._playing += 1
            self._held.popleft()
        if self._held and not self._playing and not self.desk.in_flight:
            raise BudgetExhaustedError(
                f"the budget is spent: {spent}; paused with {len(self._held)} rollouts and calls waiting. "
                "Everything finished is kept: raise 'budget' and give the same command to go on"
            )

    def _finish_in_flight(self, ready: Ready) -> None:
        """Keep what is being played and asked; what was not begun is left to the next start."""
        self._held.clear()
        self.engine.withdraw()
        while self.engine.in_flight or self.desk.in_flight:
            if self.desk.in_flight:
                self._collect_answer(ready, TURN_SECONDS)
            if self.engine.in_flight:
                self._collect_episode(ready, TURN_SECONDS)

    def _collect(self, ready: Ready) -> None:
        """Wait for one episode or answer."""
        if self.desk.in_flight:
            self._collect_answer(ready, 0.0 if self._playing else WAIT_SECONDS)
            if ready:
                return
        if self._playing:
            self._collect_episode(ready, TURN_SECONDS if self.desk.in_flight else WAIT_SECONDS)

    def _collect_answer(self, ready: Ready, timeout: float) -> None:
        """Keep an answer that has come, and wake its plan."""
        finished = self.desk.next_result(timeout)
        if finished is None:
            return
        key, answered = finished
        name, plan, call = self._asking.pop(key)
        self._keep_answer(call, answered)
        ready.append((name, plan, answered))

    def _keep_answer(self, call: Call, answered: Answered) -> None:
        store_answer(self.store, call, answered)
        if answered.answer is not None:
            self.ledger.add(call.request.role, call.request.task, answered.answer.usage)

    def _collect_episode(self, ready: Ready, timeout: float) -> None:
        """Keep an episode that is done, and wake the plans whose batch it completes."""
        finished = self.engine.next_result(timeout)
        if finished is None:
            return
        job, episode = finished
        self._keep(job, episode)
        if refused_by_provider(episode):
            raise ProviderRefusedError(f"{episode.outcome.detail}; everything finished is kept")
        for running in self._waiting.pop(job.key):
            running.take(job.key, episode)
            if not running.missing:
                ready.append((running.name, running.plan, running.episodes()))

    def _keep(self, job: RolloutJob, episode: Episode) -> None:
        phase = self._phases.pop(job.key)
        self._playing -= 1
        self.store.put_episode(job.key, phase, episode)
        self.ledger.add_episode(episode)
        if self.on_episode is not None:
            self.on_episode(phase, episode)
