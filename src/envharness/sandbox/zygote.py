"""The zygote: a clean, single-threaded process with everything imported, which forks one hook process per session.

Started by `launcher` with an empty environment. It never sees hook source: that goes from the session straight to
the hook process. It ends, and its hook processes with it, when the worker that started it closes the control socket
or dies.

One hook process is always made ahead, confined and waiting for its source, so that a session need not wait for a fork.
"""

from __future__ import annotations

import contextlib
import gc
import os
import select
import signal
import socket
import sys
from dataclasses import dataclass
from typing import Any

import orjson

from envharness.sandbox.determinism import fix_clock_and_random
from envharness.sandbox.guard import Guard, GuardReport
from envharness.sandbox.hook_process import rehearse, run_forked
from envharness.sandbox.hook_source import preload
from envharness.sandbox.protocol import CONTROL_LENGTH

CHILD_DESCRIPTOR = 3
"""Where every hook process has its socket."""

STATUSES_KEPT = 4096
"""Ends of hook processes nobody asked about yet; the oldest are forgotten."""


@dataclass
class _Spare:
    """A hook process made ahead, for the next session that wants the same."""

    ticket: int
    pid: int
    settings: dict[str, Any]
    channel: socket.socket
    """The session's end."""
    pidfd: int | None

    def close(self) -> None:
        """Close the descriptors; once sent, they live on with the session."""
        self.channel.close()
        if self.pidfd is not None:
            os.close(self.pidfd)


class Zygote:
    """Serves control messages on one socket."""

    def __init__(self, control: socket.socket) -> None:
        self._control = control
        self._guard: Guard | None = None
        self._namespaces = GuardReport()
        self._forks = 0
        self._running: dict[int, int] = {}  # process id → ticket; a ticket, unlike a process id, is never used again
        self._ended: dict[int, dict[str, Any]] = {}  # by ticket
        self._forgotten: set[int] = set()  # tickets whose end nobody will ask about
        self._spare: _Spare | None = None
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
                self._forget(request.pop("forget"))
                self._hand_over(request)
            case "end":
                self._send({"ended": self._end(int(request["ticket"]))})
            case _:
                self._send({"error": f"unknown request {request['op']!r}"})

    def _hand_over(self, settings: dict[str, Any]) -> None:
        """Send a hook process of these settings, and make the next one while the session is busy with this one."""
        if settings["guarded"] and self._guard is None:
            self._send({"unavailable": self._namespaces.missing})
            return
        child = self._take_spare(settings)
        if child is None:
            try:
                child = self._fork(settings)
            except OSError as error:
                self._send({"error": f"cannot fork: {error}"})
                return
        descriptors = [child.channel.fileno()] if child.pidfd is None else [child.channel.fileno(), child.pidfd]
        self._send({"forked": {"pid": child.pid, "ticket": child.ticket}}, descriptors)
        child.close()
        try:
            self._spare = self._fork(settings)
        except OSError:
            self._spare = None  # the next session's own fork will say why

    def _take_spare(self, settings: dict[str, Any]) -> _Spare | None:
        """The process made ahead, if it is of these settings and lives; one that is of no use is ended."""
        spare, self._spare = self._spare, None
        if spare is None:
            return None
        if spare.settings == settings and spare.pid in self._running:
            return spare
        spare.close()
        self._end(spare.ticket)
        return None

    def _fork(self, settings: dict[str, Any]) -> _Spare:
        kept, given = socket.socketpair()
        zygote = os.getpid()
        try:
            pid = os.fork()
        except OSError:
            kept.close()
            given.close()
            raise
        if pid == 0:
            try:
                self._leave_only(kept.detach(), given, guarded=settings["guarded"])
                run_forked(CHILD_DESCRIPTOR, settings, self._guard if settings["guarded"] else None, zygote)
            finally:
                os._exit(71)
        kept.close()
        self._forks += 1
        self._running[pid] = self._forks
        # The process cannot be gone from the table yet: only this thread reaps.
        pidfd = os.pidfd_open(pid) if hasattr(os, "pidfd_open") else None
        return _Spare(self._forks, pid, settings, given, pidfd)

    def _leave_only(self, kept: int, given: socket.socket, *, guarded: bool) -> None:
        """In the child: its socket at `CHILD_DESCRIPTOR`, and nothing else but the three standard streams.

        What a guarded child applies last thing closes itself: the Landlock ruleset.
        """
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        given.detach()
        self._control.detach()
        if kept != CHILD_DESCRIPTOR:
            os.dup2(kept, CHILD_DESCRIPTOR, inheritable=False)
        keep = self._guard.ruleset if self._guard is not None and guarded else None
        if self._guard is not None and self._guard.close_descriptors(CHILD_DESCRIPTOR + 1, keep):
            return
        for descriptor in _open_descriptors():
            if descriptor > CHILD_DESCRIPTOR and descriptor != keep:
                with contextlib.suppress(OSError):  # the one that listed the others is closed already
                    os.close(descriptor)

    def _forget(self, tickets: list[int]) -> None:
        """Drop how these hook processes ended; their sessions killed them and do not ask."""
        running = set(self._running.values())
        for ticket in tickets:
            self._ended.pop(ticket, None)
            if ticket in running:
                self._forgotten.add(ticket)

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
        if ticket in self._forgotten:
            self._forgotten.remove(ticket)
            return
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


def main(control_descriptor: int) -> None:
    """Run as the zygote on an inherited control socket."""
    control = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM, 0, control_descriptor)
    control.set_inheritable(False)
    os.environ.pop("LD_BIND_NOW", None)  # was for the dynamic linker
    preload()
    fix_clock_and_random()
    rehearse()
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
