"""The Ray engine: warm actors on the nodes of a cluster. The only module that imports Ray."""

from __future__ import annotations

import importlib
import sys
from collections import Counter, deque
from contextlib import suppress
from dataclasses import dataclass, field
from time import monotonic
from typing import Any, Literal

from envharness.core.errors import ConfigError, MachineryError
from envharness.core.labels import Label, end_part
from envharness.core.trace import Episode
from envharness.rollouts.backends.lanes import Lanes, Seats, SharedBackends
from envharness.rollouts.backends.ray_actor import ActorOrders, Mark, RolloutActor
from envharness.rollouts.backends.ray_cluster import RayCluster, first_line
from envharness.rollouts.backends.worker_process import Ticket, registered_ids
from envharness.rollouts.blame import after, lost, worth_another_try
from envharness.rollouts.demand import COMPUTES, Demand, Demands, kinds_of
from envharness.rollouts.engine import Engine
from envharness.rollouts.episode import CLOSE_SECONDS
from envharness.rollouts.job import RolloutJob
from envharness.rollouts.sizing import MOST, Count, Machine
from envharness.rollouts.snapshots.snapshots import SnapshotMode

MAX_EPISODES = 2000
MAX_MEMORY_BYTES = 1 << 30
"""Engines leak: an actor retires after so many episodes, or at so much memory."""
GRACE_SECONDS = 2 * CLOSE_SECONDS + 5
"""Beyond an episode's own limit, which the actor keeps by itself: closing policy and environment, and some air."""
START_SECONDS = 300.0
"""What may pass without one actor that is ready: a busy cluster makes them wait for a processor."""
STOP_SECONDS = 3.0
"""What actors that were asked to stop may take to close their environments."""
HEAD_SECONDS = 30.0
"""How long the head may be silent. After 60 s Ray would end the driver's process."""
MAX_FAILED_STARTS = 3
"""Actors in a row that end before they are ready; then starting more is no use."""
LARGE_BYTES = 100_000
"""Stacks and policies above this go into the object store, once, instead of along with every job."""
_PATIENCE = 0.5
_MOST_SHARED = 32


@dataclass(eq=False)
class _Actor:
    """An actor as the driver sees it."""

    name: str
    seat: int
    handle: Any
    label: Label
    ready: bool = False
    retiring: bool = False
    tickets: dict[int, Ticket] = field(default_factory=dict[int, Ticket])


