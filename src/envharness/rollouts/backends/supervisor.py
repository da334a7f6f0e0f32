"""The pool's supervisor: one thread that starts workers, hands them jobs, hears them, and ends those that hang."""

from __future__ import annotations

import selectors
import socket
import threading
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from time import monotonic
from typing import Literal

from pydantic import ValidationError

from envharness.core.errors import MachineryError
from envharness.core.messages import one_line
from envharness.core.trace import Episode, InvalidCause, Outcome
from envharness.rollouts.backends.frames import JOB, READY, RESULT, STUCK, Frame
from envharness.rollouts.backends.worker_process import Ticket, WorkerProcess, WorkerSettings
from envharness.rollouts.blame import after, worth_another_try
from envharness.rollouts.job import RolloutJob

MAX_FAILED_STARTS = 3
"""Workers in a row that end before they are ready; then starting more is no use."""
LONGEST_SLEEP = 3600.0
"""Seconds after which it looks around in any case; the kernel takes no timeout of many days."""


@dataclass(frozen=True)
class Finished:
    """A job with its episode."""

    generation: int
    job: RolloutJob
    episode: Episode


@dataclass(frozen=True)
class Withdrawn:
    """Jobs that were taken back before they were begun."""

    generation: int
    jobs: int


Order = Ticket | Literal["withdraw", "cancel", "close"]


