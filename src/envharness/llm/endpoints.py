"""The endpoints of one model behind one queue: whichever is free takes the call that has waited longest."""

from __future__ import annotations

import asyncio
import math
from collections import deque
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from time import monotonic

from envharness.llm.config import Endpoint
from envharness.llm.scheduling import EndpointState, Grant, choose, give_back, note_failure, take
from envharness.llm.share import split


@dataclass
class Place:
    """One call's place at an endpoint, while it has it."""

    endpoint: int
    tokens_used: float | None = None
    """Set by whoever makes the call, once it is known."""


@dataclass
class _Waiting:
    tokens: float
    avoid: int | None
    granted: asyncio.Future[Grant] = field(repr=False)


class EndpointQueue:
    """Hands out places. For one event loop; first come, first served. `seat` says which part of them is ours."""

    def __init__(
        self, endpoints: Sequence[Endpoint], *, seat: tuple[int, int] = (0, 1), clock: Callable[[], float] = monotonic
    ) -> None:
        number, seats = seat
        # A seat without a part is asked from all the same where a pool's size was set by hand; then it has one each.
        parts = split([endpoint.concurrency for endpoint in endpoints], seats)[number] or [1] * len(endpoints)
        self._states = [
            EndpointState.of(endpoint, places=places) for endpoint, places in zip(endpoints, parts, strict=True)
        ]
        self._clock = clock
        self._waiting: deque[_Waiting] = deque()
        self._alarm: asyncio.TimerHandle | None = None

    def __len__(self) -> int:
        return len(self._states)

    @asynccontextmanager
    async def place(self, tokens: float, *, avoid: int | None = None) -> AsyncGenerator[Place]:
        """Wait for a place for a call of about so many tokens, and hold it within."""
        grant = await self._acquire(tokens, avoid)
        place = Place(grant.endpoint)
        try:
            yield place
        finally:
            give_back(self._states, grant, place.tokens_used)
            self._hand_out()

    def succeeded(self, endpoint: int) -> None:
        """Forget the failures before."""
        self._states[endpoint].failures = 0

    def failed(self, endpoint: int) -> int:
        """Return how often the endpoint has failed in a row, this time included."""
        return note_failure(self._states[endpoint], self._clock())

    def pause(self, endpoint: int, seconds: float) -> None:
        """Start no call there for so long."""
        state = self._states[endpoint]
        state.paused_until = max(state.paused_until, self._clock() + seconds)

    def open_beside(self, endpoint: int) -> bool:
        """Whether another endpoint than this one would take calls: none of the others was asked for peace."""
        now = self._clock()
        return any(state.paused_until <= now for index, state in enumerate(self._states) if index != endpoint)

    def close(self) -> None:
        """Stop the clock. Calls that wait are cancelled."""
        if self._alarm is not None:
            self._alarm.cancel()
            self._alarm = None
        for waiting in self._waiting:
            waiting.granted.cancel()
        self._waiting.clear()

    async def _acquire(self, tokens: float, avoid: int | None) -> Grant:
        now = self._clock()
        if not self._waiting:
            index, _ = choose(self._states, now, tokens, avoid)
            if index is not None:
                return take(self._states, index, now, tokens)
        waiting = _Waiting(tokens, avoid, asyncio.get_running_loop().create_future())
        self._waiting.append(waiting)
        self._hand_out()
        try:
            return await waiting.granted
        except asyncio.CancelledError:
            if waiting.granted.done() and not waiting.granted.cancelled():
                give_back(self._states, waiting.granted.result(), 0.0)
                self._hand_out()
            raise

    def _hand_out(self) -> None:
        """Serve the queue as far as there are places, and set the alarm for the next one that time alone opens."""
        while self._waiting:
            first = self._waiting[0]
            if first.granted.done():  # cancelled while it waited
                self._waiting.popleft()
                continue
            now = self._clock()
            index, wait = choose(self._states, now, first.tokens, first.avoid)
            if index is None:
                self._set_alarm(wait)
                return
            self._waiting.popleft()
            first.granted.set_result(take(self._states, index, now, first.tokens))

    def _set_alarm(self, seconds: float) -> None:
        if self._alarm is not None:
            self._alarm.cancel()
            self._alarm = None
        if math.isfinite(seconds):
            self._alarm = asyncio.get_running_loop().call_later(seconds, self._hand_out)
