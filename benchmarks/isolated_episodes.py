"""Whole isolated episodes per second: our pool against one fresh interpreter for every episode.

The episode is the same on both sides: Toy24 under a Contract whose hook runs after each of ten turns, a scripted
policy, the verifier asked at the end, the whole trace handed back as JSON and read.

* **Pool**: `make_engine("pool", workers=2)`, as a run uses it. A worker lives on, and so does its zygote; the hooks of
  each episode get a process of their own, forked and confined for this episode.
* **Naive**: two at a time, `python -c` for each episode. The interpreter imports what an episode needs, plays it and
  ends. Its hooks are isolated just as well, in a process of their own with the same confinement, but nothing is kept
  warm: that process, too, is begun with a fresh interpreter.
* **Naive, unconfined**: the same, but the fresh interpreter is all the isolation there is: the hook runs inside it,
  beside the verifier, with no confinement. The least that "an interpreter an episode" can mean; not the same promise.

Both sides start once unmeasured, so that files are cached. Rates are of wall-clock time; since other programs may want
the two cores at the same time, the ratio is also given in CPU time, of all processes of a side together.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import resource
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from time import perf_counter

from benchmarks import Figure, at_least
from envharness.core.policy import PolicySpec
from envharness.core.spec import StackSpec
from envharness.core.trace import Episode
from envharness.rollouts.engine import make_engine
from envharness.rollouts.job import Limits, RolloutJob
from envharness.sandbox import stop_zygote

CONTRACT = """
class _Contract(Contract):
    def modify_transition(self, action, response, env_state):
        env_state.extras["steps"] = env_state.extras.get("steps", 0) + 1
        return response
"""
TURNS = 10
AT_ONCE = 2
POOL_EPISODES = 800
POOL_FEW = 80
NAIVE_EPISODES = 16

_PR_SET_CHILD_SUBREAPER = 36
_TASK = "easy-0000"
_INTERPRETER = """
import asyncio, sys
from envharness.rollouts.episode import play
from envharness.rollouts.job import RolloutJob
job = RolloutJob.model_validate_json(sys.argv[1])
sys.stdout.write(asyncio.run(play(job)).model_dump_json())
"""
_UNCONFINED = f"""
import types
from envharness.components import contract
from envharness.core.types import EnvResponse
from envharness.sandbox.hook_process import HookServer
import orjson

class Inside:
    def __init__(self, source, *, seed, limits, unsafe):
        self.server = HookServer(limits.frame_bytes)
        loaded = self.ask({{"op": "load", "source": source, "seed": seed}}, {{}})
        self.overridden = frozenset(loaded["loaded"]["overridden"])
    def ask(self, request, state):
        return orjson.loads(self.server.answer(orjson.dumps(request), orjson.dumps(state)))
    def after_transition(self, action, response, state):
        request = {{"op": "after_transition", "action": action.model_dump(), "response": response.model_dump()}}
        return EnvResponse(**self.ask(request | {{"filter_observation": False}}, state)["response"])
    def close(self):
        pass

contract.open_session = Inside
{_INTERPRETER}
"""


@dataclass(frozen=True)
class _Cost:
    """What some episodes took: seconds on the clock, and of CPU in this process and its children."""

    wall: float
    cpu: float

    def __sub__(self, other: _Cost) -> _Cost:
        return _Cost(self.wall - other.wall, self.cpu - other.cpu)


def measure_episodes() -> dict[str, Figure]:
    """Compare the sides."""
    stop_zygote()  # this process's own, should it have one: nothing else may be running
    _adopt_orphans()
    _naive(_INTERPRETER, AT_ONCE)
    naive = _cost(lambda: _naive(_INTERPRETER, NAIVE_EPISODES))
    unconfined = _cost(lambda: _naive(_UNCONFINED, NAIVE_EPISODES))
    # The difference of a long and a short run: what starting and stopping the pool costs is in neither.
    few = _cost(lambda: _pool(POOL_FEW))
    pool = _cost(lambda: _pool(POOL_FEW + POOL_EPISODES)) - few
    pool_rate, naive_rate = POOL_EPISODES / pool.wall, NAIVE_EPISODES / naive.wall
    pool_cpu, naive_cpu = pool.cpu / POOL_EPISODES, naive.cpu / NAIVE_EPISODES
    return {
        "isolation_pool_episodes_per_second": Figure(pool_rate, "per s"),
        "isolation_naive_episodes_per_second": Figure(naive_rate, "per s"),
        "isolation_pool_times_naive": at_least(pool_rate / naive_rate, "times", 100),
        "isolation_pool_cpu_ms_an_episode": Figure(pool_cpu * 1e3, "ms"),
        "isolation_naive_cpu_ms_an_episode": Figure(naive_cpu * 1e3, "ms"),
        "isolation_pool_times_naive_by_cpu": at_least(naive_cpu / pool_cpu, "times", 100),
        "isolation_pool_times_unconfined_by_cpu": Figure(unconfined.cpu / NAIVE_EPISODES / pool_cpu, "times"),
        "isolation_pool_start_and_stop_ms": Figure((few.wall - POOL_FEW / pool_rate) * 1e3, "ms"),
    }


def _pool(episodes: int) -> None:
    with make_engine("pool", workers=AT_ONCE) as engine:
        for _, episode in engine.run([_job(number) for number in range(episodes)]):
            _require_whole(episode)


def _naive(program: str, episodes: int) -> None:
    def play(number: int) -> None:
        command = [sys.executable, "-c", program, _job(number).model_dump_json()]
        finished = subprocess.run(command, check=True, stdout=subprocess.PIPE)
        _require_whole(Episode.model_validate_json(finished.stdout))

    with ThreadPoolExecutor(AT_ONCE) as pool:
        list(pool.map(play, range(episodes)))


def _job(number: int) -> RolloutJob:
    stack = StackSpec.environment("toy24", task=_TASK).wrap("contract", source=CONTRACT, seed=0)
    return RolloutJob(
        task=_TASK,
        stack=stack,
        policy=PolicySpec(id="scripted", options={"actions": [{"name": "reset_numbers"}], "at_end": "repeat"}),
        env_seed=number,
        policy_seed=number,
        limits=Limits(max_steps=TURNS),
    )


def _require_whole(episode: Episode) -> None:
    """A side that loses episodes or turns must not look cheap."""
    if not episode.valid or len(episode.steps) != TURNS:
        raise RuntimeError(f"not the episode that is measured: {len(episode.steps)} turns, {episode.outcome}")


def _cost(work: Callable[[], None]) -> _Cost:
    began, cpu = perf_counter(), _cpu_seconds()
    work()
    wall = perf_counter() - began
    _wait_for_orphans()
    return _Cost(wall, _cpu_seconds() - cpu)


def _adopt_orphans() -> None:
    """Become the parent of whatever our children leave behind.

    A worker that is ended leaves its zygote to end by itself, and what that and its hook processes used would be in
    nobody's account.
    """
    if ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0:
        raise OSError("cannot become a subreaper, so the CPU time of hook processes cannot be measured")


def _wait_for_orphans() -> None:
    with contextlib.suppress(ChildProcessError):  # there is none, or none is left
        while True:
            os.wait()


def _cpu_seconds() -> float:
    """Of this process and of every child that it waited for, and theirs."""
    usages = (resource.getrusage(resource.RUSAGE_SELF), resource.getrusage(resource.RUSAGE_CHILDREN))
    return sum(usage.ru_utime + usage.ru_stime for usage in usages)
