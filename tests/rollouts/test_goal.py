"""What an episode records of its last state: the environment's own reading of the goal beside the verdict."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from envharness.core.spec import StackSpec
from envharness.core.trace import Episode
from envharness.core.types import EvaluationResult, JsonDict
from envharness.rollouts.episode import play
from environments import Corridor
from rollouts.hostile import job, script

FORWARD = {"name": "forward"}


class Reading(Corridor):
    """A corridor whose reading of the goal, or whose verifier, is `how` it is told to be."""

    def __init__(self, length: int = 2, *, how: str = "") -> None:
        super().__init__(length)
        self.how = how

    def goal_reached(self, state: JsonDict) -> bool | None:
        if self.how == "raises":
            raise KeyError("nowhere")
        if self.how == "is no answer":
            answer: Any = "yes"
            return answer
        if self.how == "scribbles":
            reached = super().goal_reached(state)
            state["position"] = 99
            return reached
        return None if self.how == "cannot tell" else super().goal_reached(state)

    def evaluate(self) -> EvaluationResult:
        verdict = super().evaluate()
        return verdict.model_copy(update={"success": not verdict.success}) if self.how == "contradicts" else verdict


def walked(steps: int, stack: StackSpec | None = None, **options: Any) -> Episode:
    stack = stack or StackSpec.environment("rollouts.test_goal:Reading", **options)
    bare = job(stack, script([FORWARD] * steps)).model_copy(update={"record_states": False})
    return asyncio.run(play(bare))


@pytest.mark.parametrize(("steps", "reached"), [(0, False), (1, False), (2, True)])
def test_a_verdict_that_the_state_bears_out_keeps_no_state(steps: int, reached: bool) -> None:
    episode = walked(steps)
    assert episode.goal is not None
    assert (episode.goal.reached, episode.goal.state, episode.success) == (reached, None, reached)


def test_a_contradiction_keeps_the_state_as_it_was_even_where_states_are_not_recorded() -> None:
    episode = walked(2, how="contradicts")
    assert not episode.success
    assert episode.goal is not None
    assert episode.goal.reached
    assert episode.goal.state is not None
    assert episode.goal.state["position"] == 2
    assert episode.steps[-1].state is None


def test_who_cannot_tell_leaves_nothing_behind() -> None:
    episode = walked(2, how="cannot tell")
    assert episode.goal is None
    assert b'"goal"' not in episode.model_dump_json().encode()


@pytest.mark.parametrize(("how", "note"), [("raises", "KeyError"), ("is no answer", "TypeError")])
def test_a_fault_in_the_reading_is_noted_and_ends_nothing(how: str, note: str) -> None:
    episode = walked(2, how=how)
    assert episode.success
    assert episode.goal is None
    assert episode.notes[0].startswith(f"goal_reached: {note}: ")


def test_a_contract_cannot_touch_the_state_that_is_read() -> None:
    lying = (
        "class _Contract(Contract):\n"
        "    def filter_observation(self, observation, env_state):\n"
        "        env_state['position'] = 2\n"
        "        return observation\n"
    )
    stack = StackSpec.environment("rollouts.test_goal:Reading").wrap("contract", source=lying)
    episode = walked(1, stack)
    assert episode.valid
    assert episode.goal is not None
    assert not episode.goal.reached


def test_an_invalid_episode_has_no_reading() -> None:
    stack = StackSpec.environment("rollouts.test_goal:Reading").wrap("stage", actions=[{"name": "back"}])
    assert walked(1, stack).goal is None
