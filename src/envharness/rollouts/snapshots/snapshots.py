"""The snapshots of one worker: decides which starts are staged, keeps their processes, and hands out forks of them."""

from __future__ import annotations

import sys
from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path
from time import thread_time
from typing import ClassVar, Literal

from envharness.components.stage import Stage
from envharness.components.tap import Recorder, SelfRecording, tap_part
from envharness.core.env import ActionableEnv
from envharness.core.harness import EnvHarness
from envharness.core.spec import StackNode, StackSpec
from envharness.core.types import JsonDict, ResetResponse
from envharness.rollouts.snapshots.forked import ForkedEnvironment
from envharness.rollouts.snapshots.staging import NotStagedError, StagingError, StagingProcess, Start
from envharness.rollouts.snapshots.worth import SLOW_SECONDS, Resets

SnapshotMode = Literal["auto", "always", "never"]
"""`auto`: for starts whose resets have proved expensive; `always`: wherever it can be; `never`."""

MAX_STAGING_PROCESSES = 4
MAX_CHILDREN = 64
"""Bounds of one worker; what is beyond them is reset in the worker itself."""
STARTS_KNOWN = 256
"""Starts whose resets are remembered."""
STAGING_SECONDS = 60.0
"""How long `always` waits for a staging process."""
FREE_BYTES = 512 << 20
"""Memory that must be available for another process."""


class Snapshots:
    """One worker's staging processes. Used on environment threads, one call at a time; `close` from anywhere.

    Whatever fails here, the environment is reset in the worker as if there were no snapshots, and the episode's notes
    say so.
    """

    def __init__(self, mode: SnapshotMode = "auto") -> None:
        self._mode: SnapshotMode = mode if sys.platform == "linux" else "never"
        self._processes: OrderedDict[str, StagingProcess] = OrderedDict()
        """By the order of their start, the one used last at the end."""
        self._resets: OrderedDict[str, Resets] = OrderedDict()
        self._given_up: set[str] = set()

    def build(self, stack: StackSpec, note: Callable[[str], object]) -> ActionableEnv:
        """Build a stack whose parts may be forked. `note` is told what failed, if anything does."""
        env = stack.build()
        return env if self._mode == "never" else self._placed(env, note)

    def fork(self, start: Start, recorder: Recorder, note: Callable[[str], object]) -> ForkedEnvironment | None:
        """Return a fork of a start, or None where it is better reset in the worker, or cannot be forked."""
        if self._mode == "auto" and not self._resets:
            return None  # nothing was slow so far
        if start.order in self._given_up:
            return None
        try:
            process = self._process(start)
            if process is None or sum(each.children for each in self._processes.values()) >= MAX_CHILDREN:
                return None
            if not process.ready(STAGING_SECONDS if self._mode == "always" else 0.0) or not _memory_left():
                return None
            channel, child = process.fork()
        except StagingError as error:
            self._give_up(start)
            if not isinstance(error, NotStagedError):
                note(f"reset without a snapshot: {error}")
            return None

        def on_death() -> str:
            how = process.how_it_ended(child)
            self._give_up(start)  # who knows whether forking it was the cause
            return how

        def on_close() -> None:
            process.children -= 1

        return ForkedEnvironment(
            start.env, process.staged(), channel, child, recorder=recorder, on_death=on_death, on_close=on_close
        )

    def learn(self, start: Start, seconds: float) -> None:
        """Take the CPU seconds of a reset in the worker: on a busy machine the wall clock says more about others."""
        if self._mode != "auto" or (seconds < SLOW_SECONDS and not self._resets):
            return
        resets = self._resets.get(start.order)
        if resets is not None:
            resets.add(seconds)
        elif seconds >= SLOW_SECONDS:
            self._resets[start.order] = Resets(seconds)
            if len(self._resets) > STARTS_KNOWN:
                self._resets.popitem(last=False)

    def close(self) -> None:
        """End all staging processes and what was forked from them."""
        while self._processes:
            self._processes.popitem()[1].close()

    def _process(self, start: Start) -> StagingProcess | None:
        """Return the start's staging process, started now where it pays and there is room; else None."""
        process = self._processes.get(start.order)
        if process is not None:
            self._processes.move_to_end(start.order)
            return process
        resets = self._resets.get(start.order)
        if self._mode == "auto" and (resets is None or not resets.worth_staging):
            return None
        if not self._make_room() or not _memory_left():
            return None
        process = self._processes[start.order] = StagingProcess(start)
        return process

    def _make_room(self) -> bool:
        """End the process that was not used for the longest time, if there is one that nobody uses now."""
        if len(self._processes) < MAX_STAGING_PROCESSES:
            return True
        idle = next((order for order, process in self._processes.items() if not process.children), None)
        if idle is not None:
            self._processes.pop(idle).close()
        return idle is not None

    def _give_up(self, start: Start) -> None:
        self._given_up.add(start.order)
        process = self._processes.get(start.order)
        if process is not None and not process.children:
            self._processes.pop(start.order).close()

    def _placed(self, env: ActionableEnv, note: Callable[[str], object]) -> ActionableEnv:
        if _can_fork(env):
            return SnapshotEnvironment(env, self, note)
        for index, child in enumerate(env.children()):
            env.replace_child(index, self._placed(child, note))
        return env


class SnapshotEnvironment(EnvHarness, SelfRecording):
    """A bridge, with the Stages on it, that is reset where that is cheapest: here, or in a fork of a staged start."""

    tag: ClassVar[str] = "snapshot"

    def __init__(self, local: ActionableEnv, snapshots: Snapshots, note: Callable[[str], object]) -> None:
        super().__init__(local)
        self._local = local
        self._snapshots = snapshots
        self._note = note
        self._recorder, self._segment, self._first = Recorder(), "0", 0
        self._started = False

    def record(self, recorder: Recorder, segment: str, first: int) -> int:
        """Record for the bridge and the Stages."""
        self._recorder, self._segment, self._first = recorder, segment, first
        return sum(1 for _ in self._local.layers()) - 1

    def reset(self, seed: int | None = None, options: JsonDict | None = None) -> ResetResponse:
        """Decide, the first time, where the episode is played; then reset there."""
        if self._started:
            return self.inner.reset(seed, options)
        self._started = True
        start = Start(self._local, self._segment, self._first, seed, options)
        forked = self._snapshots.fork(start, self._recorder, self._note)
        if forked is not None:
            self.inner = forked
            return forked.reset(seed, options)
        self.inner = tap_part(self._local, self._recorder, self._segment, self._first)
        began = thread_time()
        response = self.inner.reset(seed, options)
        self._snapshots.learn(start, thread_time() - began)
        return response

    def close(self) -> None:
        """Close both."""
        try:
            self.inner.close()
        finally:
            self._local.close()

    def save_state(self) -> JsonDict:
        """Return the state of what it stands for."""
        return (self.inner if isinstance(self.inner, ForkedEnvironment) else self._local).save_state()

    @property
    def node(self) -> StackNode:
        """Where an environment is reset is no part of its description."""
        return self._local.node


def _can_fork(env: ActionableEnv) -> bool:
    """Whether it is a bridge that may be forked, alone or with nothing but Stages on it."""
    while type(env) is Stage:
        env = env.inner
    try:
        return not env.children() and env.capabilities.fork_safe
    except Exception:  # noqa: BLE001  a bridge that cannot say what it can do is left alone
        return False


def _memory_left() -> bool:
    for line in Path("/proc/meminfo").read_text(encoding="ascii").splitlines():
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) * 1024 >= FREE_BYTES
    return True
