"""The staging process: loads, resets and stages one environment, and forks a child per rollout from there.

A fresh interpreter with a single thread, no event loop, no model client and no Contract in it. It ends with the worker
that started it, by the end of its socket and by the kernel's word, and its children end with it.
"""

from __future__ import annotations

import ctypes
import gc
import os
import signal
import socket
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from envharness.components.tap import Recorder, tap_part
from envharness.core.env import ActionableEnv
from envharness.core.registry import Kind, names, register
from envharness.core.spec import StackSpec
from envharness.core.types import JsonDict
from envharness.rollouts.snapshots.child import recorded, reset, serve
from envharness.rollouts.snapshots.wire import receive, send

_PR_SET_PDEATHSIG = 1


def main(descriptor: int, worker: int) -> None:
    """Stage what the first frame asks for, say how that went, and then serve forks."""
    _die_with(worker)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the driver's to handle
    control = socket.socket(fileno=descriptor)
    control.set_inheritable(False)
    order: Any = receive(control)
    _register(order["registered"])
    with ExitStack() as cleanup:
        try:
            env, recorder, start = _stage(order, cleanup)
        except Exception as error:  # noqa: BLE001  the worker meets it itself, in a reset of its own
            send(control, {"refused": f"{type(error).__name__}: {error}"})
            return
        threads = len(list(Path("/proc/self/task").iterdir()))
        if threads > 1:
            send(control, {"failed": f"the environment started {threads - 1} threads, so it cannot be forked safely"})
            return
        gc.collect()
        gc.freeze()  # so that children share the memory instead of copying it at their first collection
        send(control, {"staged": start})
        _Forks(env, recorder, control).serve()


def _stage(order: Any, cleanup: ExitStack) -> tuple[ActionableEnv, Recorder, JsonDict]:
    built = StackSpec.from_data(order["stack"]).build()
    cleanup.callback(built.close)
    recorder = Recorder()
    env = tap_part(built, recorder, order["segment"], order["first"])
    value = reset(env, order)
    return env, recorder, {"value": value, **recorded(recorder)}


class _Forks:
    """Answers the worker on the control socket."""

    def __init__(self, env: ActionableEnv, recorder: Recorder, control: socket.socket) -> None:
        self._env = env
        self._recorder = recorder
        self._control = control
        self._ends: dict[int, int] = {}
        """Process id → exit code, negative for a signal, of children that ended badly."""

    def serve(self) -> None:
        while True:
            try:
                request = receive(self._control)
            except (EOFError, ConnectionError):
                return
            child = request.get("ended")
            if isinstance(child, int):
                self._reap(child)
                send(self._control, {"code": self._ends.pop(child, 0)})
            else:
                self._reap()
                self._fork()

    def _fork(self) -> None:
        ours, theirs = socket.socketpair()
        staging = os.getpid()
        try:
            child = os.fork()
        except OSError as error:
            ours.close()
            theirs.close()
            send(self._control, {"failed": f"cannot fork: {error}"})
            return
        if child == 0:
            self._be_the_child(ours, theirs, staging)
        ours.close()
        send(self._control, {"child": child}, [theirs.fileno()])
        theirs.close()

    def _be_the_child(self, ours: socket.socket, theirs: socket.socket, staging: int) -> None:
        code = 1
        try:
            _die_with(staging)
            theirs.close()
            self._control.close()
            serve(self._env, self._recorder, ours)
            code = 0
        finally:
            os._exit(code)  # nothing of the staging process may be cleaned up here

    def _reap(self, wanted: int | None = None) -> None:
        """Take leave of children that have ended. `wanted` is waited for: its socket has closed."""
        while True:
            try:
                child, status = os.waitpid(-1 if wanted is None else wanted, 0 if wanted else os.WNOHANG)
            except ChildProcessError:
                return
            if child == 0:
                return
            if code := os.waitstatus_to_exitcode(status):
                self._ends[child] = code
            if wanted is not None:
                return


def _register(registered: dict[Kind, dict[str, str]]) -> None:
    for kind, targets in registered.items():
        for name in targets.keys() - set(names(kind)):
            register(kind, name, targets[name])


def _die_with(parent: int) -> None:
    """Have the kernel end this process when its parent dies, even in the middle of a call."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        sys.exit(1)
