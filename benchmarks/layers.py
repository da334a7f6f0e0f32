"""What a layer, a tap, a turn and an episode cost over an environment that itself costs nothing."""

from __future__ import annotations

from collections.abc import Callable
from statistics import median
from time import perf_counter

from benchmarks import Figure, at_most
from envharness.components.chain import Chain
from envharness.components.stage import Stage
from envharness.components.tap import tapped
from envharness.core.env import ActionableEnv
from envharness.core.policy import Decision, PolicySpec, Turn
from envharness.core.spec import StackSpec
from envharness.core.types import (
    Action,
    EnvResponse,
    EvaluationResult,
    JsonDict,
    Observation,
    ResetResponse,
    ToolSchema,
)
from envharness.rollouts.engine import Engine, make_engine
from envharness.rollouts.job import Limits, RolloutJob

_ACTION = Action(name="wait")
_LAYERS = 10
_STEPS = 2000
_TURNS = 40
_RESPONSE = EnvResponse(observation=Observation(text="Nothing happens."))


class Still(ActionableEnv):
    """An environment in which nothing happens, at no cost."""

    def reset(self, seed: int | None = None, options: JsonDict | None = None) -> ResetResponse:
        """Show the same as ever."""
        del seed, options
        return ResetResponse(observation=_RESPONSE.observation)

    def step(self, action: Action) -> EnvResponse:
        """Do nothing."""
        del action
        return _RESPONSE

    def observe(self) -> Observation:
        """Show the same as ever."""
        return _RESPONSE.observation

    def evaluate(self) -> EvaluationResult:
        """Nothing was achieved."""
        return EvaluationResult(success=False, score=0.0)

    def close(self) -> None:
        """Nothing to release."""

    @property
    def task_id(self) -> str:
        """The one task."""
        return "still"

    def list_tasks(self) -> list[str]:
        """The one task."""
        return ["still"]

    def tool_schemas(self) -> list[ToolSchema]:
        """One tool."""
        return [ToolSchema(name="wait", parameters={"type": "object", "properties": {}})]

    def get_env_state(self) -> JsonDict:
        """There is no state."""
        return {}

    def env_state_schema(self) -> str:
        """There is no state."""
        return ""

    def save_state(self) -> JsonDict:
        """There is no state."""
        return {}


class Waits:
    """Waits, turn after turn."""

    def __init__(self, *, seed: int) -> None:
        del seed

    async def act(self, turn: Turn) -> Decision:
        """Wait."""
        del turn
        return Decision(action=_ACTION)

    async def close(self) -> None:
        """Nothing to release."""


def measure() -> dict[str, Figure]:
    """Steps by difference to the bare environment; turns and episodes as an engine plays them."""
    bare = _step_seconds(Still())
    staged: ActionableEnv = Still()
    for _ in range(_LAYERS):
        staged = Stage(staged, [])
    chained = _step_seconds(Chain([Still(), Still()]))
    with tapped(Still()) as (env, recorder):
        tap = _step_seconds(env, recorder.take)
    with make_engine("inline") as inline, make_engine("pool", workers=2) as pool:
        short, long = _episode_seconds(inline, 1), _episode_seconds(inline, _TURNS)
        pooled = _episode_seconds(pool, _TURNS)
    return {
        "layer_stage_step_us": at_most((_step_seconds(staged) - bare) / _LAYERS * 1e6, "us", 10),
        "layer_chain_step_us": Figure((chained - bare) * 1e6, "us"),
        "tap_step_us": Figure((tap - bare) * 1e6, "us"),
        "inline_turn_us": Figure((long - short) / (_TURNS - 1) * 1e6, "us"),
        "inline_episode_of_one_turn_ms": Figure(short * 1e3, "ms"),
        "inline_episode_of_40_turns_ms": Figure(long * 1e3, "ms"),
        "pool_of_2_episode_of_40_turns_ms": Figure(pooled * 1e3, "ms"),
    }


def _step_seconds(env: ActionableEnv, now_and_then: Callable[[], object] = lambda: None) -> float:
    env.reset(0)
    spans: list[float] = []
    for _ in range(_STEPS):
        began = perf_counter()
        env.step(_ACTION)
        spans.append(perf_counter() - began)
        now_and_then()
    return median(spans)


def _episode_seconds(engine: Engine, turns: int) -> float:
    """Seconds of wall clock an episode, after the workers have started."""
    jobs = [
        RolloutJob(
            task="still",
            stack=StackSpec.environment("benchmarks.layers:Still"),
            policy=PolicySpec(id="benchmarks.layers:Waits"),
            env_seed=0,
            policy_seed=index,
            limits=Limits(max_steps=turns),
        )
        for index in range(100)
    ]
    list(engine.run(jobs[:4]))
    began = perf_counter()
    list(engine.run(jobs))
    return (perf_counter() - began) / len(jobs)
