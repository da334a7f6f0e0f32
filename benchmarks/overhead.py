"""What an engine costs a step: the same actions in a bare loop, and in a whole recorded episode on the inline engine.

CPU time of the process, both threads; the least of many rounds, each of which measures both sides.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from time import process_time

from benchmarks import Figure, at_most
from envharness.core.known import known
from envharness.core.policy import PolicySpec, Turn
from envharness.core.spec import StackSpec
from envharness.core.trace import Episode
from envharness.rollouts.engine import Engine, make_engine
from envharness.rollouts.job import Limits, RolloutJob

_COMBINE = {"name": "combine", "kwargs": {"left": "4", "operation": "+", "right": "6"}}
TOY24 = (
    StackSpec.environment("toy24", numbers=[1, 4, 6], max_steps=1000),
    PolicySpec(id="scripted", options={"actions": [_COMBINE, {"name": "reset_numbers"}], "at_end": "repeat"}),
)
ALFWORLD = (StackSpec.environment("alfworld", split="builtin", max_steps=1000), PolicySpec(id="random"))


@dataclass(frozen=True)
class Overhead:
    """Seconds of CPU."""

    bare_step: float
    """The environment's `step` and the policy's `act`."""
    state: float
    """The environment's `get_env_state`, which a recorded turn reads once."""
    turn: float
    """What a turn on the engine takes beyond a bare step, the environment's own reading of its state included."""
    written: float
    """Writing the episode's JSON and reading it back, a step."""
    episode: float
    """What does not grow with the steps: build, reset, verdict, close, and handing over."""


def measure() -> dict[str, Figure]:
    """Toy24 and ALFWorld."""
    toy24, alfworld = overhead(*TOY24, steps=80, rounds=60), overhead(*ALFWORLD, steps=40, rounds=20)
    return {
        "engine_toy24_bare_step_us": Figure(toy24.bare_step * 1e6, "us"),
        "engine_toy24_overhead_us": at_most((toy24.turn - toy24.state) * 1e6, "us", 30),
        "engine_toy24_reading_the_state_us": Figure(toy24.state * 1e6, "us"),
        "engine_toy24_written_and_read_us": Figure(toy24.written * 1e6, "us"),
        "engine_toy24_episode_us": Figure(toy24.episode * 1e6, "us"),
        "engine_alfworld_bare_step_us": Figure(alfworld.bare_step * 1e6, "us"),
        "engine_alfworld_overhead_us": Figure((alfworld.turn - alfworld.state) * 1e6, "us"),
        "engine_alfworld_reading_the_state_us": Figure(alfworld.state * 1e6, "us"),
        "engine_alfworld_share_beyond_environment": at_most(
            (alfworld.turn - alfworld.state) / (alfworld.bare_step + alfworld.state), "", 0.05
        ),
        "engine_alfworld_written_and_read_us": Figure(alfworld.written * 1e6, "us"),
    }


def overhead(stack: StackSpec, policy: PolicySpec, *, steps: int, rounds: int) -> Overhead:
    """Measure one environment with one policy, which must not end the episode before `steps`."""
    with make_engine("inline") as engine:
        (episode,) = (played for _, played in engine.run([_job(stack, policy, steps)]))
        assert len(episode.steps) == steps, f"the episode ended after {len(episode.steps)} steps: {episode.outcome}"
        start = episode.model_copy(update={"steps": episode.steps[:1]})
        taken: dict[str, Callable[[], float]] = {
            "bare": lambda: _bare_seconds(stack, policy, steps, read_state=False),
            "stated": lambda: _bare_seconds(stack, policy, steps, read_state=True),
            "one": lambda: _engine_seconds(engine, _job(stack, policy, 1)),
            "all": lambda: _engine_seconds(engine, _job(stack, policy, steps)),
            "one written": lambda: _written_seconds(start),
            "all written": lambda: _written_seconds(episode),
        }
        least = dict.fromkeys(taken, float("inf"))
        for _ in range(rounds):
            for name, seconds in taken.items():
                least[name] = min(least[name], seconds())
    bare = least["bare"] / steps
    written = (least["all written"] - least["one written"]) / (steps - 1)
    played = (least["all"] - least["one"]) / (steps - 1)
    return Overhead(
        bare_step=bare,
        state=least["stated"] / steps - bare,
        turn=played - written - bare,
        written=written,
        episode=least["one"] - played,
    )


def _bare_seconds(stack: StackSpec, policy_spec: PolicySpec, steps: int, *, read_state: bool) -> float:
    async def play() -> float:
        policy, env = policy_spec.build(0), stack.build()
        shown, tools = env.reset(0).observation, tuple(env.tool_schemas())
        began = process_time()
        for step in range(steps):
            decision = await policy.act(known(Turn, {"observation": shown, "tools": tools, "step": step}))
            assert decision.action is not None
            shown = env.step(decision.action).observation
            if read_state:
                env.get_env_state()
        seconds = process_time() - began
        env.close()
        await policy.close()
        return seconds

    return asyncio.run(play())


def _engine_seconds(engine: Engine, job: RolloutJob) -> float:
    began = process_time()
    ((_, episode),) = engine.run([job])
    seconds = process_time() - began
    assert episode.valid
    return seconds


def _written_seconds(episode: Episode) -> float:
    began = process_time()
    Episode.model_validate_json(episode.model_dump_json(warnings="error").encode())
    return process_time() - began


def _job(stack: StackSpec, policy: PolicySpec, steps: int) -> RolloutJob:
    return RolloutJob(task="t", stack=stack, policy=policy, env_seed=0, policy_seed=0, limits=Limits(max_steps=steps))
