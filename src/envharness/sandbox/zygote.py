"""The zygote: a clean, single-threaded process with everything imported, which forks one hook process per session.

Started by `launcher` with an empty environment. It never sees hook source: that goes from the session straight to
the hook process. It ends, and its hook processes with it, when the worker that started it closes the control socket
or dies.
"""

from __future__ import annotations

import contextlib
import gc
import os
import select
import signal
import socket
import sys
from typing import Any

import orjson

from envharness.core.types import Action, EnvResponse, Observation
from envharness.sandbox.determinism import fix_clock_and_random
from envharness.sandbox.guard import Guard, GuardReport
from envharness.sandbox.hook_process import run_forked
from envharness.sandbox.hook_source import preload
from envharness.sandbox.protocol import CONTROL_LENGTH

CHILD_DESCRIPTOR = 3
"""Where every hook process has its socket."""

STATUSES_KEPT = 4096
"""Ends of hook processes nobody asked about yet; the oldest are forgotten."""


class Zygote:
    """Serves control messages on one socket."""

    def __init__(self, control: socket.socket) -> None:
        self._control = control
        self._guard: Guard | None = None
        self._namespaces = GuardReport()
        self._forks = 0
        self._running: dict[int, int] = {}  # process id → ticket; a ticket, unlike a process id, is never used again
        self._ended: dict[int, dict[str, Any]] = {}  # by ticket
        try:
            self._guard = Guard(CHILD_DESCRIPTOR)
            self._namespaces = self._guard.leave_namespaces()
        except (OSError, AttributeError) as error:
            self._namespaces.missing["guard"] = str(error)

    def serve(self) -> None:
        """Answer until the control socket closes, then end every hook process."""
        wake_reader, wake_writer = socket.socketpair()
        wake_reader.setblocking(False)
        wake_writer.setblocking(False)
        signal.signal(signal.SIGCHLD, lambda _number, _frame: None)
        signal.set_wakeup_fd(wake_writer.fileno(), warn_on_full_buffer=False)
        poll = select.poll()
        poll.register(self._control, select.POLLIN)
        poll.register(wake_reader, select.POLLIN)
        self._send({"ready": {"applied": self._namespaces.applied, "missing": self._namespaces.missing}})
        while True:
            events = {descriptor for descriptor, _ in poll.poll()}
            if wake_reader.fileno() in events:
                wake_reader.recv(4096)
                self._reap()
            if self._control.fileno() in events:
                request = self._receive()
                if request is None:
                    break
                self._answer(request)
        for ticket in list(self._running.values()):
            self._end(ticket)

    def _answer(self, request: dict[str, Any]) -> None:
        match request["op"]:
            case "fork":
                self._fork(request)
            case "end":
                self._send({"ended": self._end(int(request["ticket"]))})
            case _:
                self._send({"error": f"unknown request {request['op']!r}"})

    def _fork(self, request: dict[str, Any]) -> None:
        guard = self._guard if request["guarded"] else None
        if request["guarded"] and guard is None:
            self._send({"unavailable": self._namespaces.missing})
            return
        kept, given = socket.socketpair()
        zygote = os.getpid()
        try:
            pid = os.fork()
        except OSError as error:
            kept.close()
            given.close()
            self._send({"error": f"cannot fork: {error}"})
            return
        if pid == 0:
            try:
                self._leave_only(kept.detach(), given)
                run_forked(CHILD_DESCRIPTOR, request, guard, zygote)
            finally:
                os._exit(71)
        kept.close()
        self._forks += 1
        self._running[pid] = self._forks
        descriptors = [given.fileno()]
        # The process cannot be gone from the table yet: only this thread reaps.
        pidfd = os.pidfd_open(pid) if hasattr(os, "pidfd_open") else None
        if pidfd is not None:
            descriptors.append(pidfd)
        self._send({"forked": {"pid": pid, "ticket": self._forks}}, descriptors)
        given.close()
        if pidfd is not None:
            os.close(pidfd)

    def _leave_only(self, kept: int, given: socket.socket) -> None:
        """In the child: its socket at `CHILD_DESCRIPTOR`, nothing else but the three standard streams."""
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        given.detach()
        self._control.detach()
        if kept != CHILD_DESCRIPTOR:
            os.dup2(kept, CHILD_DESCRIPTOR, inheritable=False)
        for descriptor in _open_descriptors():
            if descriptor > CHILD_DESCRIPTOR:
                with contextlib.suppress(OSError):  # the one that listed the others is closed already
                    os.close(descriptor)

    def _reap(self) -> None:
        while True:
            try:
                pid, status, usage = os.wait4(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            self._record(pid, status, usage.ru_utime + usage.ru_stime)

    def _end(self, ticket: int) -> dict[str, Any]:
        """Kill (if it still runs) and reap one hook process; how it ended."""
        pid = next((pid for pid, held in self._running.items() if held == ticket), None)
        if pid is not None:
            os.kill(pid, signal.SIGKILL)
            _, status, usage = os.wait4(pid, 0)
            self._record(pid, status, usage.ru_utime + usage.ru_stime)
        return self._ended.pop(ticket, {})

    def _record(self, pid: int, status: int, cpu_seconds: float) -> None:
        ticket = self._running.pop(pid)
        self._ended[ticket] = {"exit_code": os.waitstatus_to_exitcode(status), "cpu_seconds": cpu_seconds}
        while len(self._ended) > STATUSES_KEPT:
            del self._ended[next(iter(self._ended))]

    def _send(self, message: dict[str, Any], descriptors: list[int] | None = None) -> None:
        data = orjson.dumps(message)
        frame = CONTROL_LENGTH.pack(len(data)) + data
        sent = socket.send_fds(self._control, [frame], descriptors or [])
        self._control.sendall(frame[sent:])

    def _receive(self) -> dict[str, Any] | None:
        header = self._receive_exactly(CONTROL_LENGTH.size)
        data = self._receive_exactly(CONTROL_LENGTH.unpack(header)[0]) if header else b""
        return orjson.loads(data) if data else None

    def _receive_exactly(self, size: int) -> bytes:
        data = b""
        while len(data) < size:
            try:
                chunk = self._control.recv(size - len(data))
            except ConnectionResetError:
                return b""
            if not chunk:
                return b""
            data += chunk
        return data


def _open_descriptors() -> list[int]:
    """This process's descriptors; without /proc every number that could be one, as far as is quick to try."""
    try:
        return [int(name) for name in os.listdir("/proc/self/fd")]  # noqa: PTH208  names are all that is wanted
    except OSError:
        return list(range(65536))


def _warm_up() -> None:
    """Build each model once: the first use in a process costs a hundred milliseconds, and a fork inherits it."""
    observation = Observation(text="warm")
    EnvResponse(observation=observation)
    Action(name="warm")
    preload()


def main(control_descriptor: int) -> None:
    """Run as the zygote on an inherited control socket."""
    control = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM, 0, control_descriptor)
    control.set_inheritable(False)
    _warm_up()
    fix_clock_and_random()
    zygote = Zygote(control)
    nowhere = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):  # standard error reported a failing start up to here
        os.dup2(nowhere, stream)
    os.close(nowhere)
    sys.argv = [""]
    for name in [name for name in os.environ if name.startswith("ENVHARNESS_")]:
        del os.environ[name]  # the label stays in the block that the kernel shows; no hook's content may hang on it
    gc.collect()
    gc.freeze()
    zygote.serve()
