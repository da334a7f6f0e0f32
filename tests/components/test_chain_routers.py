"""The routers of a Chain: which segment comes when, and which verdicts count."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from envharness.components.chain import Chain
from envharness.components.routers import SwitchRule
from envharness.core.errors import SpecError
from envharness.core.types import Action, StepInfo
from environments import BACK, FORWARD, STOP, Corridor, Ladder


def corridors(*lengths: int, **options: Any) -> list[Corridor]:
    return [Corridor(length, name=f"corridor-{index}", **options) for index, length in enumerate(lengths)]


def started(envs: list[Any], router: Any, **options: Any) -> Chain:
    chain = Chain(envs, router, **options)
    chain.reset()
    return chain


def where(chain: Chain) -> Any:
    position: Any = chain.get_env_state()["chain"]
    return position["segment"]


def required(chain: Chain) -> list[bool]:
    segments: Any = chain.evaluate().metrics["segments"]
    return [segment["required"] for segment in segments]


# --- branch_on_outcome --------------------------------------------------------------------------------------------------

BRANCH = {"name": "branch_on_outcome", "on_success": 1, "on_failure": 2}


def test_success_takes_the_success_branch_and_both_count() -> None:
    envs = corridors(1, 1, 1)
    chain = started(envs, BRANCH)
    chain.step(FORWARD)
    assert where(chain) == 1
    assert required(chain) == [True, True, False]
    assert chain.step(FORWARD).terminated
    assert chain.evaluate().success
    assert envs[2].resets == 0


def test_failure_takes_the_failure_branch_and_excuses_the_routing_segment() -> None:
    envs = corridors(1, 1, 1)
    chain = started(envs, BRANCH)
    chain.step(STOP)
    assert where(chain) == 2
    assert required(chain) == [False, False, True]
    assert chain.step(FORWARD).terminated
    assert chain.evaluate().success
    assert chain.evaluate().score == 1.0
    assert envs[1].resets == 0


def test_strict_requires_the_routing_segment_all_the_same() -> None:
    chain = started(corridors(1, 1, 1), BRANCH, strict=True)
    chain.step(STOP)
    assert required(chain) == [True, False, True]
    chain.step(FORWARD)
    assert not chain.evaluate().success


def test_a_failed_branch_is_a_failure() -> None:
    chain = started(corridors(1, 1, 1), BRANCH)
    chain.step(FORWARD)
    assert chain.step(STOP).terminated
    assert not chain.evaluate().success


def test_a_branch_still_to_come_is_owed() -> None:
    """The goal of the routing segment is reached but not ended: to stop there must not be a way to win."""
    chain = started(corridors(1, 1, 1, ends_at_goal=False), BRANCH)
    chain.step(FORWARD)
    assert where(chain) == 0
    assert required(chain) == [True, True, False]
    assert not chain.evaluate().success


def test_no_branch_is_the_end() -> None:
    lost = started(corridors(1, 1), {"name": "branch_on_outcome", "on_failure": None})
    assert lost.step(STOP).terminated
    assert not lost.evaluate().success
    won = started(corridors(1, 1), {"name": "branch_on_outcome", "on_success": None, "on_failure": 1})
    assert won.step(FORWARD).terminated
    assert won.evaluate().success


# --- alternate ------------------------------------------------------------------------------------------------------------


def test_alternate_goes_round_and_finds_each_segment_as_it_was_left() -> None:
    envs = corridors(3, 3)
    chain = started(envs, {"name": "alternate", "every": 2})
    seen: list[tuple[Any, Any]] = []
    for _ in range(6):
        chain.step(FORWARD)
        seen.append((where(chain), chain.get_env_state()["position"]))
    assert seen == [(0, 1), (1, 0), (1, 1), (0, 2), (1, 2), (1, 3)]
    assert [env.resets for env in envs] == [1, 1]
    assert chain.evaluate().success


def test_a_return_is_announced_as_one() -> None:
    chain = started(corridors(3, 3), {"name": "alternate", "every": 1})
    assert chain.step(FORWARD).observation.text.startswith("The task has changed: task 2 of 2 starts here.")
    back = chain.step(FORWARD).observation
    assert back.text.startswith("The task has changed: back to task 1 of 2")
    assert back.data["position"] == 1
    assert chain.observe() == back


def test_alternate_passes_over_what_is_finished() -> None:
    chain = started(corridors(1, 3, 2), {"name": "alternate", "every": 1})
    path: list[Any] = []
    while True:
        response = chain.step(FORWARD)
        if response.terminated:
            break
        path.append(where(chain))
    assert path == [1, 2, 1, 2, 1]
    assert chain.evaluate().success


def test_alternate_ends_with_the_first_failure() -> None:
    envs = corridors(1, 3)
    chain = started(envs, {"name": "alternate", "every": 5})
    assert chain.step(STOP).terminated
    assert not chain.evaluate().success
    assert envs[1].resets == 0


def test_alternate_owes_every_segment() -> None:
    chain = started(corridors(1, 1, ends_at_goal=False), "alternate")
    chain.step(FORWARD)
    assert not chain.evaluate().success


def test_refused_steps_count_towards_the_turn() -> None:
    chain = started(corridors(3, 3), {"name": "alternate", "every": 2})
    chain.step(Action(name="fly"))
    response = chain.step(Action(name="fly"))
    assert where(chain) == 1
    assert "there is no tool 'fly'" in response.observation.text


def test_the_last_unfinished_segment_is_not_left() -> None:
    chain = started(corridors(1, 4), {"name": "alternate", "every": 1})
    chain.step(FORWARD)
    texts = [chain.step(FORWARD).observation.text for _ in range(3)]
    assert not any("changed" in text for text in texts)


# --- switch_on_action -----------------------------------------------------------------------------------------------------


def mail_and_walk(**options: Any) -> tuple[Corridor, Ladder, Chain]:
    """The corridor is the task at hand; `climb` leads to the ladder and `back` to the corridor."""
    corridor, ladder = Corridor(2), Ladder(2)
    rules = [{"tool": "climb", "to": 1}, {"tool": "forward|back", "to": 0}]
    chain = started([corridor, ladder], {"name": "switch_on_action", "rules": rules}, tool_clashes="prefix", **options)
    return corridor, ladder, chain


def climb(rungs: int) -> Action:
    return Action(name="climb", kwargs={"rungs": rungs})


def test_an_action_is_executed_in_the_segment_it_leads_to() -> None:
    corridor, ladder, chain = mail_and_walk()
    chain.step(FORWARD)
    response = chain.step(climb(1))
    assert (corridor.position, ladder.rung) == (1, 1)
    assert response.observation.text.startswith("The task has changed: task 2 of 2 starts here.")
    assert response.observation.text.endswith("You are on rung 1 of 2.")
    assert chain.observe() == response.observation


def test_a_segment_left_is_found_again_as_it_was() -> None:
    corridor, ladder, chain = mail_and_walk()
    for action in (FORWARD, climb(1), FORWARD):
        response = chain.step(action)
    assert (corridor.resets, ladder.resets) == (1, 1)
    assert corridor.position == 2
    assert response.observation.text.startswith("The task has changed: back to task 1 of 2")
    assert where(chain) == 1, "the corridor is won, so the ladder goes on"
    assert chain.step(climb(1)).terminated
    assert chain.evaluate().success


def test_only_visited_segments_are_required() -> None:
    _, ladder, chain = mail_and_walk()
    chain.step(FORWARD)
    assert chain.step(FORWARD).terminated
    assert ladder.resets == 0
    assert required(chain) == [True, False]
    assert chain.evaluate().success


def test_a_segment_that_fails_ends_the_episode() -> None:
    _, _, chain = mail_and_walk()
    chain.step(climb(1))
    assert chain.step(Action(name="task2_stop", kwargs={"why": "tired"})).terminated
    assert not chain.evaluate().success


def test_a_segment_that_is_over_cannot_be_entered() -> None:
    corridor, ladder, chain = mail_and_walk()
    chain.step(climb(2))
    assert where(chain) == 0
    refused = chain.step(climb(1))
    assert refused.info["refused"] == "task 2 is over; you are on task 1 of 2"
    assert where(chain) == 0
    assert (corridor.position, ladder.rung) == (0, 2)


def test_an_action_can_be_executed_before_it_leads_on() -> None:
    first, second = corridors(2, 2)
    rule = {"tool": "back", "to": 1, "acts_in": "current"}
    chain = started([first, second], {"name": "switch_on_action", "rules": [rule]})
    chain.step(FORWARD)
    chain.step(BACK)
    assert first.position == 0
    assert where(chain) == 1
    assert second.position == 0


def test_no_action_leads_to_a_segment_that_is_over() -> None:
    first, second = corridors(3, 1)
    rules = [{"tool": "back", "to": 1, "acts_in": "current"}]
    chain = started([first, second], {"name": "switch_on_action", "rules": rules})
    chain.step(BACK)
    chain.step(FORWARD)
    assert where(chain) == 0
    assert not chain.step(BACK).info.get("chain")
    assert where(chain) == 0


def test_an_action_that_leads_elsewhere_first_has_no_dense_reward() -> None:
    """The state before it was another segment's."""
    envs = corridors(3, 3)
    chain = started(list(envs), {"name": "switch_on_action", "rules": [{"tool": "back", "to": 1}]})
    chain.step(FORWARD)
    before = chain.get_env_state()
    response = chain.step(BACK)
    info = StepInfo(action=BACK, response=response, state_before=before, state_after=chain.get_env_state(), step=1)
    assert before["position"] == 1
    assert chain.get_env_state()["position"] == 0
    assert chain.step_reward(info) == 0.0


