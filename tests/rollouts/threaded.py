"""Kitchens that are awkward to fork: one that starts a thread, and one that is slow to reset."""

from __future__ import annotations

import threading
import time

from envharness.core.types import JsonDict, ResetResponse
from rollouts.hostile import Misbehaving


class Threaded(Misbehaving):
    """Says that it may be forked, which is not so."""

    def _start(self, seed: int | None, options: JsonDict) -> ResetResponse:
        threading.Thread(target=time.sleep, args=(0.5,), daemon=True).start()
        return super()._start(seed, options)


class Slow(Misbehaving):
    """Takes its time at each reset."""

    def _start(self, seed: int | None, options: JsonDict) -> ResetResponse:
        until = time.thread_time() + self.seconds
        while time.thread_time() < until:
            continue
        return super()._start(seed, options)
