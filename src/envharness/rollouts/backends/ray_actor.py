"""What runs in an actor of a Ray cluster: plays jobs in a process that stays warm. Needs no Ray to be imported."""

from __future__ import annotations

import asyncio
import os
import resource
import sys
from typing import Literal

from pydantic import BaseModel, ConfigDict

from envharness.core.env import ActionableEnv
from envharness.core.registry import Kind, names, register
from envharness.llm.share import take_seat
from envharness.rollouts.demand import shared_backends
from envharness.rollouts.environment_thread import EnvironmentThread
from envharness.rollouts.episode import play_to_json
from envharness.rollouts.job import RolloutJob
from envharness.rollouts.snapshots.snapshots import SnapshotMode, Snapshots


class ActorOrders(BaseModel):
    """What an actor is told when it starts."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    path: list[str]
    """Where the driver looks for modules."""
    unsafe_hooks: bool
    max_episodes: int
    max_memory_bytes: int
    seat: int
    seats: int
    registered: dict[Kind, dict[str, str]]
    snapshots: SnapshotMode


Mark = Literal["", "stuck", "retiring"]
"""What an actor says of itself beside an episode."""


class RolloutActor:
    """Plays jobs in a process of a cluster. All its environments share one thread; its policies wait side by side."""

    def __init__(self, orders_json: str) -> None:
        self._orders = orders = ActorOrders.model_validate_json(orders_json)
        sys.path[:] = [*orders.path, *(entry for entry in sys.path if entry not in orders.path)]
        take_seat(orders.seat, orders.seats)
        for kind, targets in orders.registered.items():
            for name in targets.keys() - set(names(kind)):
                register(kind, name, targets[name])
        self._thread = EnvironmentThread()
        self._snapshots = Snapshots(orders.snapshots)
        self._playing: dict[int, asyncio.Task[bytes]] = {}
        self._built: dict[int, asyncio.Future[list[str]]] = {}
        self._played = 0

    async def ready(self) -> int:
        """Return the process id, once everything is imported."""
        return os.getpid()

    async def play(self, number: int, attempt: int, shared: bytes, own: bytes) -> tuple[bytes, Mark]:
        """Play a job, whose JSON comes in two parts; return the episode's JSON and how the actor is."""
        job = RolloutJob.model_validate_json(shared[:-1] + b"," + own[1:])
        loop, built = asyncio.get_running_loop(), self._future(number)

        def tell(env: ActionableEnv) -> None:
            loop.call_soon_threadsafe(_set, built, shared_backends(env))

        task = loop.create_task(
            play_to_json(
                job,
                host=self._thread,
                attempt=attempt,
                worker=self._orders.name,
                unsafe_hooks=self._orders.unsafe_hooks,
                snapshots=self._snapshots,
                when_built=tell,
            )
        )
        self._playing[number] = task
        try:
            episode = await task
        finally:
            del self._playing[number]
            _set(built, [])
            self._built.pop(number, None)
        self._played += 1
        if self._thread.stuck:
            return episode, "stuck"
        full = self._played >= self._orders.max_episodes or _peak_memory() > self._orders.max_memory_bytes
        return episode, "retiring" if full else ""

    async def built(self, number: int) -> list[str]:
        """Return which environments of a job share a backend, once its stack is built or its episode over."""
        return await self._future(number)

    async def stop(self) -> None:
        """Cancel the episodes and close their environments."""
        tasks = list(self._playing.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _future(self, number: int) -> asyncio.Future[list[str]]:
        return self._built.setdefault(number, asyncio.get_running_loop().create_future())


def _set(future: asyncio.Future[list[str]], value: list[str]) -> None:
    if not future.done():
        future.set_result(value)


def _peak_memory() -> int:
    """Return the largest resident size so far, in bytes."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024
