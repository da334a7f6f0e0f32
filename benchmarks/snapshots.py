"""What rollouts of one staged candidate cost: loaded each time, loaded once, and forked from a staged start.

Plays a real training game where ALFWORLD_DATA says where they are, else a built-in one. CPU seconds where one process
does the work, so that other programs on the machine count little; where several do, the sum of theirs.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from statistics import median
from time import perf_counter, process_time
from typing import Any

from benchmarks import Figure, at_least
from envharness.bridges.alfworld import engine as engines
from envharness.bridges.alfworld.games import GameLibrary
from envharness.components.tap import tapped
from envharness.core.policy import PolicySpec
from envharness.core.spec import StackSpec
from envharness.core.types import Action
from envharness.rollouts.engine import make_engine
from envharness.rollouts.job import Limits, RolloutJob
from envharness.rollouts.snapshots.snapshots import SnapshotMode, Snapshots

_K = 5
_REPLAYS = (0, 10, 40)
_RESETS = 15
_FIRST_STEPS = 10
_TOY24_EPISODES = 10
_TOY24_TURNS = 60


def measure() -> dict[str, Figure]:
    """K rollouts three ways; where a fork begins to pay; and that `auto` leaves Toy24 as it is."""
    split = "train" if os.environ.get("ALFWORLD_DATA") else "builtin"
    _play(_staged("builtin", 1))  # imports TextWorld, which no load is to be charged with
    loads = sum(_cpu(lambda: _play(_staged(split, 1))) for _ in range(_K) if _forget_engines())
    _forget_engines()
    once = _cpu(lambda: _play(_staged(split, _K)))
    figures = {
        f"alfworld_{split}_{_K}_rollouts_{_K}_loads_cpu_s": Figure(loads, "s"),
        f"alfworld_{split}_{_K}_rollouts_one_load_cpu_s": Figure(once, "s"),
        f"alfworld_{split}_{_K}_rollouts_times_cheaper": at_least(loads / once, "x", 4),
    }
    _forget_engines()
    if sys.platform == "linux":
        forked = _wall(lambda: _play(_staged(split, _K), "always"))
        figures[f"alfworld_{split}_{_K}_rollouts_forked_wall_s"] = Figure(forked, "s")
        figures |= _break_even(split)
    figures["toy24_episodes_auto_vs_never"] = at_least(_toy24_ratio(), "x", 0.95)
    return figures


def _break_even(split: str) -> dict[str, Figure]:
    """A reset in the worker and a fork, by how much a Stage replays; and what a call costs more in a fork."""
    figures: dict[str, Figure] = {}
    call = Action(name="act", kwargs={"command": "look"})
    for length in _REPLAYS:
        stack = _walk(split, length)
        (here, step), (fork, forked_step) = (_reset_and_step(stack, call, mode) for mode in ("never", "always"))
        figures[f"alfworld_{split}_replay_{length}_here_ms"] = Figure(here * 1e3, "ms")
        figures[f"alfworld_{split}_replay_{length}_fork_ms"] = Figure(fork * 1e3, "ms")
        figures[f"alfworld_{split}_replay_{length}_step_here_ms"] = Figure(step * 1e3, "ms")
        figures[f"alfworld_{split}_replay_{length}_step_in_fork_ms"] = Figure(forked_step * 1e3, "ms")
    toy24 = StackSpec.environment("toy24")
    (here, step), (fork, forked_step) = (
        _reset_and_step(toy24, Action(name="reset_numbers"), mode) for mode in ("never", "always")
    )
    figures["toy24_reset_here_ms"] = Figure(here * 1e3, "ms")
    figures["toy24_fork_ms"] = Figure(fork * 1e3, "ms")
    figures["toy24_call_in_fork_us"] = Figure((forked_step - step) * 1e6, "us")
    return figures


def _reset_and_step(stack: StackSpec, action: Action, mode: SnapshotMode) -> tuple[float, float]:
    """Return CPU seconds of a reset and of a step, in all processes that take part, once all is loaded.

    The steps are the first ones, in which a fork copies the memory that it writes to.
    """
    resets, steps = list[float](), list[float]()
    snapshots = Snapshots(mode)
    for _ in range(_RESETS + 1):
        with snapshots.build(stack, print) as env, tapped(env) as (top, _):
            began = _cpu_of_all(snapshots)
            top.reset(0)
            child = getattr(getattr(env, "inner", None), "child", None)
            top.observe()  # a fork has begun to run once it answers
            resets.append(_cpu_of_all(snapshots, child) - began)
            began = _cpu_of_all(snapshots, child)
            for _ in range(_FIRST_STEPS):
                top.step(action)
            steps.append((_cpu_of_all(snapshots, child) - began) / _FIRST_STEPS)
    snapshots.close()
    return median(resets[1:]), median(steps)


def _cpu_of_all(snapshots: Snapshots, child: int | None = None) -> float:
    staging = [process.pid for process in snapshots._processes.values()]  # noqa: SLF001  no user has a reason to
    spans = [
        Path(f"/proc/{pid}/schedstat").read_text(encoding="ascii") for pid in [*staging, *([child] if child else [])]
    ]
    return process_time() + sum(int(span.split()[0]) for span in spans) / 1e9


def _staged(split: str, rollouts: int) -> list[RolloutJob]:
    """Rollouts of a game with a Stage that plays all of its walkthrough but the last command."""
    task, commands = _game(split)
    stack = StackSpec.environment("alfworld", task=task).wrap("stage", actions=_actions(commands[:-1]))
    policy = PolicySpec(id="household")
    limits = Limits(max_steps=10)
    return [
        RolloutJob(task=task, stack=stack, policy=policy, env_seed=0, policy_seed=index, index=index, limits=limits)
        for index in range(rollouts)
    ]


def _walk(split: str, length: int) -> StackSpec:
    """A game with a Stage that walks to and fro so often."""
    stack = StackSpec.environment("alfworld", task=_game(split)[0])
    with stack.build() as env:
        offered: Any = env.reset(0).observation.data["admissible_commands"]
    places = [command for command in offered if command.startswith("go to ")][:2]
    return stack.wrap("stage", actions=_actions([places[index % 2] for index in range(length)])) if length else stack


def _game(split: str) -> tuple[str, list[str]]:
    library = GameLibrary(None)
    game = library.find(library.task_ids(split)[0])
    return game.task_id, game.walkthrough() or []


def _actions(commands: list[str]) -> list[dict[str, object]]:
    return [{"name": "act", "kwargs": {"command": command}} for command in commands]


def _play(jobs: list[RolloutJob], snapshots: SnapshotMode = "auto") -> None:
    with make_engine("inline", retries=0, snapshots=snapshots) as engine:
        for _, episode in engine.run(jobs):
            assert episode.valid, episode.outcome
            assert not episode.notes, episode.notes


def _forget_engines() -> bool:
    """Drop the loaded games, so that the next rollout loads its own."""
    engines._engines.idle.clear()  # noqa: SLF001  no user has a reason to
    return True


def _toy24_ratio() -> float:
    """CPU time of short episodes with the mode `never`, over that with `auto`; the least of many in turns."""
    jobs = [
        RolloutJob(
            task="easy-0000",
            stack=StackSpec.environment("toy24", task="easy-0000"),
            policy=PolicySpec(id="solver"),
            env_seed=0,
            policy_seed=index,
            index=index,
        )
        for index in range(_TOY24_EPISODES)
    ]
    with make_engine(snapshots="never") as never, make_engine(snapshots="auto") as auto:
        spans: list[tuple[float, float]] = [
            (_cpu(lambda: list(never.run(jobs))), _cpu(lambda: list(auto.run(jobs)))) for _ in range(_TOY24_TURNS)
        ]
    first, second = (min(side) for side in zip(*spans, strict=True))
    return first / second


def _cpu(call: Callable[[], object]) -> float:
    began = process_time()
    call()
    return process_time() - began


def _wall(call: Callable[[], object]) -> float:
    began = perf_counter()
    call()
    return perf_counter() - began
