"""SIGTERM while an episode waits: the engine unwinds at once and the environment is closed."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
import time
from pathlib import Path

import pytest

from envharness.core.policy import Decision, PolicySpec, Turn
from envharness.core.spec import StackSpec
from envharness.rollouts.engine import make_engine
from envharness.rollouts.interrupts import Terminated, termination_unwinds
from envharness.rollouts.job import RolloutJob
from environments import Corridor


class Waiting:
    """Says that it waits by making a file, and waits."""

    def __init__(self, seed: int, file: str) -> None:
        self._file = Path(file)

    async def act(self, turn: Turn) -> Decision:
        self._file.touch()
        await asyncio.sleep(60)
        return Decision(stop=True)

    async def close(self) -> None:
        return


class Leaving(Corridor):
    """Makes a file when it is closed."""

    def __init__(self, file: str) -> None:
        super().__init__()
        self._file = Path(file)

    def _release(self) -> None:
        self._file.touch()


def test_the_inline_engine_ends_at_once_and_closes_the_environment(tmp_path: Path) -> None:
    waiting, closed = tmp_path / "waiting", tmp_path / "closed"
    job = RolloutJob(
        task="corridor",
        stack=StackSpec.environment("rollouts.test_termination:Leaving", file=str(closed)),
        policy=PolicySpec(id="rollouts.test_termination:Waiting", options={"file": str(waiting)}),
        env_seed=0,
        policy_seed=0,
    )

    def terminate() -> None:
        while not waiting.exists():
            time.sleep(0.01)
        time.sleep(0.1)  # the loop sleeps by then
        os.kill(os.getpid(), signal.SIGTERM)

    thread = threading.Thread(target=terminate, daemon=True)
    thread.start()
    began = time.monotonic()
    with pytest.raises(Terminated), termination_unwinds(), make_engine("inline") as engine:
        list(engine.run([job]))
    thread.join()
    assert closed.exists()
    assert time.monotonic() - began < 8  # closing waits ten seconds for an environment whose thread is gone
