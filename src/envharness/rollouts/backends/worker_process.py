"""The driver's end of one worker process: start it, send to it, hear it, end it and all it started."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from contextlib import suppress
from dataclasses import dataclass, field
from time import monotonic
from typing import Literal

from envharness.core.labels import current_label, end_part
from envharness.core.processes import descendants, end_process
from envharness.core.registry import Kind, names, target
from envharness.core.trace import Episode
from envharness.core.usage import NO_USAGE, Usage
from envharness.rollouts.backends.frames import Frame, FrameReader
from envharness.rollouts.backends.worker import WorkerOrders
from envharness.rollouts.demand import COMPUTES, Demand, EnvironmentKind
from envharness.rollouts.job import RolloutJob
from envharness.rollouts.snapshots.snapshots import SnapshotMode

START_SECONDS = 120.0
"""What a worker may take to import everything; a second on a quiet machine."""
STOP_SECONDS = 3.0
"""What a worker that was asked to stop may take to close its environments."""
_LAST_WORDS = 2000

# A fresh interpreter, never a fork: the driver has threads. It looks for modules where the driver does.
_BOOT = (
    "import json, sys; sys.path[:] = json.loads(sys.argv[1]); "
    "from envharness.rollouts.backends.worker import main; main(sys.argv[2])"
)


@dataclass
class Ticket:
    """One submitted job on its way."""

    number: int
    job: RolloutJob
    generation: int
    demand: Demand = COMPUTES
    kinds: frozenset[EnvironmentKind] = frozenset()
    """Of the environments that it needs."""
    attempt: int = 1
    former: Episode | None = None
    """How the attempt before ended."""
    wasted: Usage = NO_USAGE
    """What was used on the way to it in workers that ended before, beside `former`."""
    deadline: float = float("inf")
    """When the driver ends the worker that plays it."""
    begun: bool = False
    """Whether the worker's environment thread has come to it."""

    @property
    def spent(self) -> Usage:
        """What was used for it up to now, as far as workers have told."""
        former = NO_USAGE if self.former is None else self.former.usage + self.former.wasted
        return self.wasted + former


@dataclass
class WorkerSettings:
    """What all workers of a pool are told."""

    unsafe_hooks: bool
    max_episodes: int
    max_memory_bytes: int
    grace_seconds: float
    seats: int = 1
    """How many workers there may be at a time."""
    registered: dict[Kind, dict[str, str]] = field(default_factory=dict[Kind, dict[str, str]])
    snapshots: SnapshotMode = "auto"