class Supervisor:
    """Owns the workers. Other threads talk to it by `submit`, `withdraw`, `cancel` and `close`; `finished` hears it.

    Workers are its children: the kernel ends them when this thread ends, so it lasts as long as the engine.
    """

    def __init__(
        self,
        settings: WorkerSettings,
        *,
        workers: int,
        episodes_per_worker: int,
        retries: int,
        finished: Callable[[Finished | Withdrawn], None],
    ) -> None:
        self.fault: str | None = None
        """Why it gave up; None while all is well."""
        self._settings = settings
        self._max_workers = workers
        self._episodes_per_worker = episodes_per_worker
        self._retries = retries
        self._finished = finished
        self._orders: SimpleQueue[Order] = SimpleQueue()
        self._wake_reader, self._wake_writer = socket.socketpair()
        self._wake_reader.setblocking(False)
        self._wake_writer.setblocking(False)
        self._waiting: deque[Ticket] = deque()
        self._workers: list[WorkerProcess] = []
        self._started = 0
        self._failed_starts = 0
        self._closing = False
        self._withdrawing = False
        self._thread: threading.Thread | None = None

    # --- for other threads -------------------------------------------------------------------------------------------

    def submit(self, ticket: Ticket) -> None:
        """Queue a ticket. The thread starts with the first one."""
        if self._closing:
            raise RuntimeError("the engine is closed")
        if self._thread is None:
            self._thread = threading.Thread(target=self._supervise, name="supervisor", daemon=True)
            self._thread.start()
        self._order(ticket)

    def withdraw(self) -> None:
        """Take back what no worker plays, now and as it comes back for another attempt, until the next `submit`."""
        self._order("withdraw")

    def cancel(self) -> None:
        """Drop all tickets."""
        self._order("cancel")

    def close(self) -> None:
        """End all workers and the thread. Idempotent."""
        self._closing = True
        if self._thread is not None:
            self._order("close")
            self._thread.join()
            self._thread = None
        self._wake_reader.close()
        self._wake_writer.close()

    def _order(self, order: Order) -> None:
        self._orders.put(order)
        with suppress(BlockingIOError):  # full: it will wake up all the same
            self._wake_writer.send(b"!")

    # --- the thread --------------------------------------------------------------------------------------------------

    def _supervise(self) -> None:
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._wake_reader, selectors.EVENT_READ, self._take_orders)
        try:
            while not (self._closing and not self._workers):
                self._hand_out()
                for key, _ in self._selector.select(self._seconds_to_next_deadline()):
                    key.data()
                self._end_the_late()
        except Exception as error:  # noqa: BLE001  told to whoever waits for results
            self.fault = f"the pool's supervisor failed: {type(error).__name__}: {error}"
        finally:
            for worker in list(self._workers):
                self._end(worker)
            self._selector.close()

    def _take_orders(self) -> None:
        self._wake_reader.recv(4096)
        while True:
            try:
                order = self._orders.get_nowait()
            except Empty:
                return
            if isinstance(order, Ticket):
                self._withdrawing = False
                self._waiting.append(order)
                continue
            if order == "withdraw":
                self._withdrawing = True
                self._take_back()
                continue
            self._waiting.clear()
            for worker in list(self._workers):
                if worker.tickets:
                    worker.tickets.clear()
                    worker.ask_to_stop()
                elif order == "close" and worker.state != "stopping":
                    self._end(worker)

    def _take_back(self) -> None:
        """Give back what waits, where it was asked for."""
        if self._withdrawing:
            while self._waiting:
                self._finished(Withdrawn(self._waiting.popleft().generation, 1))

    def _hand_out(self) -> None:
        """Give waiting tickets to free workers, and start workers while there is more work than room."""
        self._take_back()
        for worker in self._workers:
            while self._waiting and worker.state == "ready" and len(worker.tickets) < self._episodes_per_worker:
                self._give(worker, self._waiting.popleft())
        if self.fault is not None or self._closing:
            return
        alive = [worker for worker in self._workers if worker.state != "stopping"]
        coming = sum(self._episodes_per_worker for worker in alive if worker.state == "starting")
        missing = len(self._waiting) - coming
        for _ in range(min(-(-missing // self._episodes_per_worker), self._max_workers - len(alive))):
            self._start()

    def _give(self, worker: WorkerProcess, ticket: Ticket) -> None:
        ticket.deadline = monotonic() + ticket.job.limits.episode_seconds + self._settings.grace_seconds
        worker.tickets[ticket.number] = ticket
        worker.send(Frame(JOB, ticket.number, ticket.attempt, ticket.job.model_dump_json().encode()))
        self._watch(worker)

    def _start(self) -> None:
        self._started += 1
        worker = WorkerProcess(f"worker-{self._started}", self._settings)
        self._workers.append(worker)
        self._selector.register(worker.channel, selectors.EVENT_READ, lambda: self._serve(worker))
        self._selector.register(worker.output, selectors.EVENT_READ, lambda: self._listen(worker))

    def _watch(self, worker: WorkerProcess) -> None:
        """Wait for room to send only while there is something to send."""
        events = selectors.EVENT_READ | (selectors.EVENT_WRITE if worker.has_unsent else 0)
        self._selector.modify(worker.channel, events, lambda: self._serve(worker))

    def _listen(self, worker: WorkerProcess) -> None:
        if worker in self._workers and not worker.listen():
            self._selector.unregister(worker.output)

    def _serve(self, worker: WorkerProcess) -> None:
        if worker not in self._workers:
            return  # ended earlier in this very round
        worker.flush()
        self._watch(worker)
        try:
            frames = worker.receive()
            if frames is None:
                self._lost(worker)
                return
            for frame in frames:
                self._hear(worker, frame)
        except (MachineryError, ValidationError) as error:
            self._lost(worker, f"it sent what is no episode: {one_line(error)}; ")

    def _hear(self, worker: WorkerProcess, frame: Frame) -> None:
        if frame.kind == READY:
            self._failed_starts = 0
            if worker.state == "starting":
                worker.state = "ready"
                worker.deadline = float("inf")
        elif frame.kind == RESULT:
            episode = Episode.model_validate_json(frame.payload)
            ticket = worker.tickets.pop(frame.ticket, None)
            if ticket is not None:
                self._settle(ticket, episode)
        elif frame.kind == STUCK:
            # Its other episodes wait for the same thread. They are begun anew, and it was not their attempt.
            self._waiting.extendleft(worker.tickets.values())
            self._end(worker)
        else:
            worker.state = "stopping"
            worker.deadline = float("inf")
        if worker.state == "stopping" and worker.deadline == float("inf") and not worker.tickets:
            worker.ask_to_stop()

    def _settle(self, ticket: Ticket, episode: Episode) -> None:
        """Hand an episode out, or queue its job for another attempt."""
        episode = after(ticket.former, episode)
        if worth_another_try(episode) and ticket.attempt <= self._retries and not self._withdrawing:
            ticket.attempt += 1
            ticket.former = episode
            self._waiting.appendleft(ticket)
        else:
            self._finished(Finished(ticket.generation, ticket.job, episode))

    def _lost(self, worker: WorkerProcess, why: str = "") -> None:
        """A worker ended by itself, or talks nonsense."""
        how = self._end(worker)
        if worker.state == "starting":
            self._failed_starts += 1
            if self._failed_starts >= MAX_FAILED_STARTS:
                self.fault = f"worker processes cannot be started: {how}"
        for ticket in worker.tickets.values():
            detail = f"the worker ended in mid-episode: {why}{how}"
            self._settle(ticket, _invalid(ticket, worker, "worker_died", detail))

    def _end_the_late(self) -> None:
        now = monotonic()
        for worker in list(self._workers):
            late = [ticket for ticket in worker.tickets.values() if ticket.deadline <= now]
            if not late and worker.deadline > now:
                continue
            starting = worker.state == "starting"
            if starting:
                self._lost(worker)
                continue
            self._end(worker)
            for ticket in worker.tickets.values():
                if ticket in late:
                    seconds = ticket.job.limits.episode_seconds
                    detail = f"the episode did not end within {seconds:g} s, nor shortly after; its worker was ended"
                    self._settle(ticket, _invalid(ticket, worker, "time_limit", detail))
                else:
                    self._waiting.appendleft(ticket)

    def _end(self, worker: WorkerProcess) -> str:
        self._workers.remove(worker)
        for stream in (worker.channel, worker.output):
            if stream.fileno() in self._selector.get_map():
                self._selector.unregister(stream)
        return worker.end()

    def _seconds_to_next_deadline(self) -> float | None:
        deadlines = [worker.deadline for worker in self._workers]
        deadlines += [ticket.deadline for worker in self._workers for ticket in worker.tickets.values()]
        nearest = min(deadlines, default=float("inf"))
        return None if nearest == float("inf") else min(max(nearest - monotonic(), 0.0), LONGEST_SLEEP)


def _invalid(ticket: Ticket, worker: WorkerProcess, cause: InvalidCause, detail: str) -> Episode:
    """Return the episode of which nothing but its end is known."""
    job = ticket.job
    return Episode(
        task=job.task,
        index=job.index,
        seed=job.policy_seed,
        outcome=Outcome(kind="invalid", reason=cause, detail=detail),
        attempt=ticket.attempt,
        worker=worker.name,
    )
