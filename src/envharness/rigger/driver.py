"""The driver: many task plans over one engine, one store and its models, the same content whatever the finish order."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from envharness.core.errors import BudgetExhaustedError, PolicyError, ProviderRefusedError
from envharness.core.trace import Episode
from envharness.llm.silence import Silence
from envharness.rigger.call_records import call_key, store_answer, stored_answer
from envharness.rigger.calls import ModelCalls
from envharness.rigger.requests import Answered, Batch, Call, Reply, Work
from envharness.rigger.results import put_budget
from envharness.rollouts.blame import refused_by_provider
from envharness.rollouts.engine import Engine
from envharness.rollouts.interrupts import StopRequest, Terminated
from envharness.rollouts.job import RolloutJob
from envharness.rollouts.ledger import Budget, Ledger, read_ledger
from envharness.store.database import RunStore

Result = TypeVar("Result")

WAIT_SECONDS = 1.0
"""How long one look for a finished episode may block, so that Ctrl-C is answered."""
TURN_SECONDS = 0.05
"""How long a look may block where rollouts and model calls are both in flight, so that neither waits for the other."""


@dataclass(frozen=True)
class _NamedPlan(Generic[Result]):
    """A plan and the name that its result is handed out under."""

    name: str
    plan: Work[Result]


@dataclass
class _PendingBatch(Generic[Result]):
    """A batch that a plan waits for."""

    waiting: _NamedPlan[Result]
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
class Driver(Generic[Result]):
    """Feeds plans with episodes and answers: from the store where they are, else from the engine and the models.

    Each episode and each answer is in the store before a plan sees it. At most `window` plans are begun at a time, so
    that tasks finish early and the queue stays short.
    """

    store: RunStore
    engine: Engine
    calls: ModelCalls
    window: int = 32
    budget: Budget = field(default_factory=Budget)
    """What model calls may use, those of earlier starts of the run included."""
    ledger: Ledger = field(default_factory=Ledger)
    """What the run has used so far, earlier starts included; filled by `run`."""
    stop: StopRequest = field(default_factory=StopRequest)
    """Once it is asked for nothing is begun any more; what is in flight is finished and kept, and the signal raised."""
    on_episode: Callable[[str, Episode], None] | None = None
    """Called with the phase and the episode after each rollout that was played (not for one found in the store)."""
    on_silence: Callable[[str], None] | None = None
    """Called with one line at the first rollout that nobody answered the policy in, while none is valid."""
    _silence: Silence = field(default_factory=Silence)
    _ready: deque[tuple[_NamedPlan[Result], Reply | None]] = field(
        default_factory=deque[tuple[_NamedPlan[Result], Reply | None]]
    )
    """Plans that can go on, with the reply to send; None begins one."""
    _batches: dict[str, list[_PendingBatch[Result]]] = field(default_factory=dict[str, list[_PendingBatch[Result]]])
    """For each job asked for, the batches that wait for its episode."""
    _calls: dict[str, tuple[_NamedPlan[Result], Call]] = field(
        default_factory=dict[str, tuple[_NamedPlan[Result], Call]]
    )
    """For each call asked for, the plan that waits for its answer."""
    _phases: dict[str, str] = field(default_factory=dict[str, str])
    """For each job asked for, where the store files its episode."""
    _unsent: deque[RolloutJob | Call] = field(default_factory=deque[RolloutJob | Call])
    _playing: int = 0
    """Jobs submitted whose episode has not come yet."""

    def run(self, plans: Iterable[tuple[str, Work[Result]]]) -> Iterator[tuple[str, Result]]:
        """Yield (name, result) as plans come to their end.

        Raises BudgetExhaustedError once all that was begun is kept, ProviderRefusedError at once, PolicyError once it
        is plain that nobody answers the policy, and what `stop` raises once all that was in flight is kept.
        """
        self.ledger = read_ledger(self.store)
        put_budget(self.store, self.budget)
        self._silence.over = self.store.has_valid()
        try:
            yield from self._run(plans)
        except (ProviderRefusedError, PolicyError, KeyboardInterrupt, Terminated):
            # What has come already was paid for.
            while (finished := self.engine.next_result(0)) is not None:
                self._keep(*finished)
            for key, answered in self.calls.drain():
                self._keep_answer(self._calls.pop(key)[1], answered)
            raise

    def _run(self, plans: Iterable[tuple[str, Work[Result]]]) -> Iterator[tuple[str, Result]]:
        pending = iter(plans)
        active = 0
        while True:
            if self.stop.asked:
                self._finish_in_flight()
                self.stop.raise_()
            while active < self.window and (entry := next(pending, None)) is not None:
                self._ready.append((_NamedPlan(*entry), None))
                active += 1
            if self._ready:
                result = self._advance(*self._ready.popleft())
                if result is not None:
                    active -= 1
                    yield result
            elif active:
                self._send()
                self._collect()
            else:
                return

    def _advance(self, waiting: _NamedPlan[Result], reply: Reply | None) -> tuple[str, Result] | None:
        """Send a plan what it waits for and ask for what it wants next; return its result where it has come to one."""
        try:
            wanted = next(waiting.plan) if reply is None else waiting.plan.send(reply)
        except StopIteration as end:
            return waiting.name, end.value
        if isinstance(wanted, Call):
            self._ask(waiting, wanted)
        else:
            self._play(_PendingBatch(waiting, wanted))
        return None

    def _ask(self, waiting: _NamedPlan[Result], call: Call) -> None:
        """Answer a call from the store, or ask the model."""
        known = stored_answer(self.store, call)
        if known is not None:
            self._ready.append((waiting, known))
            return
        self._calls[call_key(call)] = (waiting, call)
        self._unsent.append(call)

    def _play(self, pending: _PendingBatch[Result]) -> None:
        """Take a batch's episodes from the store, and request those that are missing."""
        for job in pending.batch.jobs:
            episode = self.store.get_episode(job.key)
            if episode is None:
                pending.missing.add(job.key)
                self._request(job, pending)
            else:
                pending.take(job.key, episode)
        if not pending.missing:
            self._ready.append((pending.waiting, pending.episodes()))

    def _request(self, job: RolloutJob, pending: _PendingBatch[Result]) -> None:
        """Submit a job once, however many batches hold it."""
        batches = self._batches.setdefault(job.key, [])
        if not batches:
            self._phases[job.key] = pending.batch.phase
            self._silence.ask(job.task)
            self._unsent.append(job)
        if pending not in batches:
            batches.append(pending)

    def _send(self) -> None:
        """Begin what plans wait for, as far as the budget goes.

        With a budget no more rollouts are begun than keep the engine busy, for what is begun is paid for.
        """
        spent = self.budget.exhausted_by(self.ledger.total)
        limited = self.budget != Budget()
        while self._unsent and not spent:
            if isinstance(wanted := self._unsent[0], Call):
                self.calls.submit(wanted)
            elif limited and self._playing >= self.engine.capacity:
                return
            else:
                self.engine.submit(wanted)
                self._playing += 1
            self._unsent.popleft()
        if self._unsent and not self._playing and not self.calls.in_flight:
            raise BudgetExhaustedError(
                f"the budget is spent: {spent}; paused with {len(self._unsent)} rollouts and calls waiting. "
                "Everything finished is kept: raise 'budget' and give the same command to go on"
            )

    def _finish_in_flight(self) -> None:
        """Keep what is being played and asked; what was not begun is left to the next start."""
        self._unsent.clear()
        self.engine.withdraw()
        while self.engine.in_flight or self.calls.in_flight:
            if self.calls.in_flight:
                self._collect_answer(TURN_SECONDS)
            if self.engine.in_flight:
                self._collect_episode(TURN_SECONDS)

    def _collect(self) -> None:
        """Wait for one episode or answer."""
        if self.calls.in_flight:
            self._collect_answer(0.0 if self._playing else WAIT_SECONDS)
            if self._ready:
                return
        if self._playing:
            self._collect_episode(TURN_SECONDS if self.calls.in_flight else WAIT_SECONDS)

    def _collect_answer(self, timeout: float) -> None:
        """Keep an answer that has come, and wake its plan."""
        finished = self.calls.next_result(timeout)
        if finished is None:
            return
        key, answered = finished
        waiting, call = self._calls.pop(key)
        self._keep_answer(call, answered)
        self._ready.append((waiting, answered))

    def _keep_answer(self, call: Call, answered: Answered) -> None:
        store_answer(self.store, call, answered)
        usage = answered.usage if answered.answer is None else answered.answer.usage
        self.ledger.add(call.request.role, call.request.task, usage)

    def _collect_episode(self, timeout: float) -> None:
        """Keep an episode that is done, and wake the plans whose batch it completes."""
        finished = self.engine.next_result(timeout)
        if finished is None:
            return
        job, episode = finished
        self._keep(job, episode)
        if refused_by_provider(episode):
            raise ProviderRefusedError(f"{episode.outcome.detail}; everything finished is kept")
        self._listen(episode)
        for pending in self._batches.pop(job.key):
            pending.take(job.key, episode)
            if not pending.missing:
                self._ready.append((pending.waiting, pending.episodes()))

    def _listen(self, episode: Episode) -> None:
        """Raise PolicyError where nobody answers the policy and there is more to play in vain."""
        news = self._silence.take(episode)
        if news and self.on_silence is not None:
            self.on_silence(news)
        if self._silence.complete and (self._playing or self._unsent):
            raise self._silence.error()

    def _keep(self, job: RolloutJob, episode: Episode) -> None:
        phase = self._phases.pop(job.key)
        self._playing -= 1
        self.store.put_episode(job.key, phase, episode, job.model_dump(mode="json"))
        self.ledger.add_episode(episode)
        if self.on_episode is not None:
            self.on_episode(phase, episode)
