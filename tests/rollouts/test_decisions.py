"""Policies that answer what nobody planned for: it is their fault or a refused call, never the environment's."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from envharness.core.policy import Decision, Turn
from envharness.core.spec import StackSpec
from envharness.core.trace import Episode
from envharness.core.types import Action
from envharness.rollouts.episode import play, run_episode
from envharness.rollouts.interrupts import Terminated
from envharness.rollouts.job import Limits
from rollouts.hostile import WIN, job, script

HOOKS = """
class _Contract(Contract):
    def filter_action(self, action, env_state):
        return action
"""
BARE = StackSpec.environment("kitchen:Kitchen")
GUARDED = BARE.wrap("contract", source=HOOKS)


class Answering:
    def __init__(self, answer: Callable[[], Any]) -> None:
        self._answer = answer

    async def act(self, turn: Turn) -> Decision:
        return self._answer()

    async def close(self) -> None:
        return


def played(stack: StackSpec, answer: Callable[[], Any]) -> Episode:
    return run_episode(stack, Answering(answer), limits=Limits(max_steps=2, episode_seconds=60))


def raising(error: BaseException) -> Callable[[], Any]:
    def answer() -> Any:
        raise error

    return answer


def unchecked(**fields: Any) -> Callable[[], Decision]:
    values: dict[str, Any] = {"name": "take", "kwargs": {}, "replayed": False, **fields}
    action = Action.model_construct(None, **values)
    return lambda: Decision.model_construct(action=action)


@pytest.mark.parametrize("stack", [BARE, GUARDED], ids=["bare", "contract"])
@pytest.mark.parametrize(
    "answer",
    [
        unchecked(name=5),
        unchecked(name=None),
        unchecked(kwargs=None),
        unchecked(kwargs={1: 2}),
        unchecked(kwargs={"what": object()}),
        unchecked(kwargs={"what": "\ud800"}),
        lambda: Decision.model_construct(action={"name": "take"}),
        lambda: Decision.model_construct(stop="yes", text=5),
        lambda: Decision.model_construct(usage=None),
        lambda: Decision(text="x" * (1 << 24)),
        raising(SystemExit(3)),
        raising(GeneratorExit()),
        raising(asyncio.CancelledError()),
    ],
)
def test_what_is_no_decision_is_the_policys_error(stack: StackSpec, answer: Callable[[], Any]) -> None:
    episode = played(stack, answer)
    assert (episode.outcome.kind, episode.outcome.reason) == ("invalid", "policy_error")
    assert "\n" not in episode.outcome.detail


@pytest.mark.parametrize("error", [KeyboardInterrupt(), Terminated(143)])
def test_what_comes_from_outside_is_not_blamed_on_the_policy(error: BaseException) -> None:
    with pytest.raises(type(error)):
        played(BARE, raising(error))


@pytest.mark.parametrize("stack", [BARE, GUARDED], ids=["bare", "contract"])
@pytest.mark.parametrize(
    "kwargs",
    [{"place": 10**30}, {"place": [{"deep": -(10**20)}]}, {"place": "x" * (1 << 20)}],
    ids=["huge integer", "huge integer inside", "a megabyte"],
)
def test_a_call_that_cannot_be_sent_is_refused_and_counted(stack: StackSpec, kwargs: dict[str, Any]) -> None:
    episode = asyncio.run(play(job(stack, script([{"name": "put", "kwargs": kwargs}, *WIN]))))
    assert episode.success
    refused = episode.steps[0]
    assert refused.raw == []
    assert "more than 64 bits" in refused.refused or "the limit is" in refused.refused
    assert refused.shown.text.startswith(refused.refused)
    assert refused.action is not None
    assert refused.action.kwargs == kwargs


def test_numbers_that_json_lacks_reach_the_environment_as_the_trace_says() -> None:
    episode = played(BARE, lambda: Decision(action=Action(name="put", kwargs={"place": float("nan")})))
    [exchange] = episode.steps[0].raw
    assert exchange.action.kwargs == {"place": None}
    assert episode.steps[0].action == exchange.action
