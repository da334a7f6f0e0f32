"""A worker process: plays the jobs that come over its socket, and never outlives its driver."""

from __future__ import annotations

import asyncio
import ctypes
import faulthandler
import os
import resource
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress

import orjson
from pydantic import BaseModel, ConfigDict

from envharness.core.env import ActionableEnv
from envharness.core.processes import descendants, end_process
from envharness.core.registry import Kind, names, register
from envharness.core.usage import Meter
from envharness.llm.share import take_seat
from envharness.rollouts.backends.frames import BEGUN, BUILT, CUT, READY, RESULT, RETIRING, STUCK, Frame, FrameReader
from envharness.rollouts.demand import EnvironmentKind, kinds_of, shared_backends
from envharness.rollouts.environment_thread import EnvironmentThread
from envharness.rollouts.episode import play_to_json
from envharness.rollouts.job import RolloutJob
from envharness.rollouts.machine import raise_files
from envharness.rollouts.snapshots.snapshots import SnapshotMode, Snapshots

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36


class WorkerOrders(BaseModel):
    """What a worker is told when it starts."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    driver: int
    """Process id of the driver."""
    descriptor: int
    """The socket."""
    unsafe_hooks: bool
    max_episodes: int
    """Retire after so many."""
    max_memory_bytes: int
    """Retire once the resident memory has been larger."""
    grace_seconds: float
    """What the end of an episode may take beyond its limit before the process ends itself."""
    seat: int = 0
    """Which of `seats` this worker has: they share the limits of a model's endpoints."""
    seats: int = 1
    registered: dict[Kind, dict[str, str]]
    """Ids that the driver knows, with what they stand for."""
    snapshots: SnapshotMode = "auto"
    """When to fork rollouts from a staged start."""


def main(orders_json: str) -> None:
    """Serve until the driver closes the socket or dies."""
    orders = WorkerOrders.model_validate_json(orders_json)
    _die_with(orders.driver)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the driver's to handle
    take_seat(orders.seat, orders.seats)
    raise_files()
    for kind, targets in orders.registered.items():
        for name in targets.keys() - set(names(kind)):
            register(kind, name, targets[name])
    with socket.socket(fileno=orders.descriptor) as channel:
        asyncio.run(_Worker(orders, channel).serve())
    sys.stdout.flush()
    # At once: an environment's thread may hang, and what the environments started is to end, too.
    _end_group()


