"""What an ALFWorld step and reset cost, beside TextWorld's own engine on the same commands.

Plays a real training game where ALFWORLD_DATA says where they are, else the larger of the built-in ones.
"""

from __future__ import annotations

import importlib
import os
import random
import sys
from collections.abc import Callable
from statistics import median
from time import perf_counter
from typing import Any

from benchmarks import Figure, at_least, at_most
from envharness.bridges.alfworld import Alfworld
from envharness.bridges.alfworld.games import Game, GameLibrary
from envharness.core.types import Action

_STEPS = 200
_PLAIN_STEPS = 30


def measure() -> dict[str, Figure]:
    """Step rates over the same wandering; a reset with the game loaded, and what the first one takes."""
    split = "train" if os.environ.get("ALFWORLD_DATA") else "builtin"
    env = Alfworld(split=split, max_steps=_STEPS)
    first = _seconds(env.reset)
    resets = median(_seconds(env.reset) for _ in range(20))
    commands: list[str] = []
    steps = _step_seconds(env, commands)
    stated = _seconds(env.get_env_state)
    env.close()
    figures = {
        f"alfworld_{split}_first_reset_s": Figure(first, "s"),
        f"alfworld_{split}_reset_ms": at_most(resets * 1e3, "ms", 90),
        f"alfworld_{split}_steps_per_s": at_least(1 / steps, "steps/s", 90),
        f"alfworld_{split}_state_ms": Figure(stated * 1e3, "ms"),
    }
    if sys.version_info < (3, 13):  # TextWorld 1.7 by itself writes to locals(), which has no effect from 3.13 on
        plain_steps, plain_reset = _plain(GameLibrary(None).find(env.task_id), commands[:_PLAIN_STEPS])
        figures |= {
            f"alfworld_{split}_plain_reset_ms": Figure(plain_reset * 1e3, "ms"),
            f"alfworld_{split}_plain_steps_per_s": Figure(1 / plain_steps, "steps/s"),
            f"alfworld_{split}_times_the_plain_steps": at_least(plain_steps / steps, "x", 8),
            f"alfworld_{split}_times_the_plain_reset": at_least(plain_reset / resets, "x", 10),
        }
    return figures


def _step_seconds(env: Alfworld, commands: list[str]) -> float:
    """Wander at random without winning; `commands` is filled with what was done."""
    rng = random.Random(0)
    shown = env.reset().observation
    spans: list[float] = []
    for _ in range(_STEPS):
        offered: Any = shown.data["admissible_commands"]
        commands.append(rng.choice(offered))
        began = perf_counter()
        response = env.step(Action(name="act", kwargs={"command": commands[-1]}))
        spans.append(perf_counter() - began)
        shown = response.observation
        if response.terminated or response.truncated:
            break
    return sum(spans) / len(spans)


def _plain(game: Game, commands: list[str]) -> tuple[float, float]:
    """Return seconds a step and seconds a reset of TextWorld's engine with nothing of ours."""
    env: Any = importlib.import_module("textworld.envs.pddl").PddlEnv()
    env.load(game.content())
    names = importlib.import_module("alfworld.agents.utils.misc").Demangler(game_infos=env._entity_infos)  # noqa: SLF001
    for info in env._entity_infos.values():  # noqa: SLF001
        info.name = names.demangle_alfred_name(info.id)
    reset = _seconds(env.reset)
    spans = [_seconds(lambda command=command: env.step(command)) for command in commands]
    return sum(spans) / len(spans), reset


def _seconds(call: Callable[[], object]) -> float:
    began = perf_counter()
    call()
    return perf_counter() - began
