"""Starts this process's zygote when it is first needed, replaces a dead one, and asks it for hook processes."""

from __future__ import annotations

import atexit
import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import threading
from dataclasses import dataclass, field
from pathlib import Path
from time import monotonic
from typing import Any

import orjson

from envharness.core.errors import SandboxUnavailableError, ZygoteError
from envharness.core.labels import current_label
from envharness.sandbox.limits import HookLimits
from envharness.sandbox.protocol import CONTROL_LENGTH

START_SECONDS = 60.0
"""A zygote imports Pydantic: half a second on a quiet machine."""
ANSWER_SECONDS = 20.0
"""A fork takes a millisecond; a machine that needs this long is out of order."""

# No module may register what to do after a fork: there is one thread, the random streams start with the source, and it
# would cost each hook process a fifth of its time.
_BOOT = (
    "import json, os, sys; sys.path[:] = json.loads(sys.argv[2]); os.register_at_fork = lambda **_: None; "
    "from envharness.sandbox.zygote import main; main(int(sys.argv[1]))"
)


@dataclass
class HookChild:
    """A forked hook process, as its session holds it."""

    pid: int
    ticket: int
    """The zygote's own name for it: a process id may be used again, a ticket is not."""
    channel: socket.socket
    pidfd: int | None
    zygote: ZygoteClient


@dataclass
class ZygoteClient:
    """The parent's end of one zygote. Use it under `lock`."""

    process: subprocess.Popen[bytes]
    control: socket.socket
    namespaces: dict[str, dict[str, str]] = field(default_factory=dict[str, dict[str, str]])
    lock: threading.Lock = field(default_factory=threading.Lock)
    _forgotten: list[int] = field(default_factory=list[int])

    def alive(self) -> bool:
        """Whether the zygote still runs."""
        return self.control.fileno() >= 0 and self.process.poll() is None

    def fork(self, limits: HookLimits, *, guarded: bool) -> HookChild:
        """A new hook process, with no source yet. `ZygoteError`, or `SandboxUnavailableError` without a guard."""
        request = {
            "op": "fork",
            "guarded": guarded,
            "memory_bytes": limits.memory_bytes,
            "cpu_seconds": limits.cpu_seconds,
            "frame_bytes": limits.frame_bytes,
            "forget": self._take_forgotten(),
        }
        reply, descriptors = self.ask(request)
        if "unavailable" in reply:
            raise SandboxUnavailableError(f"hooks cannot be confined here: {reply['unavailable']}")
        if "forked" not in reply or not descriptors:
            raise ZygoteError(f"the zygote could not fork a hook process: {reply.get('error', reply)}")
        channel = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM, 0, descriptors[0])
        channel.setblocking(False)
        forked = reply["forked"]
        pidfd = descriptors[1] if len(descriptors) > 1 else None
        return HookChild(forked["pid"], forked["ticket"], channel, pidfd, self)

    def end(self, ticket: int) -> dict[str, Any]:
        """Kill and reap a hook process: its `exit_code` (negative: a signal) and `cpu_seconds`. `ZygoteError`."""
        return self.ask({"op": "end", "ticket": ticket})[0].get("ended", {})

    def forget_child(self, ticket: int) -> None:
        """Say that nobody will ask how this hook process ended. Costs no round trip: it goes with the next request."""
        self._forgotten.append(ticket)

    def _take_forgotten(self) -> list[int]:
        with self.lock:
            taken, self._forgotten = self._forgotten, []
        return taken

    def ask(self, request: dict[str, Any]) -> tuple[dict[str, Any], list[int]]:
        """One request, one reply and the descriptors that came with it. A failure ends the zygote."""
        with self.lock:
            try:
                data = orjson.dumps(request)
                self.control.settimeout(ANSWER_SECONDS)
                self.control.sendall(CONTROL_LENGTH.pack(len(data)) + data)
                return self.receive(ANSWER_SECONDS)
            except OSError as error:
                self.kill()
                raise ZygoteError(f"the sandbox's zygote does not answer: {error or type(error).__name__}") from error
            except BaseException:  # an interrupt in mid-exchange: the next reply would be taken for another's
                self.kill()
                raise

    def receive(self, seconds: float) -> tuple[dict[str, Any], list[int]]:
        """Read one control message; `OSError` at end of file or after `seconds`."""
        deadline = monotonic() + seconds
        data, descriptors = b"", list[int]()
        while len(data) < CONTROL_LENGTH.size or len(data) < CONTROL_LENGTH.size + CONTROL_LENGTH.unpack_from(data)[0]:
            self.control.settimeout(max(deadline - monotonic(), 0.001))
            chunk, received, _, _ = socket.recv_fds(self.control, 65536, 2)
            descriptors += received
            if not chunk:
                for descriptor in descriptors:
                    os.close(descriptor)
                raise ConnectionResetError("it is gone")
            data += chunk
        return orjson.loads(data[CONTROL_LENGTH.size :]), descriptors

    def kill(self) -> None:
        """End the zygote, and with it its hook processes, now."""
        self.control.close()
        self.process.kill()
        self.process.wait()

    def close(self) -> None:
        """End the zygote: it sees its control socket close, ends its children and goes."""
        self.control.close()
        try:
            self.process.wait(timeout=2.0)
        except subprocess.TimeoutExpired:
            self.kill()

    def forget(self) -> None:
        """In a forked copy of this process: let go without touching the zygote, which belongs to the original."""
        self.control.close()
        self.process.returncode = 0  # so that Popen's finalizer neither waits nor warns


