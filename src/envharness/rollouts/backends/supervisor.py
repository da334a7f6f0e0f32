"""The pool's supervisor: one thread that starts workers, hands them jobs, hears them, and ends those that hang."""

from __future__ import annotations

import selectors
import socket
import threading
from collections import Counter
from contextlib import suppress
from queue import Empty, SimpleQueue
from time import monotonic
from typing import Literal, cast

import orjson
from pydantic import ValidationError

from envharness.core.errors import MachineryError
from envharness.core.messages import one_line
from envharness.core.trace import InvalidCause
from envharness.core.usage import Usage
from envharness.rollouts.backends.frames import BEGUN, BUILT, CUT, JOB, READY, RESULT, STUCK, Frame
from envharness.rollouts.backends.lanes import Lanes, Seats, SharedBackends
from envharness.rollouts.backends.memory import LOOK_SECONDS, MemoryWatch
from envharness.rollouts.backends.results import AllEnded, Cut, Finished, Told, Withdrawn
from envharness.rollouts.backends.worker_process import Ticket, WorkerProcess, WorkerSettings
from envharness.rollouts.blame import lost
from envharness.rollouts.demand import Demand, EnvironmentKind
from envharness.rollouts.machine import resident_memory
from envharness.rollouts.sizing import Count, Machine

MAX_FAILED_STARTS = 3
"""Workers in a row that end before they are ready; then starting more is no use."""
MAX_UNTAKEN = 64
MAX_UNTAKEN_BYTES = 1 << 27
"""Results that may wait to be taken before nothing more is begun; as many as are played at once, if that is more."""
LONGEST_SLEEP = 3600.0
"""Seconds after which it looks around in any case; the kernel takes no timeout of many days."""


Order = Ticket | Literal["withdraw", "cancel", "close", "taken"]