class _Worker:
    """The jobs of one process. All their environments share one thread; their policies wait side by side."""

    def __init__(self, orders: WorkerOrders, channel: socket.socket) -> None:
        self._orders = orders
        self._channel = channel
        self._thread = EnvironmentThread()
        self._snapshots = Snapshots(orders.snapshots)
        self._tasks: set[asyncio.Task[None]] = set()
        self._stopping = asyncio.Event()
        self._played = 0
        self._told: set[frozenset[EnvironmentKind]] = set()
        self._meters: dict[int, tuple[Frame, Meter]] = {}
        self._seconds: dict[int, float] = {}
        """How long each episode that is here may take."""
        """By ticket, what is being played and what it has used."""

    async def serve(self) -> None:
        loop = asyncio.get_running_loop()
        threading.Thread(target=self._read, args=(loop,), daemon=True).start()
        self._channel.sendall(Frame(READY).encode())
        await self._stopping.wait()
        with suppress(OSError):  # the driver is gone: nobody keeps books any more
            self._channel.sendall(self._cut())
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _read(self, loop: asyncio.AbstractEventLoop) -> None:
        """Take jobs from the socket, in a thread: the end of the driver is noticed even while a policy blocks."""
        reader = FrameReader()
        while data := _received(self._channel):
            for frame in reader.feed(data):
                loop.call_soon_threadsafe(self._begin, frame)
        loop.call_soon_threadsafe(self._stopping.set)
        time.sleep(self._orders.grace_seconds)
        _end_group()

    def _begin(self, frame: Frame) -> None:
        task = asyncio.get_running_loop().create_task(self._play(frame))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        task.add_done_callback(_end_on_fault)

    async def _play(self, frame: Frame) -> None:
        job = RolloutJob.model_validate_json(frame.payload)
        _, meter = self._meters[frame.ticket] = frame, Meter()
        self._seconds[frame.ticket] = job.limits.episode_seconds
        self._arm()
        try:
            episode = await play_to_json(
                job,
                host=self._thread,
                attempt=frame.attempt,
                worker=self._orders.name,
                unsafe_hooks=self._orders.unsafe_hooks,
                snapshots=self._snapshots,
                meter=meter,
                when_built=self._teller(frame, job),
                when_begun=lambda: self._begun(frame),
            )
        finally:
            del self._meters[frame.ticket], self._seconds[frame.ticket]
        if len(self._tasks) == 1:
            faulthandler.cancel_dump_traceback_later()
        self._played += 1
        messages = Frame(RESULT, frame.ticket, frame.attempt, episode).encode()
        if self._thread.stuck:
            messages += self._cut() + Frame(STUCK).encode()
        elif self._played >= self._orders.max_episodes or _peak_memory() > self._orders.max_memory_bytes:
            messages += Frame(RETIRING).encode()
        self._channel.sendall(messages)

    def _begun(self, frame: Frame) -> None:
        self._arm()
        self._channel.sendall(Frame(BEGUN, frame.ticket, frame.attempt).encode())

    def _arm(self) -> None:
        """Have this process ended where it comes to nothing new for longer than any episode in it may take.

        The last resort against a call that never lets another thread run, where no driver is left to end this process:
        needs no Python to run, and comes later than the driver would.
        """
        longest = max(self._seconds.values())
        faulthandler.dump_traceback_later(longest + 2 * self._orders.grace_seconds, exit=True)

    def _cut(self) -> bytes:
        """Return the frames that say what the episodes being played have used of a model."""
        return b"".join(
            Frame(CUT, frame.ticket, frame.attempt, meter.used.model_dump_json().encode()).encode()
            for frame, meter in self._meters.values()
            if meter.used.calls
        )

    def _teller(self, frame: Frame, job: RolloutJob) -> Callable[[ActionableEnv], None] | None:
        """Return what tells the driver which environments of a new kind share a backend; None where it knows."""
        kinds = kinds_of(job)
        if kinds in self._told:
            return None
        loop = asyncio.get_running_loop()

        def tell(env: ActionableEnv) -> None:
            message = Frame(BUILT, frame.ticket, frame.attempt, orjson.dumps(shared_backends(env))).encode()
            self._told.add(kinds)
            loop.call_soon_threadsafe(self._channel.sendall, message)

        return tell


def _received(channel: socket.socket) -> bytes:
    try:
        return channel.recv(1 << 16)
    except OSError:
        return b""


def _end_on_fault(task: asyncio.Task[None]) -> None:
    """End the process where a job could not even be played: the driver then knows, instead of waiting."""
    if not task.cancelled() and (error := task.exception()) is not None:
        sys.stderr.write(f"{type(error).__name__}: {error}\n")
        sys.stderr.flush()
        os._exit(1)


def _die_with(driver: int) -> None:
    """Have the kernel say when the driver dies; the end of the socket says so, too, but needs a free thread.

    A SIGTERM while the driver lives (a service manager sends it to all at once) is the driver's to handle.
    """

    def end_if_orphaned(_number: int, _frame: object) -> None:
        if os.getppid() != driver:
            _end_group()

    signal.signal(signal.SIGTERM, end_if_orphaned)
    if sys.platform == "linux":
        libc = ctypes.CDLL(None)
        libc.prctl(_PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)
        # Whatever is orphaned below this process becomes its child, and so is found when this process ends.
        libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    if os.getppid() != driver:
        os._exit(1)


def _end_group() -> None:
    """End this process and whatever its environments and policies started, in whatever session that is by now."""
    for pid, started in descendants(os.getpid()).items():
        end_process(pid, started)
    os.killpg(0, signal.SIGKILL)


def _peak_memory() -> int:
    """Return the largest resident size so far, in bytes."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024