class _Launcher:
    """This process's zygote, if it has one."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.client: ZygoteClient | None = None
        self.hooked = False

    def current(self) -> ZygoteClient:
        with self.lock:
            if self.client is None or not self.client.alive():
                if self.client is not None:
                    self.client.kill()
                self._register()
                self.client = _start()
            return self.client

    def stop(self) -> None:
        with self.lock:
            client, self.client = self.client, None
        if client is not None:
            client.close()

    def _register(self) -> None:
        if self.hooked:
            return
        self.hooked = True
        atexit.register(self.stop)
        os.register_at_fork(
            before=self._before_fork,
            after_in_parent=self._after_fork_in_parent,
            after_in_child=self._after_fork_in_child,
        )

    def _before_fork(self) -> None:
        self.lock.acquire()  # no fork while a zygote is being started: the copy would hold its control socket open

    def _after_fork_in_parent(self) -> None:
        self.lock.release()

    def _after_fork_in_child(self) -> None:
        client, self.client = self.client, None
        self.lock = threading.RLock()
        if client is not None:
            client.forget()


_launcher = _Launcher()


def current_zygote() -> ZygoteClient:
    """The living zygote of this process, started now if need be. `ZygoteError` when it does not start."""
    return _launcher.current()


def stop_zygote() -> None:
    """End this process's zygote, if there is one; the next session starts another."""
    _launcher.stop()


def _import_path() -> list[str]:
    """Where the zygote looks for modules: this very source tree first, never the working directory."""
    own_tree = str(Path(__file__).resolve().parents[2])
    elsewhere = [entry for entry in sys.path if entry and Path(entry).is_absolute() and entry != str(Path.cwd())]
    return [own_tree, *(entry for entry in elsewhere if entry != own_tree)]


def _start() -> ZygoteClient:
    if not sys.executable:
        raise ZygoteError("the sandbox needs a Python interpreter to start; sys.executable is not set")
    ours, theirs = socket.socketpair()
    # -P -s instead of -I, which would also ignore PYTHONHASHSEED; the environment holds nothing else to ignore.
    command = [sys.executable, "-P", "-s", "-S", "-X", "utf8", "-c", _BOOT]
    try:
        process = subprocess.Popen(  # noqa: S603  our own interpreter, constant arguments
            [*command, str(theirs.fileno()), json.dumps(_import_path())],
            # Hooks may read this block: the label holds no secret, and nothing else is in it. Symbols are bound now:
            # what the zygote binds, no hook process has to.
            env={"PYTHONHASHSEED": "0", "TZ": "UTC", "LD_BIND_NOW": "1", **current_label().variables()},
            cwd="/",
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            pass_fds=(theirs.fileno(),),
            start_new_session=True,  # Ctrl-C in a terminal is for the worker to handle
        )
    except OSError as error:
        ours.close()
        raise ZygoteError(f"the sandbox's zygote cannot be started: {error}") from error
    finally:
        theirs.close()
    client = ZygoteClient(process, ours)
    try:
        ready, _ = client.receive(START_SECONDS)
    except OSError as error:
        with contextlib.suppress(ProcessLookupError):
            os.kill(process.pid, signal.SIGTERM)
        _, output = process.communicate()
        ours.close()
        last = output.decode("utf-8", "replace").strip().splitlines()[-1:] or [str(error)]
        raise ZygoteError(f"the sandbox's zygote does not start: {last[0]}") from error
    if process.stderr is not None:
        process.stderr.close()
    client.namespaces = ready["ready"]
    return client
