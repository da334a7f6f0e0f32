"""SIGTERM as an orderly end: turns it into the exception that unwinds a command, as Ctrl-C does."""

from __future__ import annotations

import signal
import threading
from collections.abc import Generator
from contextlib import contextmanager
from types import FrameType


class Terminated(SystemExit):
    """What SIGTERM raises; told apart from an exit that code of an episode asks for."""


@contextmanager
def termination_unwinds() -> Generator[None]:
    """Within it, SIGTERM raises Terminated(143) in the main thread, so that engines and stores are closed on the way.

    For commands, in the main thread; elsewhere it does nothing. A library must not take over its host's signals.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    former = signal.signal(signal.SIGTERM, _raise_exit)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, former)


def _raise_exit(number: int, frame: FrameType | None) -> None:
    del frame
    raise Terminated(128 + number)