def test_a_refused_action_leads_nowhere() -> None:
    rule = {"tool": "climb", "to": 1, "acts_in": "current"}
    chain = started([Ladder(2), Corridor(2)], {"name": "switch_on_action", "rules": [rule]}, tool_clashes="prefix")
    assert chain.step(Action(name="climb", kwargs={"rungs": "two"})).info["refused"]
    assert where(chain) == 0
    chain.step(climb(1))
    assert where(chain) == 1


def test_a_tool_the_target_does_not_have_is_refused_and_leads_nowhere() -> None:
    chain = started(
        [Corridor(2), Ladder(2)],
        {"name": "switch_on_action", "rules": [{"tool": "forward", "to": 1}]},
        tool_clashes="prefix",
    )
    assert "belongs to task 1" in str(chain.step(FORWARD).info["refused"])
    assert where(chain) == 0


@pytest.mark.parametrize(
    ("rule", "action", "expected"),
    [
        ({"tool": "go"}, Action(name="go"), True),
        ({"tool": "go"}, Action(name="gone"), False),
        ({"tool": "go|run"}, Action(name="run"), True),
        ({"tool": "go", "arguments": {"to": "mail.*"}}, Action(name="go", kwargs={"to": "mail/inbox"}), True),
        ({"tool": "go", "arguments": {"to": "mail"}}, Action(name="go", kwargs={"to": "mail/inbox"}), False),
        ({"tool": "go", "arguments": {"to": ".*"}}, Action(name="go"), False),
        ({"tool": "go", "arguments": {"n": "[1-3]"}}, Action(name="go", kwargs={"n": 2}), True),
        ({"tool": "go", "arguments": {"fast": "true"}}, Action(name="go", kwargs={"fast": True}), True),
    ],
)
def test_a_rule_matches_the_whole_of_tool_and_arguments(rule: Any, action: Action, expected: bool) -> None:
    assert SwitchRule.model_validate({**rule, "to": 1}).matches(action) is expected


