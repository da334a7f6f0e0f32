"""Where an environment lives: a thread of its own, so that a call that hangs stalls nobody else."""

from __future__ import annotations

import asyncio
import threading
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Generator
from contextlib import suppress
from queue import SimpleQueue
from time import monotonic
from typing import Any, Protocol, TypeVar

from envharness.core.errors import TimeLimitError

T = TypeVar("T")

Series = Generator[bool, None, T]
"""Environment calls one after the other, with what lies between them: before each stretch it yields whether what comes
is an environment call, whose limit runs. Wherever it yields it may be ended, and other calls may come in between."""

PEACE_SECONDS = 5.0
"""How long a call that nobody waits for any more may go on before its thread counts as stuck."""


class EnvironmentHost(Protocol):
    """Runs the calls of one or more environments, one at a time and all on one thread."""

    @property
    def stuck(self) -> bool:
        """Whether a call outlasted its limit and may still be running."""
        ...

    async def call(self, function: Callable[[], T], seconds: float) -> T:
        """Run `function` there. Raises what it raises, or TimeLimitError where it runs longer than `seconds`."""
        ...

    def post(self, function: Callable[[], object]) -> None:
        """Run `function` there some time; nobody waits, and what it raises is dropped."""
        ...


class EnvironmentThread:
    """A thread that serves calls until `close`. Episodes may share it; their calls then take turns.

    Python cannot end a thread. One that is `stuck` is abandoned: whoever owns it makes another, or ends the process.
    """

    def __init__(self) -> None:
        self._calls: SimpleQueue[_Call | None] = SimpleQueue()
        self._running: _Call | None = None
        self._arrivals: _Arrivals | None = None
        # A daemon, because a call that never returns must not keep the process from ending.
        self._thread = threading.Thread(target=self._serve, name="environment", daemon=True)
        self._thread.start()

    @property
    def stuck(self) -> bool:
        """Whether the call that runs now has outlasted its limit."""
        call = self._running
        return call is not None and call.seconds_left() <= 0

    async def call(self, function: Callable[[], T], seconds: float) -> T:
        """Run `function` on the thread. Waiting for calls of other episodes does not count against `seconds`."""
        return await self._outcome(_SingleCall(function, seconds))

    async def series(self, series: Series[T], seconds: float) -> T:
        """Run a series on the thread; each environment call in it has `seconds`, what lies between them has no limit.

        It is ended where it next yields once nobody waits for it any more.
        """
        return await self._outcome(_SeriesCall(series, seconds))

    def post(self, function: Callable[[], object]) -> None:
        """Run `function` once the calls before it have returned, if they ever do."""
        self._calls.put(_SingleCall(function, PEACE_SECONDS))

    def close(self) -> None:
        """Let the thread end once its calls have returned. Idempotent; waits only where it is not stuck."""
        self._calls.put(None)
        if not self.stuck:
            self._thread.join(PEACE_SECONDS)

    def _serve(self) -> None:
        while (call := self._calls.get()) is not None:
            self._running = call
            while not (done := call.go_on()) and self._calls.empty():
                continue
            self._running = None
            if not done:
                self._calls.put(call)  # others wait, and come first

    async def _outcome(self, call: _Call) -> Any:
        """Queue the call and wait until it is done or has outlasted its limit."""
        loop = asyncio.get_running_loop()
        if self._arrivals is None or self._arrivals.loop is not loop:
            self._arrivals = _Arrivals(loop)
        arrivals, finished = self._arrivals, loop.create_future()
        call.when_done = lambda: arrivals.add(finished)

        def look() -> None:
            nonlocal alarm
            left = call.seconds_left()
            if left > 0:
                alarm = loop.call_later(left, look)
            elif not finished.done():
                call.abandoned = True
                finished.set_exception(TimeLimitError(f"an environment call took longer than {call.seconds:g} s"))

        self._calls.put(call)
        alarm = loop.call_later(call.seconds, look)
        try:
            await finished
        except asyncio.CancelledError:
            # Nobody waits for this call any more; it may end in peace before it counts as stuck.
            call.abandon(PEACE_SECONDS)
            raise
        finally:
            alarm.cancel()
        return call.result()


