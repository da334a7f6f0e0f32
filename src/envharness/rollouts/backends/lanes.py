"""Tickets that wait for a worker, and which worker may take which: by what they ask for, oldest first."""

from __future__ import annotations

import heapq
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping

from envharness.rollouts.backends.worker_process import Ticket
from envharness.rollouts.demand import Demand, EnvironmentKind
from envharness.rollouts.sizing import Count, Machine, places

BEGUN_AT_ONCE = 8
"""Episodes that wait for a model on one worker before another worker is started for more of them."""

LaneKey = tuple[Demand, frozenset[EnvironmentKind]]


class Seats:
    """Counts what is played where. A seat is a worker's number, which whoever takes its place has after it."""

    def __init__(self, count: int, *, episodes_per_worker: Count, machine: Machine) -> None:
        self.count = count
        self._episodes_per_worker: Count = episodes_per_worker
        self._machine = machine
        self._places: dict[Demand, list[int]] = {}
        self._playing: Counter[tuple[int, tuple[str, ...]]] = Counter()

    def places(self, demand: Demand) -> list[int]:
        """Return how many episodes of this demand each seat plays at once."""
        if demand not in self._places:
            self._places[demand] = places(demand, self.count, self._episodes_per_worker, self._machine)
        return self._places[demand]

    def has_room(self, seat: int, demand: Demand) -> bool:
        """Whether the seat takes one more episode of this demand."""
        return self._playing[seat, self.group(demand)] < self.places(demand)[seat]

    def take(self, seat: int, demand: Demand) -> None:
        """Count an episode that begins."""
        self._playing[seat, self.group(demand)] += 1

    def give_back(self, seat: int, demand: Demand) -> None:
        """Count an episode that ended."""
        self._playing[seat, self.group(demand)] -= 1

    def wanted(self, waiting: Mapping[Demand, int]) -> int:
        """Return how many seats should have a worker, where so many episodes of each demand wait for one."""
        if self._episodes_per_worker != "auto":
            load = sum(waiting.values()) + sum(self._playing.values())
            return min(-(-load // self._episodes_per_worker), self.count)
        return max((self._wanted_by(demand, number) for demand, number in waiting.items() if number), default=0)

    def _wanted_by(self, demand: Demand, waiting: int) -> int:
        at_once = self.places(demand)
        load = waiting + sum(self._playing[seat, self.group(demand)] for seat in range(self.count))
        each = min(max(at_once), BEGUN_AT_ONCE if demand.waits else 1)
        return min(-(-load // each), sum(places > 0 for places in at_once))

    def group(self, demand: Demand) -> tuple[str, ...]:
        """Return what shares its places: all of it where the number was set by hand."""
        return demand.endpoints if self._episodes_per_worker == "auto" else ()


class SharedBackends:
    """Knows which environments share a backend, so that one episode at a time may use them in all.

    An environment says so once it is built. Until then one episode at a time is played of its kind, too.
    """

    def __init__(self) -> None:
        self._isolated: dict[EnvironmentKind, bool] = {}
        self._held: dict[int, frozenset[EnvironmentKind]] = {}

    def learn(self, kinds: Iterable[EnvironmentKind], shared: Iterable[str]) -> None:
        """Take what a stack that was just built said: of its environments, those named share a backend."""
        named = set(shared)
        for kind in kinds:
            # Once shared, always: to be wrong in this direction costs time alone.
            self._isolated[kind] = kind.id not in named and self._isolated.get(kind, True)

    def any_shared(self, kinds: Iterable[EnvironmentKind]) -> bool:
        """Whether one of them is known to share a backend."""
        return any(self._isolated.get(kind) is False for kind in kinds)

    def free(self, kinds: Iterable[EnvironmentKind]) -> bool:
        """Whether an episode with these environments may begin."""
        return not (self._held and self._exclusive(kinds) & self._in_use())

    def take(self, kinds: frozenset[EnvironmentKind], ticket: int) -> None:
        """Reserve what the ticket must have for itself."""
        if self._exclusive(kinds):
            self._held[ticket] = kinds

    def give_back(self, ticket: int) -> None:
        """End the ticket's reservation, if it has one."""
        self._held.pop(ticket, None)

    def _in_use(self) -> set[str]:
        return {name for kinds in self._held.values() for name in self._exclusive(kinds)}

    def _exclusive(self, kinds: Iterable[EnvironmentKind]) -> set[str]:
        return {kind.id for kind in kinds if not self._isolated.get(kind, False)}


class Lanes:
    """Queues, one for each thing that can be asked for, so that what must wait stands in nobody else's way."""

    def __init__(self) -> None:
        self._queues: dict[LaneKey, deque[Ticket]] = {}

    def __len__(self) -> int:
        return sum(len(queue) for queue in self._queues.values())

    def append(self, ticket: Ticket) -> None:
        """Queue a ticket as the last of its kind."""
        self._queues.setdefault((ticket.demand, ticket.kinds), deque()).append(ticket)

    def put_back(self, tickets: Iterable[Ticket]) -> None:
        """Queue tickets that had their turn already, as the first of their kind."""
        for ticket in sorted(tickets, key=lambda ticket: -ticket.number):
            self._queues.setdefault((ticket.demand, ticket.kinds), deque()).appendleft(ticket)

    def take_all(self) -> list[Ticket]:
        """Return all tickets, which wait no longer."""
        tickets = [ticket for queue in self._queues.values() for ticket in queue]
        self.clear()
        return tickets

    def clear(self) -> None:
        """Forget all tickets."""
        self._queues.clear()

    def hand_out(self, give: Callable[[Ticket], bool]) -> None:
        """Offer tickets in order, the oldest first; where `give` takes one not, leave the rest of its kind waiting."""
        heads = [(queue[0].number, number, queue) for number, queue in enumerate(self._queues.values())]
        heapq.heapify(heads)
        while heads:
            _, number, queue = heapq.heappop(heads)
            if not give(queue[0]):
                continue
            queue.popleft()
            if queue:
                heapq.heappush(heads, (queue[0].number, number, queue))
        self._queues = {key: queue for key, queue in self._queues.items() if queue}

    def waiting(self) -> Iterator[tuple[LaneKey, int]]:
        """Yield what is asked for, and how many tickets ask for it."""
        for key, queue in self._queues.items():
            yield key, len(queue)