# --- all of them ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("count", "router", "message"),
    [
        (2, "branch_on_outcome", "no segment 2"),
        (4, "branch_on_outcome", "segment 3 is never reached"),
        (2, {"name": "branch_on_outcome", "on_success": 0}, "cannot lead back"),
        (2, {"name": "alternate", "every": 0}, "router.alternate.every"),
        (2, "switch_on_action", "router.switch_on_action.rules"),
        (2, {"name": "switch_on_action", "rules": []}, "router.switch_on_action.rules"),
        (2, {"name": "switch_on_action", "rules": [{"tool": "(", "to": 1}]}, "not a regular expression"),
        (2, {"name": "switch_on_action", "rules": [{"tool": "a", "to": 2}]}, "no segment 2"),
        (3, {"name": "switch_on_action", "rules": [{"tool": "a", "to": 1}]}, "segment 2 is never reached"),
    ],
)
def test_options_that_do_not_fit_are_one_clear_error(count: int, router: Any, message: str) -> None:
    with pytest.raises(SpecError, match=message):
        Chain(corridors(*[1] * count), router)


ROUTERS: list[Any] = [
    "serial",
    {"name": "branch_on_outcome", "on_success": 1, "on_failure": 2},
    {"name": "alternate", "every": 2},
    {"name": "switch_on_action", "rules": [{"tool": "back", "to": 1, "acts_in": "current"}, {"tool": "leap", "to": 2}]},
]


@given(
    router=st.sampled_from(ROUTERS),
    actions=st.lists(st.sampled_from([FORWARD, BACK, STOP, Action(name="leap")]), max_size=25),
    at_goal=st.booleans(),
)
def test_whatever_the_policy_does_the_verdict_is_that_of_the_environments(
    router: Any, actions: list[Action], at_goal: bool
) -> None:
    envs = corridors(2, 1, 2, ends_at_goal=at_goal)
    chain = started(envs, router, max_steps=20)
    over = False
    for action in actions:
        response = chain.step(action)
        over = response.terminated or response.truncated
        assert chain.observe() == response.observation or response.info.get("refused")
        if over:
            break
    verdict = chain.evaluate()
    assert chain.evaluate() == verdict
    won = [env.resets == 1 and env.position == env.length for env in envs]
    parts: Any = verdict.metrics["segments"]
    assert [part["success"] for part in parts] == won
    assert verdict.success == all(won[index] for index, part in enumerate(parts) if part["required"])
    assert all(env.resets <= 1 for env in envs)
    position: Any = chain.get_env_state()["chain"]
    assert {index for index, env in enumerate(envs) if env.resets} == set(position["visited"])
    if len(actions) >= 20:
        assert over