class CallingThread:
    """The caller's own thread, for environments that were made on it. Limits are noticed once a call has returned."""

    stuck = False

    async def call(self, function: Callable[[], T], seconds: float) -> T:
        """Run `function` here and now."""
        await asyncio.sleep(0)  # so that the event loop notices the episode's own limit and Ctrl-C
        began = monotonic()
        result = function()
        if monotonic() - began > seconds:
            raise TimeLimitError(f"an environment call took longer than {seconds:g} s")
        return result

    def post(self, function: Callable[[], object]) -> None:
        """Run `function` here and now."""
        function()


class _Call(ABC):
    """Something on its way to the thread, and its result on the way back."""

    def __init__(self, seconds: float) -> None:
        self.when_done: Callable[[], object] = lambda: None
        self.seconds = seconds
        self.abandoned = False
        """Whether nobody waits for it any more."""
        self._begun = False
        self._started_at: float | None = None
        self._ends_at: float | None = None
        self._result: Any = None
        self._error: BaseException | None = None

    def seconds_left(self) -> float:
        """Return what is left of the limit, which runs while an environment call does."""
        if self._ends_at is not None:
            return self._ends_at - monotonic()
        started_at = self._started_at  # once, because the other thread may set it meanwhile
        return self.seconds if started_at is None else started_at + self.seconds - monotonic()

    def abandon(self, seconds: float) -> None:
        """Allow `seconds` more: from now on, or from its beginning where that is still to come."""
        self.abandoned = True
        if self._begun:
            self._ends_at = monotonic() + seconds
        else:
            self.seconds = seconds

    def go_on(self) -> bool:
        """Run, on the thread, to where others may come in between; return whether it is done."""
        self._begun = True
        try:
            done = self._advance()
        except BaseException as error:  # noqa: BLE001  whatever it is, it belongs to whoever called
            self._error, done = error, True
        if done:
            self.when_done()
        return done

    def result(self) -> Any:
        if self._error is None:
            return self._result
        if isinstance(self._error, Exception):
            raise self._error
        # SystemExit and the like would end the event loop, and with it every other episode.
        raise RuntimeError(f"the environment raised {type(self._error).__name__}({self._error})") from self._error

    @abstractmethod
    def _advance(self) -> bool:
        """Do the next part; return whether it was the last."""


class _SingleCall(_Call):
    """A function that is called once."""

    def __init__(self, function: Callable[[], Any], seconds: float) -> None:
        super().__init__(seconds)
        self._function = function

    def _advance(self) -> bool:
        self._started_at = monotonic()
        self._result = self._function()
        return True


class _SeriesCall(_Call):
    """A series, which enters the thread once or, where others wait, several times."""

    def __init__(self, series: Series[Any], seconds: float) -> None:
        super().__init__(seconds)
        self._series = series
        self._watched = False

    def _advance(self) -> bool:
        if self.abandoned:
            self._series.close()
            return True
        self._started_at = monotonic() if self._watched else None
        try:
            self._watched = next(self._series)
        except StopIteration as end:
            self._result = end.value
            return True
        finally:
            self._started_at = None
        return False


class _Arrivals:
    """Calls that have returned, on their way to the loop: it is woken once for all that come before it looks."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self._finished: deque[asyncio.Future[None]] = deque()
        self._woken = False

    def add(self, finished: asyncio.Future[None]) -> None:
        """Take one, on the thread."""
        self._finished.append(finished)  # first: who has not yet cleared the flag has not yet looked
        if not self._woken:
            self._woken = True
            with suppress(RuntimeError):  # the loop is closed: nobody waits any more
                self.loop.call_soon_threadsafe(self._deliver)

    def _deliver(self) -> None:
        self._woken = False
        while self._finished:
            finished = self._finished.popleft()
            if not finished.done():
                finished.set_result(None)
