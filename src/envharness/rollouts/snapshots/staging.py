"""The worker's end of one staging process: start it, hear whether it is ready, fork from it, end it."""

from __future__ import annotations

import json
import os
import select
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from dataclasses import dataclass
from functools import cached_property
from typing import cast

from envharness.core.env import ActionableEnv
from envharness.core.registry import Kind, names, target
from envharness.core.spec import StackSpec
from envharness.core.types import JsonDict
from envharness.rollouts.snapshots.wire import receive, receive_with_descriptors, send

ANSWER_SECONDS = 20.0
"""A fork takes milliseconds; a machine that needs this long is out of order."""

_BOOT = (
    "import json, sys; sys.path[:] = json.loads(sys.argv[1]); "
    "from envharness.rollouts.snapshots.staging_process import main; main(int(sys.argv[2]), int(sys.argv[3]))"
)
_ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
"""Numerical libraries start threads when they are imported, and a process with threads cannot be forked safely."""


class StagingError(Exception):
    """A staging process did not start, does not answer or cannot fork; never leaves this package."""


class NotStagedError(StagingError):
    """The environment itself raised while it was staged, and will say so where it is played."""


@dataclass(frozen=True)
class Start:
    """A start that rollouts share: part of a stack, its place in it, and what it is reset with."""

    env: ActionableEnv
    """The bridge with its Stages, not yet reset."""
    segment: str
    first: int
    """The number of its innermost component in the whole stack."""
    seed: int | None
    options: JsonDict | None

    @cached_property
    def order(self) -> str:
        """The start as JSON: what a staging process is told, and what tells one start from another."""
        stack = StackSpec(stack=self.env.node).model_dump(mode="json")
        order = {"stack": stack, "segment": self.segment, "first": self.first}
        return json.dumps({**order, "seed": self.seed, "options": self.options}, sort_keys=True)


class StagingProcess:
    """One start, loaded, reset and staged. One that has failed is of no more use."""

    def __init__(self, start: Start) -> None:
        """Start the process; returns before it is ready. Raises StagingError where it cannot be started."""
        self._staged = ""
        self.children = 0
        """How many live."""
        self._lock = threading.Lock()
        self._control, theirs = socket.socketpair()
        self._control.settimeout(ANSWER_SECONDS)
        self._last_words = tempfile.TemporaryFile()  # noqa: SIM115  as long as the process
        self._process: subprocess.Popen[bytes] | None = None
        try:
            self._process = subprocess.Popen(  # noqa: S603  our own interpreter
                [sys.executable, "-c", _BOOT, json.dumps(sys.path), str(theirs.fileno()), str(os.getpid())],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=self._last_words,
                pass_fds=(theirs.fileno(),),
                env={**os.environ, **_ONE_THREAD, "PYTHONHASHSEED": "0"},
            )
            send(self._control, {**json.loads(start.order), "registered": cast("JsonDict", _registered())})
        except (OSError, ValueError) as error:
            self.close()
            raise StagingError(f"the staging process cannot be started: {error}") from error
        finally:
            theirs.close()

    def ready(self, seconds: float) -> bool:
        """Whether it can fork, waiting so long for it. Raises StagingError where it never will."""
        if not self._staged and select.select([self._control], [], [], seconds)[0]:
            try:
                message = receive(self._control)
            except (OSError, EOFError) as error:
                raise StagingError(f"the staging process ended {self._how_it_ended()}") from error
            if "refused" in message:
                raise NotStagedError(str(message["refused"]))
            if "failed" in message:
                raise StagingError(str(message["failed"]))
            self._staged = json.dumps(message["staged"])
        return bool(self._staged)

    def staged(self) -> JsonDict:
        """Return what the reset returned and recorded: each rollout gets a copy of its own."""
        copy: JsonDict = json.loads(self._staged)
        return copy

    def fork(self) -> tuple[socket.socket, int]:
        """Return the socket and the process id of a new child. Raises StagingError."""
        message, descriptors = self._ask({"fork": True}, descriptors=1)
        if "failed" in message:
            raise StagingError(str(message["failed"]))
        self.children += 1
        return socket.socket(fileno=descriptors[0]), int(str(message["child"]))

    def how_it_ended(self, child: int) -> str:
        """Say how a child ended whose socket has closed."""
        try:
            return describe_exit(int(str(self._ask({"ended": child})[0]["code"])))
        except StagingError:
            return "with its staging process"

    @property
    def pid(self) -> int:
        """The process id."""
        return self._process.pid if self._process is not None else 0

    def close(self) -> None:
        """End it, and its children with it. Idempotent."""
        self._control.close()
        if self._process is not None:
            self._process.kill()
            self._process.wait()
        self._last_words.close()

    def _ask(self, request: JsonDict, descriptors: int = 0) -> tuple[JsonDict, list[int]]:
        with self._lock:
            try:
                send(self._control, request)
                return receive_with_descriptors(self._control, descriptors)
            except (OSError, EOFError) as error:
                self._control.close()  # a late answer would be taken for that to the next request
                raise StagingError(f"the staging process ended {self._how_it_ended()}") from error

    def _how_it_ended(self) -> str:
        if self._process is None:
            return "before it began"
        try:
            code = self._process.wait(1.0)
        except subprocess.TimeoutExpired:
            self._process.kill()
            code = self._process.wait()
        self._last_words.seek(0)
        lines = self._last_words.read().decode("utf-8", "replace").strip().splitlines()
        return describe_exit(code) + (f": {lines[-1][:200]}" if lines else "")


def describe_exit(code: int) -> str:
    """Say how a process ended, from its exit code (negative: a signal)."""
    if code >= 0:
        return f"with exit status {code}"
    try:
        return f"by {signal.Signals(-code).name}"
    except ValueError:
        return f"by signal {-code}"


def _registered() -> dict[Kind, dict[str, str]]:
    kinds: tuple[Kind, ...] = ("environment", "component")
    return {kind: {name: target(kind, name) for name in names(kind)} for kind in kinds}
