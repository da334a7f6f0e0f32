from __future__ import annotations

import asyncio

import pytest
from pydantic import JsonValue

from envharness.core.errors import ConfigError
from envharness.core.policy import Decision, PolicySpec, Turn
from envharness.core.types import Action, Observation
from envharness.policies.scripted import ScriptedPolicy

TURN = Turn(observation=Observation(text="anything"), tools=(), step=0)


def play(policy: ScriptedPolicy, turns: int) -> list[Decision]:
    async def go() -> list[Decision]:
        return [await policy.act(TURN) for _ in range(turns)]

    return asyncio.run(go())


def test_it_plays_its_actions_and_then_stops() -> None:
    policy = PolicySpec(id="scripted", options={"actions": [{"name": "a", "kwargs": {"x": 1}}, {"name": "b"}]}).build(7)
    assert isinstance(policy, ScriptedPolicy)
    first, second, third = play(policy, 3)
    assert first.action == Action(name="a", kwargs={"x": 1})
    assert second.action == Action(name="b")
    assert third.stop
    assert third.action is None


def test_idle_names_no_action_at_the_end() -> None:
    decisions = play(ScriptedPolicy(actions=[Action(name="a")], at_end="idle"), 3)
    assert [decision.stop for decision in decisions] == [False, False, False]
    assert [decision.action is None for decision in decisions] == [False, True, True]


def test_repeat_starts_again() -> None:
    decisions = play(ScriptedPolicy(actions=[Action(name="a"), Action(name="b")], at_end="repeat"), 5)
    assert [decision.action.name for decision in decisions if decision.action] == ["a", "b", "a", "b", "a"]


def test_without_actions_it_stops_at_once() -> None:
    assert play(ScriptedPolicy(), 1)[0].stop


def test_changing_an_action_that_was_played_does_not_change_the_script() -> None:
    policy = ScriptedPolicy(actions=[Action(name="a", kwargs={"list": []})], at_end="repeat")
    first = play(policy, 1)[0].action
    assert first is not None
    first.kwargs["list"] = [1]
    assert play(policy, 1)[0].action == Action(name="a", kwargs={"list": []})


MALFORMED: list[tuple[dict[str, JsonValue], str]] = [
    ({"actions": [{"name": "a"}, {"kwargs": {}}]}, r"actions\.1\.name"),
    ({"actions": [{"name": "a", "args": {}}]}, r"actions\.0\.args"),
    ({"at_end": "sleep"}, "stop, idle, repeat"),
    ({"at_end": "repeat"}, "needs one action"),
]


@pytest.mark.parametrize(("options", "said"), MALFORMED)
def test_a_malformed_script_is_a_config_error(options: dict[str, JsonValue], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        PolicySpec(id="scripted", options=options).build(0)
