"""Bridges that return what their types forbid: the environment's error, whatever component is above it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from envharness.components.contract import Contract
from envharness.components.stage import Stage
from envharness.core.env import ActionableEnv
from envharness.core.types import Action, EnvResponse, EvaluationResult, JsonDict, Observation, ToolSchema
from envharness.policies.scripted import ScriptedPolicy
from envharness.rollouts.episode import run_episode
from envharness.rollouts.job import Limits
from environments import FORWARD, Corridor

HOOKS = """
class _Contract(Contract):
    def filter_action(self, action, env_state):
        return action
    def modify_transition(self, action, response, env_state):
        return response
    def filter_observation(self, observation, env_state):
        return observation
"""
STACKS: dict[str, Callable[[ActionableEnv], ActionableEnv]] = {
    "bare": lambda env: env,
    "stage": lambda env: Stage(env, [FORWARD]),
    "contract": lambda env: Contract(env, HOOKS),
    "contract under stage": lambda env: Stage(Contract(env, HOOKS), [FORWARD]),
}


class Odd(Corridor):
    """Changes what one call returns."""

    def __init__(self, call: str, change: Callable[[Any], Any]) -> None:
        super().__init__(length=5)
        self._call, self._change = call, change

    def _perhaps(self, call: str, value: Any) -> Any:
        return self._change(value) if call == self._call else value

    def step(self, action: Action) -> EnvResponse:
        return self._perhaps("step", super().step(action))

    def evaluate(self) -> EvaluationResult:
        return self._perhaps("evaluate", super().evaluate())

    def get_env_state(self) -> JsonDict:
        return self._perhaps("state", super().get_env_state())

    def tool_schemas(self) -> list[ToolSchema]:
        return self._perhaps("tools", super().tool_schemas())

    @property
    def task_id(self) -> str:
        return self._perhaps("task", super().task_id)


def changed(**fields: Any) -> Callable[[Any], Any]:
    return lambda value: value.model_copy(update=fields)


ODDITIES: dict[str, tuple[str, Callable[[Any], Any]]] = {
    "a dict": ("step", lambda response: response.model_dump()),
    "text for an observation": ("step", changed(observation="hi")),
    "no text": ("step", changed(observation=Observation.model_construct(text=None))),
    "half a character": ("step", changed(observation=Observation(text="\ud800"))),
    "a handle in data": ("step", changed(observation=Observation.model_construct(text="", data={"x": object()}))),
    "an infinite reward": ("step", changed(reward=float("inf"))),
    "a reward as text": ("step", changed(reward="1")),
    "terminated None": ("step", changed(terminated=None)),
    "info None": ("step", changed(info=None)),
    "a score of 7": ("evaluate", changed(score=7.0)),
    "a score that is no number": ("evaluate", changed(score=float("nan"))),
    "success as text": ("evaluate", changed(success="no")),
    "a handle in metrics": ("evaluate", changed(metrics={"x": object()})),
    "a state that is a list": ("state", lambda state: [state]),
    "no state": ("state", lambda _: None),
    "a handle in the state": ("state", lambda state: {**state, "x": object()}),
    "half a character in the state": ("state", lambda state: {**state, "x": "\ud800"}),
    "tools as text": ("tools", lambda _: ["forward"]),
    "no task": ("task", lambda _: None),
    "half a character in the task": ("task", lambda _: "\ud800"),
}


@pytest.mark.parametrize("stack", STACKS)
@pytest.mark.parametrize("oddity", ODDITIES)
def test_it_is_the_environments_error_and_nothing_is_raised(oddity: str, stack: str) -> None:
    with STACKS[stack](Odd(*ODDITIES[oddity])) as env:
        episode = run_episode(env, ScriptedPolicy(actions=[FORWARD] * 3), limits=Limits(max_steps=3))
    assert (episode.outcome.kind, episode.outcome.reason) == ("invalid", "environment_error"), episode.outcome
    assert episode.evaluation is None


@pytest.mark.parametrize("stack", ["bare", "stage"])
def test_integers_of_any_size_in_a_state_are_json(stack: str) -> None:
    env = STACKS[stack](Odd("state", lambda state: {**state, "x": 10**40}))
    with env:
        episode = run_episode(env, ScriptedPolicy(actions=[FORWARD] * 5))
    assert episode.success
    assert episode.steps[0].state is not None
    assert episode.steps[0].state["x"] == 10**40
