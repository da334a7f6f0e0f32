"""What a server may be asked in a minute: an exact sliding window. Pure; the clock is passed in."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

WINDOW_SECONDS = 60.0


@dataclass
class Spending:
    """An amount taken at a time. `amount` may be corrected later, when what was estimated is known."""

    at: float
    amount: float


class SlidingWindow:
    """Lets at most `limit` through in any 60 s. Times are seconds of a clock that never goes back.

    An amount above the limit itself counts as the limit: it waits for an empty window, and passes.
    """

    def __init__(self, limit: float) -> None:
        self.limit = limit
        self._spent: deque[Spending] = deque()

    def wait(self, now: float, amount: float) -> float:
        """Return the seconds from `now` until `amount` may be taken; 0.0 where it may at once."""
        self._forget(now)
        excess = sum(entry.amount for entry in self._spent) + min(amount, self.limit) - self.limit
        for entry in self._spent:
            if excess <= 0:
                return 0.0
            excess -= entry.amount
            if excess <= 0:
                return max(entry.at + WINDOW_SECONDS - now, 0.0)
        return 0.0

    def take(self, now: float, amount: float) -> Spending:
        """Take `amount`; call it only where `wait` says 0.0. Returns the entry, for `correct`."""
        entry = Spending(now, min(amount, self.limit))
        self._spent.append(entry)
        return entry

    def correct(self, entry: Spending, amount: float) -> None:
        """Say what a spending really was."""
        entry.amount = max(amount, 0.0)

    def _forget(self, now: float) -> None:
        while self._spent and self._spent[0].at + WINDOW_SECONDS <= now:
            self._spent.popleft()
