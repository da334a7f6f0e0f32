"""Where an environment lives: a thread of its own, so that a call that hangs stalls nobody else."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from contextlib import suppress
from queue import SimpleQueue
from time import monotonic
from typing import Any, Protocol, TypeVar

from envharness.core.errors import TimeLimitError

T = TypeVar("T")

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
        loop = asyncio.get_running_loop()
        call = _Call(function, seconds)
        finished: asyncio.Future[None] = loop.create_future()
        call.when_done = lambda: loop.call_soon_threadsafe(_finish, finished)
        self._calls.put(call)
        try:
            while not (await asyncio.wait({finished}, timeout=call.seconds_left()))[0]:
                if call.seconds_left() <= 0:
                    raise TimeLimitError(f"an environment call took longer than {seconds:g} s")
        except asyncio.CancelledError:
            # Nobody waits for this call any more; it may end in peace before it counts as stuck.
            call.limit_to(PEACE_SECONDS)
            raise
        return call.result()

    def post(self, function: Callable[[], object]) -> None:
        """Run `function` once the calls before it have returned, if they ever do."""
        self._calls.put(_Call(function, PEACE_SECONDS))

    def close(self) -> None:
        """Let the thread end once its calls have returned. Idempotent; waits only where it is not stuck."""
        self._calls.put(None)
        if not self.stuck:
            self._thread.join(PEACE_SECONDS)

    def _serve(self) -> None:
        while (call := self._calls.get()) is not None:
            self._running = call
            call.run()
            self._running = None


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


class _Call:
    """A function on its way to the thread, and its result on the way back."""

    def __init__(self, function: Callable[[], Any], seconds: float) -> None:
        self.when_done: Callable[[], object] = lambda: None
        self._function = function
        self._seconds = seconds
        self._started_at: float | None = None
        self._result: Any = None
        self._error: BaseException | None = None

    def seconds_left(self) -> float:
        """Return what is left of the limit, which begins to run when the call does."""
        return self._seconds if self._started_at is None else self._started_at + self._seconds - monotonic()

    def limit_to(self, seconds: float) -> None:
        """Allow `seconds` from now on."""
        begun = 0.0 if self._started_at is None else monotonic() - self._started_at
        self._seconds = begun + seconds

    def run(self) -> None:
        self._started_at = monotonic()
        try:
            self._result = self._function()
        except BaseException as error:  # noqa: BLE001  whatever it is, it belongs to whoever called
            self._error = error
        with suppress(RuntimeError):  # the loop is closed: nobody waits any more
            self.when_done()

    def result(self) -> Any:
        if self._error is None:
            return self._result
        if isinstance(self._error, Exception):
            raise self._error
        # SystemExit and the like would end the event loop, and with it every other episode.
        raise RuntimeError(f"the environment raised {type(self._error).__name__}({self._error})") from self._error


def _finish(finished: asyncio.Future[None]) -> None:
    if not finished.done():
        finished.set_result(None)