class WorkerProcess:
    """A worker as the driver sees it. `state` goes from starting to ready to stopping."""

    def __init__(self, name: str, settings: WorkerSettings, *, seat: int = 0) -> None:
        self.name = name
        self.seat = seat
        """Its number among those that may run at a time; whoever takes its place has it next."""
        self.state: Literal["starting", "ready", "stopping"] = "starting"
        self.deadline = monotonic() + START_SECONDS
        """When it is ended for taking too long to start or to stop."""
        self.tickets: dict[int, Ticket] = {}
        self.dropped: list[Ticket] = []
        """What it may still play although nobody waits for it."""
        self.base_bytes = 0
        """What it took of the memory before it played; 0 while that is not known."""
        self.most_at_once = 0
        """The most episodes it has played at once."""
        self._label = current_label().new_part()
        self.channel, theirs = socket.socketpair()
        self.channel.setblocking(False)
        orders = WorkerOrders(
            name=name,
            driver=os.getpid(),
            descriptor=theirs.fileno(),
            unsafe_hooks=settings.unsafe_hooks,
            max_episodes=settings.max_episodes,
            max_memory_bytes=settings.max_memory_bytes,
            grace_seconds=settings.grace_seconds,
            seat=seat,
            seats=settings.seats,
            registered=settings.registered,
            snapshots=settings.snapshots,
        )
        try:
            self._process = subprocess.Popen(  # noqa: S603  our own interpreter
                [sys.executable, "-c", _BOOT, json.dumps(sys.path), orders.model_dump_json()],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                pass_fds=(theirs.fileno(),),
                # Every worker orders sets alike, whatever environments and policies make of that order.
                env={**os.environ, "PYTHONHASHSEED": "0", **self._label.variables()},
                start_new_session=True,  # so that a group can be ended, and Ctrl-C reaches the driver alone
            )
        except OSError:
            self.channel.close()
            raise
        finally:
            theirs.close()
        assert self._process.stdout is not None  # noqa: S101  asked for above
        self.output = self._process.stdout
        os.set_blocking(self.output.fileno(), False)
        self._words = b""
        self._outgoing = bytearray()
        self._reader = FrameReader()

    @property
    def pid(self) -> int:
        """The process."""
        return self._process.pid

    @property
    def playing(self) -> int:
        """How many episodes it plays."""
        return len(self.tickets)

    def on_the_clock(self) -> list[Ticket]:
        """Return those that may be late: what waits behind others for the environments' thread is not.

        Where none is begun, that is all of them: the worker has not been heard of since they got their deadlines.
        """
        return [ticket for ticket in self.tickets.values() if ticket.begun] or list(self.tickets.values())

    @property
    def has_unsent(self) -> bool:
        """Whether `flush` has something left to do."""
        return bool(self._outgoing)

    def send(self, frame: Frame) -> None:
        """Queue a frame and send what goes without waiting."""
        self._outgoing += frame.encode()
        self.flush()

    def flush(self) -> None:
        """Send what goes without waiting. A worker that is gone is noticed when it is heard next."""
        with suppress(BlockingIOError, ConnectionError):
            while self._outgoing:
                del self._outgoing[: self.channel.send(self._outgoing)]

    def receive(self) -> list[Frame] | None:
        """Return the frames that have come, or None where the worker has ended."""
        try:
            data = self.channel.recv(1 << 20)
        except BlockingIOError:
            return []
        except ConnectionError:
            return None
        return list(self._reader.feed(data)) if data else None

    def listen(self) -> bool:
        """Keep the last of what the worker and its environments print; False once there will be no more."""
        try:
            return self._listen()
        except BlockingIOError:
            return True

    def ask_to_stop(self) -> None:
        """Have it cancel its episodes, close their environments and go; it is ended after STOP_SECONDS."""
        self.state = "stopping"
        self.deadline = monotonic() + STOP_SECONDS
        with suppress(OSError):
            self.channel.shutdown(socket.SHUT_WR)

    def end(self) -> str:
        """End it now, with whatever it started; return how it ended."""
        below = descendants(self._process.pid)
        # The process is not reaped before, so that its group's number cannot have passed to another.
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)
        code = self._process.wait()
        for pid, started in below.items():
            end_process(pid, started)
        end_part(self._label)  # where it had ended by itself, nothing was below it any more
        with suppress(BlockingIOError):  # something that left the group holds the other end
            while self._listen():
                continue
        self.channel.close()
        self.output.close()
        return f"{_describe_exit(code)}{self._last_line()}"

    def _listen(self) -> bool:
        data = os.read(self.output.fileno(), 1 << 16)
        self._words = (self._words + data)[-_LAST_WORDS:]
        return bool(data)

    def _last_line(self) -> str:
        lines = self._words.decode("utf-8", "replace").strip().splitlines()
        return f"; its last words: {lines[-1][:200]}" if lines else ""


def registered_ids() -> dict[Kind, dict[str, str]]:
    """Return all ids that this process knows, so that a worker can know those that were added at run time."""
    kinds: tuple[Kind, ...] = ("environment", "component", "policy", "designer")
    return {kind: {name: target(kind, name) for name in names(kind)} for kind in kinds}


def _describe_exit(code: int) -> str:
    if code >= 0:
        return f"exit status {code}"
    try:
        return f"ended by {signal.Signals(-code).name}"
    except ValueError:
        return f"ended by signal {-code}"