class RayEngine(Engine):
    """Plays in up to `workers` actors, `episodes_per_worker` at a time in each.

    `address` is the `host:port` of a cluster to join; None uses the one this process has joined already, and otherwise
    starts one on this machine, which `close` ends. An actor or node that is lost costs its episodes an attempt. Raises
    ConfigError where Ray is not installed, MachineryError where no cluster answers.
    """

    def __init__(
        self,
        *,
        address: str | None = None,
        workers: Count = "auto",
        retries: int,
        unsafe_hooks: bool = False,
        episodes_per_worker: Count = "auto",
        max_episodes: int = MAX_EPISODES,
        max_memory_bytes: int = MAX_MEMORY_BYTES,
        grace_seconds: float = GRACE_SECONDS,
        head_seconds: float = HEAD_SECONDS,
        start_seconds: float = START_SECONDS,
        snapshots: SnapshotMode = "auto",
    ) -> None:
        self._cluster = RayCluster(_import_ray(), address, workers)
        self._ray = self._cluster.ray
        count = self._cluster.processors() if workers == "auto" else workers
        self._retries = retries
        self._grace, self._head_seconds, self._start_seconds = grace_seconds, head_seconds, start_seconds
        self._orders = ActorOrders(
            name="",
            path=sys.path,
            unsafe_hooks=unsafe_hooks,
            max_episodes=max_episodes,
            max_memory_bytes=max_memory_bytes,
            seat=0,
            seats=count,
            registered=registered_ids(),
            snapshots=snapshots,
        )
        self._demands, self._shared = Demands(), SharedBackends()
        machine = Machine(cores=count)
        self._seats = Seats(count, episodes_per_worker=episodes_per_worker, machine=machine)
        self._at_once: dict[tuple[str, ...], int] = {}
        self._waiting = Lanes()
        self._actors: list[_Actor] = []
        self._answers: dict[Any, tuple[Literal["ready", "play", "built"], _Actor, Ticket | None]] = {}
        """What was asked of actors: the reference of the answer, and what it is about."""
        self._results: deque[tuple[RolloutJob, Episode]] = deque()
        self._put: dict[bytes, Any] = {}
        self._started = self._submitted = self._failed_starts = 0
        self._withdrawing = self._closed = False
        self._last_ready = self._last_heard = monotonic()

    # --- the protocol ------------------------------------------------------------------------------------------------

    def submit(self, job: RolloutJob) -> None:
        """Queue a job; actors are started as there is work for them."""
        if self._closed:
            raise RuntimeError("the engine is closed")
        if not self._actors and not self._waiting:
            self._last_ready = self._last_heard = monotonic()
        self._submitted += 1
        self._withdrawing = False
        demand = self._demands.of(job)
        self._at_once[self._seats.group(demand)] = sum(self._seats.places(demand))
        self._waiting.append(Ticket(self._submitted, job, 0, demand=demand, kinds=kinds_of(job)))
        self._hand_out()

    def next_result(self, timeout: float | None = None) -> tuple[RolloutJob, Episode] | None:
        """Return a finished episode, waiting for one; None after `timeout` seconds or where nothing is in flight.

        Raises MachineryError where actors cannot be started at all, or where the cluster's head is gone.
        """
        until = None if timeout is None else monotonic() + timeout
        while self.in_flight:
            if self._results:
                return self._results.popleft()
            self._hand_out()
            left = _PATIENCE if until is None else max(min(until - monotonic(), _PATIENCE), 0.0)
            self._hear(left)
            self._end_the_late()
            self._check_cluster()
            if not self._results and until is not None and monotonic() >= until:
                return None
        return None

    @property
    def in_flight(self) -> int:
        """Jobs submitted and not yet returned."""
        return len(self._waiting) + sum(len(actor.tickets) for actor in self._actors) + len(self._results)

    @property
    def capacity(self) -> int:
        """Two jobs a place: one that is played and one that waits, so that no actor waits for the driver."""
        return 2 * (sum(self._at_once.values()) or sum(self._seats.places(COMPUTES)))

    def withdraw(self) -> None:
        """Take back what no actor plays; what comes back from one gets no further attempt."""
        self._withdrawing = True
        self._waiting.clear()

    def cancel(self) -> None:
        """Drop everything in flight. Actors that play are ended, and others take their place."""
        self._waiting.clear()
        self._results.clear()
        self._stop([actor for actor in self._actors if actor.tickets])

    def close(self) -> None:
        """Drop everything, end all actors, and the cluster where this engine started it."""
        if self._closed:
            return
        self.cancel()
        for actor in list(self._actors):
            self._end(actor)
        self._closed = True
        self._put.clear()
        self._cluster.leave()

    # --- handing out -------------------------------------------------------------------------------------------------

    def _hand_out(self) -> None:
        """Give waiting tickets to free actors, and start actors while there is more work than room."""
        self._waiting.hand_out(self._give)
        left: Counter[Demand] = Counter()
        for (demand, kinds), number in self._waiting.waiting():
            # Another actor is no use to those that wait for their turn at a shared backend.
            left[demand] += min(number, self._shared.free(kinds)) if self._shared.any_shared(kinds) else number
        taken = {actor.seat for actor in self._actors}
        missing = [seat for seat in range(self._seats.wanted(left)) if seat not in taken]
        # Without a head, asking for an actor would wait for it without end.
        if missing and self._cluster.answers():
            for seat in missing:
                self._start(seat)

    def _free_actor(self, ticket: Ticket) -> _Actor | None:
        if not self._shared.free(ticket.kinds):
            return None
        free = [
            actor
            for actor in self._actors
            if actor.ready and not actor.retiring and self._seats.has_room(actor.seat, ticket.demand)
        ]
        return min(free, key=lambda actor: len(actor.tickets), default=None)

    def _give(self, ticket: Ticket) -> bool:
        """Give a ticket to an actor; False where none may take it now."""
        actor = self._free_actor(ticket)
        if actor is None:
            return False
        ticket.deadline = monotonic() + ticket.job.limits.episode_seconds + self._grace
        actor.tickets[ticket.number] = ticket
        self._seats.take(actor.seat, ticket.demand)
        self._shared.take(ticket.kinds, ticket.number)
        shared, own = self._parts(ticket.job)
        played = actor.handle.play.remote(ticket.number, ticket.attempt, shared, own)
        self._answers[played] = ("play", actor, ticket)
        self._answers[actor.handle.built.remote(ticket.number)] = ("built", actor, ticket)
        return True

    def _parts(self, job: RolloutJob) -> tuple[Any, bytes]:
        """Return the job's JSON in two parts; the first, that many jobs have in common, as a reference if large."""
        common = {"stack", "policy"}
        shared = job.model_dump_json(include=common).encode()
        own = job.model_dump_json(exclude=common).encode()
        if len(shared) <= LARGE_BYTES:
            return shared, own
        if shared not in self._put:
            if len(self._put) >= _MOST_SHARED:
                del self._put[next(iter(self._put))]
            self._put[shared] = self._ray.put(shared)
        return self._put[shared], own

    def _start(self, seat: int) -> None:
        self._started += 1
        name, label = f"ray-{self._started}", self._cluster.label.new_part()
        orders = self._orders.model_copy(update={"name": name, "seat": seat})
        # Every actor orders sets alike, as the pool's workers do. Variables of its own give it a process of its own.
        variables = {"PYTHONHASHSEED": "0", **label.variables()}
        options = {"num_cpus": 1, "max_concurrency": 4 * MOST, "max_restarts": 0, "max_task_retries": 0}
        handle = (
            self._ray.remote(RolloutActor)
            .options(**options, scheduling_strategy="SPREAD", runtime_env={"env_vars": variables})
            .remote(orders.model_dump_json())
        )
        actor = _Actor(name, seat, handle, label)
        self._actors.append(actor)
        self._answers[handle.ready.remote()] = ("ready", actor, None)

    # --- hearing -----------------------------------------------------------------------------------------------------

    def _hear(self, seconds: float) -> None:
        """Take the answers that are there, waiting up to `seconds` for the first."""
        asked = list(self._answers)
        if not asked or not self._ray.wait(asked, num_returns=1, timeout=seconds)[0]:
            return
        answered, _ = self._ray.wait(asked, num_returns=len(asked), timeout=0)
        for reference in answered:
            if reference not in self._answers:
                continue  # of an actor that was ended in this very round
            kind, actor, ticket = self._answers.pop(reference)
            try:
                answer = self._ray.get(reference, timeout=HEAD_SECONDS)
            except self._ray.exceptions.RayError as error:
                self._lost(actor, error)
                continue
            self._last_heard = monotonic()
            if ticket is None:
                actor.ready, self._failed_starts, self._last_ready = True, 0, monotonic()
                self._cluster.look()
            elif kind == "built":
                self._shared.learn(ticket.kinds, answer)
            else:
                self._take(actor, ticket, *answer)

    def _take(self, actor: _Actor, ticket: Ticket, played: bytes, mark: Mark) -> None:
        del actor.tickets[ticket.number]
        self._give_back(actor, ticket)
        self._settle(ticket, Episode.model_validate_json(played))
        actor.retiring = actor.retiring or mark == "retiring"
        if mark == "stuck" or (actor.retiring and not actor.tickets):
            # Others wait for the thread that is stuck. They are begun anew, and it was not their attempt.
            self._waiting.put_back(self._end(actor))

    def _settle(self, ticket: Ticket, episode: Episode) -> None:
        """Hand an episode out, or queue its job for another attempt."""
        episode = after(ticket.former, episode)
        if worth_another_try(episode) and ticket.attempt <= self._retries and not self._withdrawing:
            ticket.attempt, ticket.former = ticket.attempt + 1, episode
            self._waiting.put_back([ticket])
        else:
            self._results.append((ticket.job, episode))

    def _lost(self, actor: _Actor, error: Exception) -> None:
        """An actor, or the node it was on, is gone."""
        why = first_line(error)
        self._put.clear()  # what was put may have been lost with a node
        if not actor.ready:
            self._failed_starts += 1
        for ticket in self._end(actor):
            self._put_lost(ticket, actor, "worker_died", f"the actor ended in mid-episode: {why}")
        if self._failed_starts >= MAX_FAILED_STARTS:
            raise MachineryError(f"Ray actors cannot be started: {why}")

    def _put_lost(
        self, ticket: Ticket, actor: _Actor, cause: Literal["worker_died", "time_limit"], detail: str
    ) -> None:
        self._settle(ticket, lost(ticket.job, cause, detail, attempt=ticket.attempt, worker=actor.name))

    def _end_the_late(self) -> None:
        now = monotonic()
        for actor in list(self._actors):
            late = {number for number, ticket in actor.tickets.items() if ticket.deadline <= now}
            if not late:
                continue
            for ticket in self._end(actor):
                if ticket.number not in late:
                    self._waiting.put_back([ticket])
                    continue
                seconds = ticket.job.limits.episode_seconds
                detail = f"the episode did not end within {seconds:g} s, nor shortly after; its actor was ended"
                self._put_lost(ticket, actor, "time_limit", detail)

    def _check_cluster(self) -> None:
        now = monotonic()
        if any(actor.ready for actor in self._actors):
            self._last_ready = now
        if now - self._last_heard > _PATIENCE and self._cluster.answers():
            self._last_heard = now
        if now - self._last_heard > self._head_seconds:
            raise MachineryError(
                f"the head of the Ray cluster at {self._cluster.head} has not answered for {self._head_seconds:g} s; "
                "start the cluster again, then run the same command to go on"
            )
        if self._waiting and now - self._last_ready > self._start_seconds:
            raise MachineryError(
                f"no Ray actor could be started in {self._start_seconds:g} s; each takes one processor of the "
                "cluster, and `ray status` says who has them"
            )

    # --- ending ------------------------------------------------------------------------------------------------------

    def _end(self, actor: _Actor) -> list[Ticket]:
        """End an actor and what it started on this machine; return the tickets it had."""
        self._actors.remove(actor)
        self._answers = {ref: about for ref, about in self._answers.items() if about[1] is not actor}
        if self._cluster.answers():
            with suppress(self._ray.exceptions.RayError):
                self._ray.kill(actor.handle)
        end_part(actor.label)
        tickets = list(actor.tickets.values())
        actor.tickets.clear()
        for ticket in tickets:
            self._give_back(actor, ticket)
        return tickets

    def _give_back(self, actor: _Actor, ticket: Ticket) -> None:
        self._seats.give_back(actor.seat, ticket.demand)
        self._shared.give_back(ticket.number)

    def _stop(self, actors: list[_Actor]) -> None:
        """Have actors cancel their episodes and close their environments, then end them."""
        if actors and self._cluster.answers():
            stopping = [actor.handle.stop.remote() for actor in actors]
            self._ray.wait(stopping, num_returns=len(stopping), timeout=STOP_SECONDS)
        for actor in actors:
            self._end(actor)


def _import_ray() -> Any:
    try:
        return importlib.import_module("ray")
    except ImportError as error:
        raise ConfigError(f"the backend 'ray' needs Ray: pip install 'envharness[ray]' ({error})") from error