class Supervisor:
    """Owns the workers. Other threads `submit`, `withdraw`, `cancel`, `close`, and `take` what comes back.

    Workers are its children: the kernel ends them when this thread ends, so it lasts as long as the engine. It begins
    nothing while more results wait to be taken than `MAX_UNTAKEN` and the episodes at once, or more bytes of them.
    """

    def __init__(self, settings: WorkerSettings, *, episodes_per_worker: Count, machine: Machine) -> None:
        self.fault: str | None = None
        """Why it gave up; None while all is well."""
        self.seats = Seats(settings.seats, episodes_per_worker=episodes_per_worker, machine=machine)
        """How many episodes of which kind each worker plays at once."""
        self._settings = settings
        # A number of episodes that was set by hand holds, whatever the memory.
        self._memory = MemoryWatch(settings.max_memory_bytes) if episodes_per_worker == "auto" else None
        self._orders: SimpleQueue[Order] = SimpleQueue()
        self._played: SimpleQueue[Told] = SimpleQueue()
        self._bytes_played = self._bytes_taken = 0
        self._wake_reader, self._wake_writer = socket.socketpair()
        self._wake_reader.setblocking(False)
        self._wake_writer.setblocking(False)
        self._waiting = Lanes()
        self._shared = SharedBackends()
        self._workers: list[WorkerProcess] = []
        self._started = 0
        self._failed_starts = 0
        self._held_back = False
        self._closing = False
        self._withdrawing = False
        self._cancels = 0
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
        """Give back what no worker plays, now and as it comes back from one, until the next `submit`."""
        self._order("withdraw")

    def take(self, timeout: float) -> Told:
        """Take what was played or given back, in order. Raises Empty where there is nothing for so many seconds."""
        finished = self._played.get(timeout=timeout)
        if isinstance(finished, Finished) and isinstance(finished.played, bytes):
            self._bytes_taken += len(finished.played)
        if self._held_back:
            self._order("taken")
        return finished

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
                self._queue(order)
            elif order == "withdraw":
                self._withdrawing = True
            elif order != "taken":
                self._drop_all(closing=order == "close")

    def _queue(self, ticket: Ticket) -> None:
        if ticket.attempt == 1:
            self._waiting.append(ticket)
        else:
            self._waiting.put_back([ticket])

    def _drop_all(self, *, closing: bool) -> None:
        self._cancels += 1
        for ticket in self._waiting.take_all():
            self._played.put(Cut(ticket, ticket.spent))
        for worker in list(self._workers):
            if worker.tickets:
                worker.dropped = self._take_back(worker, dropped=True)
                for ticket in worker.dropped:
                    self._played.put(Cut(ticket, ticket.spent))
                worker.ask_to_stop()
            elif closing and worker.state != "stopping":
                self._end(worker)
        self._tell_if_all_ended()

    def _tell_if_all_ended(self) -> None:
        if not any(worker.dropped for worker in self._workers):
            self._played.put(AllEnded(self._cancels))

    def _hand_out(self) -> None:
        """Give waiting tickets to free workers, and start workers while there is more work than room."""
        if self._withdrawing:
            for ticket in self._waiting.take_all():
                self._played.put(Withdrawn(ticket.generation))
        self._held_back = True  # said first, so that whoever takes the last result meanwhile wakes this thread
        if self._is_held_back():
            return
        self._held_back = False
        if not self._waiting:
            return
        if self._memory is not None:
            self._memory.look(self._workers)
        self._waiting.hand_out(self._give)
        left: Counter[Demand] = Counter()
        for (demand, kinds), number in self._waiting.waiting():
            # Another worker is no use to those that wait for their turn at a shared backend.
            left[demand] += min(number, self._shared.free(kinds)) if self._shared.any_shared(kinds) else number
        if self.fault is None and not self._closing:
            taken = {worker.seat for worker in self._workers if worker.state != "stopping"}
            for seat in range(self.seats.wanted(left)):
                if seat not in taken:
                    self._start(seat)

    def _is_held_back(self) -> bool:
        """Whether results pile up, so that nothing more should be begun before some are taken."""
        playing = sum(worker.playing for worker in self._workers)
        return (
            self._played.qsize() > max(MAX_UNTAKEN, playing)
            or self._bytes_played - self._bytes_taken > MAX_UNTAKEN_BYTES
        )

    def _free_worker(self, demand: Demand, kinds: frozenset[EnvironmentKind]) -> WorkerProcess | None:
        """Return the least busy worker that may take a ticket of this kind now."""
        if not self._shared.free(kinds):
            return None
        free = [
            worker
            for worker in self._workers
            if worker.state == "ready"
            and self.seats.has_room(worker.seat, demand)
            and (self._memory is None or self._memory.has_room(worker))
        ]
        return min(free, key=lambda worker: worker.playing, default=None)

    def _give(self, ticket: Ticket) -> bool:
        """Give a ticket to a worker; False where none may take it now."""
        worker = self._free_worker(ticket.demand, ticket.kinds)
        if worker is None:
            return False
        self._set_deadline(ticket, begun=False)
        worker.tickets[ticket.number] = ticket
        worker.most_at_once = max(worker.most_at_once, worker.playing)
        self.seats.take(worker.seat, ticket.demand)
        self._shared.take(ticket.kinds, ticket.number)
        if self._memory is not None:
            self._memory.begun()
        worker.send(Frame(JOB, ticket.number, ticket.attempt, ticket.job.model_dump_json().encode()))
        self._watch(worker)
        return True

    def _set_deadline(self, ticket: Ticket, *, begun: bool) -> None:
        """Give it all its time, from now on."""
        ticket.begun = begun
        ticket.deadline = monotonic() + ticket.job.limits.episode_seconds + self._settings.grace_seconds

    def _take_back(self, worker: WorkerProcess, *, dropped: bool = False) -> list[Ticket]:
        """Take all tickets from a worker. Those `dropped` keep what is theirs until it ends, for it plays on."""
        tickets = list(worker.tickets.values())
        worker.tickets.clear()
        for ticket in tickets:
            self.seats.give_back(worker.seat, ticket.demand)
            if not dropped:
                self._shared.give_back(ticket.number)
        return tickets

    def _start(self, seat: int) -> None:
        self._started += 1
        worker = WorkerProcess(f"worker-{self._started}", self._settings, seat=seat)
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
                if worker in self._workers:  # what it said first may have ended it
                    self._hear(worker, frame)
            for ticket in worker.tickets.values():
                if not ticket.begun:
                    self._set_deadline(ticket, begun=False)
        except MachineryError as error:
            self._lost(worker, f"it sent what is no episode: {error}; ")

    def _hear(self, worker: WorkerProcess, frame: Frame) -> None:
        if frame.kind == READY:
            self._failed_starts = 0
            if worker.state == "starting":
                worker.state = "ready"
                worker.deadline = float("inf")
                worker.base_bytes = resident_memory(worker.pid) or 0
        elif frame.kind in {BUILT, BEGUN}:
            if (ticket := worker.tickets.get(frame.ticket)) is not None:
                self._hear_of(ticket, frame)
        elif frame.kind == CUT:
            self._hear_of_cut(worker, frame)
        elif frame.kind == RESULT:
            self._take_result(worker, frame)
        elif frame.kind == STUCK:
            # Its other episodes wait for the same thread. They are begun anew, and it was not their attempt.
            self._waiting.put_back(self._take_back(worker))
            self._end(worker)
        else:
            worker.state = "stopping"
            worker.deadline = float("inf")
        if worker.state == "stopping" and worker.deadline == float("inf") and not worker.tickets:
            worker.ask_to_stop()

    def _take_result(self, worker: WorkerProcess, frame: Frame) -> None:
        ticket = worker.tickets.pop(frame.ticket, None)
        if ticket is not None:
            self.seats.give_back(worker.seat, ticket.demand)
            self._shared.give_back(ticket.number)
            self._bytes_played += len(frame.payload)
            self._played.put(Finished(ticket, frame.payload, worker.name))

    def _hear_of(self, ticket: Ticket, frame: Frame) -> None:
        if frame.kind == BUILT:
            self._shared.learn(ticket.kinds, shared_in(frame))
        else:
            self._set_deadline(ticket, begun=True)

    def _hear_of_cut(self, worker: WorkerProcess, frame: Frame) -> None:
        try:
            used = Usage.model_validate_json(frame.payload)
        except ValidationError as error:
            raise MachineryError(one_line(error)) from error
        if (ticket := worker.tickets.get(frame.ticket)) is not None:
            ticket.wasted += used
        for dropped in worker.dropped:
            if dropped.number == frame.ticket:
                self._played.put(Cut(dropped, used))

    def _put_lost(self, ticket: Ticket, worker: WorkerProcess, cause: InvalidCause, detail: str) -> None:
        episode = lost(ticket.job, cause, detail, attempt=ticket.attempt, worker=worker.name)
        self._played.put(Finished(ticket, episode, worker.name))

    def _lost(self, worker: WorkerProcess, why: str = "") -> None:
        """A worker ended by itself, or talks nonsense."""
        tickets = self._take_back(worker)
        how = self._end(worker)
        if worker.state == "starting":
            self._failed_starts += 1
            if self._failed_starts >= MAX_FAILED_STARTS:
                self.fault = f"worker processes cannot be started: {how}"
        for ticket in tickets:
            self._put_lost(ticket, worker, "worker_died", f"the worker ended in mid-episode: {why}{how}")

    def _end_the_late(self) -> None:
        now = monotonic()
        for worker in list(self._workers):
            late = [ticket for ticket in worker.on_the_clock() if ticket.deadline <= now]
            if not late and worker.deadline > now:
                continue
            if worker.state == "starting":
                self._lost(worker)
                continue
            tickets = self._take_back(worker)
            self._end(worker)
            self._waiting.put_back(ticket for ticket in tickets if ticket not in late)
            for ticket in late:
                seconds = ticket.job.limits.episode_seconds
                detail = f"the episode did not end within {seconds:g} s, nor shortly after; its worker was ended"
                self._put_lost(ticket, worker, "time_limit", detail)

    def _end(self, worker: WorkerProcess) -> str:
        self._workers.remove(worker)
        for stream in (worker.channel, worker.output):
            if stream.fileno() in self._selector.get_map():
                self._selector.unregister(stream)
        for ticket in worker.dropped:
            self._shared.give_back(ticket.number)
        how = worker.end()
        if worker.dropped:
            self._tell_if_all_ended()
        return how

    def _seconds_to_next_deadline(self) -> float | None:
        deadlines = [worker.deadline for worker in self._workers]
        deadlines += [ticket.deadline for worker in self._workers for ticket in worker.on_the_clock()]
        if self._memory is not None and self._waiting and not self._held_back:
            deadlines.append(monotonic() + LOOK_SECONDS)
        nearest = min(deadlines, default=float("inf"))
        return None if nearest == float("inf") else min(max(nearest - monotonic(), 0.0), LONGEST_SLEEP)


def shared_in(frame: Frame) -> list[str]:
    """Return the environments that a worker names. Raises MachineryError where it names none."""
    try:
        names: object = orjson.loads(frame.payload)
    except orjson.JSONDecodeError as error:
        raise MachineryError(f"not JSON: {error}") from error
    return [str(name) for name in cast("list[object]", names)] if isinstance(names, list) else []
