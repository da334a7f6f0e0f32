"""Which of several endpoints takes the next call, and when. Pure: one state an endpoint, the clock passed in."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from envharness.llm.config import Endpoint
from envharness.llm.rates import SlidingWindow, Spending


@dataclass
class EndpointState:
    """What one endpoint is doing."""

    concurrency: int
    requests: SlidingWindow | None = None
    tokens: SlidingWindow | None = None
    in_flight: int = 0
    started: int = 0
    """Calls it was ever given."""
    paused_until: float = -math.inf
    """It takes no call until then: the server asked for peace, or has failed."""
    failures: int = 0
    """Times in a row that it failed; calls that fail together count once."""

    @classmethod
    def of(cls, endpoint: Endpoint, *, places: int | None = None) -> EndpointState:
        """Return the state of an idle endpoint, of which `places` calls at once are ours; None is all of them.

        Of what it allows a minute we have the same part as of its places, and one call at least.
        """
        places = endpoint.concurrency if places is None else places

        def window(limit: int | None) -> SlidingWindow | None:
            return None if limit is None else SlidingWindow(max(limit * places / endpoint.concurrency, 1.0))

        return cls(
            concurrency=places,
            requests=window(endpoint.requests_per_minute),
            tokens=window(endpoint.tokens_per_minute),
        )

    def wait(self, now: float, tokens: float) -> float:
        """Return the seconds until a call of `tokens` may start; infinite where another must end first."""
        if self.in_flight >= self.concurrency:
            return math.inf
        waits = [self.paused_until - now, 0.0]
        if self.requests is not None:
            waits.append(self.requests.wait(now, 1.0))
        if self.tokens is not None:
            waits.append(self.tokens.wait(now, tokens))
        return max(waits)


@dataclass
class Grant:
    """A call's right to one place at an endpoint."""

    endpoint: int
    """Index of the endpoint."""
    spending: Spending | None = field(default=None, repr=False)


def choose(
    states: list[EndpointState], now: float, tokens: float, avoid: int | None = None
) -> tuple[int | None, float]:
    """Return (index, 0.0) of the endpoint that takes the call now, or (None, seconds until one can).

    The least loaded wins, so that a fast endpoint takes more than a slow one; among equally loaded ones, such as idle
    ones, whichever was given fewer calls for its places, so that calls that come one by one use all of them. `avoid`,
    where the call failed last, is taken only where all the others have failed, too: one that is busy is worth waiting
    for. The seconds are infinite where a place must be given back first.
    """
    waits = [state.wait(now, tokens) for state in states]
    if avoid is not None and any(not state.failures for index, state in enumerate(states) if index != avoid):
        waits[avoid] = math.inf
    free = [index for index, wait in enumerate(waits) if wait <= 0.0]
    if not free:
        return None, min(waits)

    def rank(index: int) -> tuple[bool, float, float]:
        state = states[index]
        return index == avoid, state.in_flight / state.concurrency, state.started / state.concurrency

    return min(free, key=rank), 0.0


def take(states: list[EndpointState], index: int, now: float, tokens: float) -> Grant:
    """Give the call its place at `index`."""
    state = states[index]
    state.in_flight += 1
    state.started += 1
    if state.requests is not None:
        state.requests.take(now, 1.0)
    return Grant(index, None if state.tokens is None else state.tokens.take(now, tokens))


def note_failure(state: EndpointState, now: float) -> int:
    """Count a failure, and return how many it makes in a row. Those that come in during a pause count no more."""
    if state.paused_until <= now:
        state.failures += 1
    return state.failures


def give_back(states: list[EndpointState], grant: Grant, tokens: float | None) -> None:
    """End a call. `tokens` is what it really used; None where that is not known, and the estimate stands."""
    state = states[grant.endpoint]
    state.in_flight -= 1
    if state.tokens is not None and grant.spending is not None and tokens is not None:
        state.tokens.correct(grant.spending, tokens)
