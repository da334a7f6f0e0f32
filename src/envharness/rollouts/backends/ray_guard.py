"""Ends the processes of a cluster of the driver's own when the driver is killed: Ray's agents would stay behind."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterable
from contextlib import suppress

from envharness.core.processes import descendants, end_process

_BOOT = (
    "import json, sys; sys.path[:] = json.loads(sys.argv[1]); "
    "from envharness.rollouts.backends.ray_guard import main; main()"
)
STOP_SECONDS = 5.0
"""What the guard may take to end what it was told of."""


class RayGuard:
    """A process that learns what belongs to the cluster, and ends that once its driver is gone or says so."""

    def __init__(self, variables: dict[str, str]) -> None:
        self._before = descendants(os.getpid()).keys()
        self._process = subprocess.Popen(  # noqa: S603  our own interpreter
            [sys.executable, "-c", _BOOT, json.dumps(sys.path)],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env={**os.environ, **variables},
            start_new_session=True,  # Ctrl-C is the driver's to handle
        )
        self._roots: set[int] = set()

    def learn(self) -> None:
        """Tell it of what the cluster consists by now. The first time, that is what has started since it began."""
        if not self._roots:
            self._roots = descendants(os.getpid()).keys() - self._before - {self._process.pid}
        found = {pid: start for pid, start in descendants(os.getpid()).items() if pid in self._roots}
        for root in self._roots:
            found |= descendants(root)
        assert self._process.stdin is not None  # noqa: S101  asked for above
        with suppress(BrokenPipeError):  # it was killed: then nothing guards, and nothing else is lost
            self._process.stdin.write(json.dumps(list(found.items())).encode() + b"\n")
            self._process.stdin.flush()

    def close(self) -> None:
        """End what is left of the cluster, and the guard."""
        assert self._process.stdin is not None  # noqa: S101  asked for above
        with suppress(BrokenPipeError):
            self._process.stdin.close()
        try:
            self._process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


def main() -> None:
    """Read what belongs to the cluster until the driver closes the pipe or dies, then end it."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    end_all(sys.stdin)


def end_all(lines: Iterable[str]) -> None:
    """Take lists of process ids with their start times, one a line; after the last, end those that still live."""
    known: dict[int, int] = {}
    for line in lines:
        with suppress(ValueError):  # half a line, where the driver was killed in the middle of it
            known |= {int(pid): int(start) for pid, start in json.loads(line)}
    for pid, start in known.items():
        end_process(pid, start)
