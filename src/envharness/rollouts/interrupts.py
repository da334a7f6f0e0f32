"""Ctrl-C and SIGTERM as an orderly end: at once by unwinding, or after what is in flight has been finished."""

from __future__ import annotations

import os
import select
import signal
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from types import FrameType
from typing import NoReturn

GRACE_SECONDS = 10.0
"""What an orderly stop may take to finish what is in flight."""
MAX_GRACE_SECONDS = 86_400.0


class Terminated(SystemExit):
    """What SIGTERM raises; told apart from an exit that code of an episode asks for."""


class StopRequest:
    """Whether the user asked to stop. Whoever hands out work looks at it; a fresh one never asks."""

    def __init__(self) -> None:
        self.number: int | None = None
        """The signal that asked; None while nobody did."""

    @property
    def asked(self) -> bool:
        """Whether no more work is to be handed out."""
        return self.number is not None

    def raise_(self) -> NoReturn:
        """End the command as the signal would have at once: KeyboardInterrupt, or Terminated(143)."""
        _raise_exit(self.number or signal.SIGINT)


@contextmanager
def orderly_stop(grace_seconds: float, say: Callable[[str], None]) -> Generator[StopRequest]:
    """Within it the first SIGINT or SIGTERM asks for a stop, and the second ends at once, as the grace time's end does.

    `say` is given one line when it asks, in a thread. Leaving it after a stop was asked for raises KeyboardInterrupt or
    Terminated(143), also where the body came to its end all the same. For commands, in the main thread; elsewhere,
    and for a signal that is ignored (`nohup`), nothing changes. With no grace time the first signal ends at once.
    """
    stop = StopRequest()
    if threading.current_thread() is not threading.main_thread() or grace_seconds <= 0:
        yield stop
        return
    reader, writer = os.pipe()

    def ask(number: int, frame: FrameType | None) -> None:
        del frame
        if stop.asked:
            _raise_exit(stop.number or number)
        stop.number = number
        # All else is the watcher's: the main thread may be anywhere, also in the middle of a write or with a lock.
        os.write(writer, b"!")

    watcher = threading.Thread(target=_watch, args=(reader, stop, grace_seconds, say), name="stop-watcher", daemon=True)
    watcher.start()
    wanted = [number for number in (signal.SIGINT, signal.SIGTERM) if signal.getsignal(number) is not signal.SIG_IGN]
    former = {number: signal.signal(number, ask) for number in wanted}
    try:
        yield stop
    finally:
        os.close(writer)
        watcher.join()
        os.close(reader)
        for number, handler in former.items():
            signal.signal(number, handler)
    if stop.asked:
        stop.raise_()


def _watch(reader: int, stop: StopRequest, grace_seconds: float, say: Callable[[str], None]) -> None:
    """Once a stop is asked for say so, and send the second signal at the end of the grace time."""
    if not os.read(reader, 1):
        return
    number = signal.Signals(stop.number or signal.SIGINT)
    say(f"{number.name}: finishing what is in flight, {grace_seconds:g} s at most; a second one stops at once")
    ended, _, _ = select.select([reader], [], [], grace_seconds)
    if not ended:
        signal.pthread_kill(threading.main_thread().ident or 0, number)


@contextmanager
def termination_unwinds() -> Generator[None]:
    """Within it, SIGTERM raises Terminated(143) in the main thread, so that engines and stores are closed on the way.

    For commands, in the main thread; elsewhere it does nothing. A library must not take over its host's signals.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    former = signal.signal(signal.SIGTERM, lambda number, _: _raise_exit(number))
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, former)


def _raise_exit(number: int) -> NoReturn:
    if number == signal.SIGINT:
        raise KeyboardInterrupt
    raise Terminated(128 + number)
