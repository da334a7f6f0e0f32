"""Chain: one environment out of several, sentence by sentence."""

from __future__ import annotations

from typing import Any

import pytest

from envharness.components.chain import Chain
from envharness.components.handoff import Handoff
from envharness.components.stage import Stage
from envharness.core.errors import LifecycleError, NotResumableError, ReplayError, SpecError
from envharness.core.spec import make
from envharness.core.state_schema import state_violations
from envharness.core.trace import ComponentEvent
from envharness.core.types import Action, EnvResponse, JsonDict, Observation, ResetResponse, StepInfo
from environments import BACK, FORWARD, STOP, Corridor, Ladder, Reprieve


def corridors(*lengths: int, **options: Any) -> list[Corridor]:
    return [Corridor(length, name=f"corridor-{index}", **options) for index, length in enumerate(lengths)]


def play(env: Any, *actions: Action) -> EnvResponse:
    """Step through `actions`; none but the last may end the episode."""
    response = None
    for action in actions:
        assert response is None or not (response.terminated or response.truncated)
        response = env.step(action)
    assert response is not None
    return response


class Events:
    def __init__(self) -> None:
        self.seen: list[ComponentEvent] = []

    def event(self, event: ComponentEvent) -> None:
        self.seen.append(event)


# --- serial ---------------------------------------------------------------------------------------------------------


def test_a_serial_chain_is_won_by_winning_every_segment() -> None:
    chain = Chain(corridors(1, 2))
    chain.reset()
    middle = chain.step(FORWARD)
    assert not middle.terminated
    assert not middle.truncated
    assert not chain.evaluate().success
    last = play(chain, FORWARD, FORWARD)
    assert last.terminated
    verdict = chain.evaluate()
    assert verdict.success
    assert verdict.score == 1.0


def test_one_unwon_segment_is_enough_to_lose() -> None:
    first, second = corridors(1, 2)
    chain = Chain([first, second])
    chain.reset()
    play(chain, FORWARD, FORWARD, STOP)
    verdict = chain.evaluate()
    assert not verdict.success
    assert verdict.score == pytest.approx((1.0 + 0.5) / 2)
    assert [part["success"] for part in segments(verdict)] == [True, False]
    assert [part["metrics"] for part in segments(verdict)] == [{"position": 1}, {"position": 1}]


def segments(verdict: Any) -> list[dict[str, Any]]:
    return verdict.metrics["segments"]


def test_the_reward_is_the_segments_own() -> None:
    chain = Chain(corridors(1, 2))
    chain.reset()
    assert [chain.step(FORWARD).reward for _ in range(3)] == [1.0, 0.0, 1.0]


def test_a_serial_segment_that_fails_ends_the_episode_and_later_ones_are_never_reset() -> None:
    first, second, third = corridors(1, 2, 1)
    chain = Chain([first, second, third])
    chain.reset()
    response = play(chain, FORWARD, STOP)
    assert response.terminated
    assert (first.resets, second.resets, third.resets) == (1, 1, 0)
    verdict = chain.evaluate()
    assert not verdict.success
    assert [part["required"] for part in segments(verdict)] == [True, True, True]
    assert [part["visited"] for part in segments(verdict)] == [True, True, False]


def test_to_stop_after_the_first_segment_is_no_success() -> None:
    chain = Chain(corridors(1, 2, ends_at_goal=False))
    chain.reset()
    chain.step(FORWARD)
    verdict = chain.evaluate()
    assert segments(verdict)[0]["success"] is True
    assert not verdict.success


def test_the_next_environment_is_reset_when_it_is_reached_and_not_before() -> None:
    first, second = corridors(1, 2)
    chain = Chain([first, second])
    chain.reset(seed=7, options={"light": "on"})
    assert (first.resets, second.resets) == (1, 0)
    chain.step(FORWARD)
    assert (first.resets, second.resets) == (1, 1)
    assert second.colour == first.colour
    assert second.last_options == {"light": "on"}


def test_a_segment_that_spoils_its_options_spoils_no_other() -> None:
    class Spoiler(Corridor):
        def _start(self, seed: int | None, options: JsonDict) -> ResetResponse:
            response = super()._start(seed, dict(options))
            rooms = options["rooms"]
            assert isinstance(rooms, list)
            rooms.append("spoilt")
            return response

    last, options = Corridor(1), JsonDict(rooms=["hall"])
    chain = Chain([Spoiler(1), last])
    chain.reset(options=options)
    chain.step(FORWARD)
    assert last.last_options == {"rooms": ["hall"]}
    assert options == {"rooms": ["hall"]}


def test_a_reset_starts_over_from_the_first_segment() -> None:
    first, second = corridors(1, 2)
    chain = Chain([first, second])
    start = chain.reset(seed=1)
    play(chain, FORWARD, FORWARD)
    assert chain.reset(seed=1) == start
    assert chain.get_env_state()["chain"] == {"segment": 0, "segments": 2, "visited": [0]}
    assert not chain.evaluate().success
    play(chain, FORWARD)
    assert second.resets == 2


def test_verdicts_are_taken_at_the_boundary_and_kept() -> None:
    first, second = corridors(1, 2)
    chain = Chain([first, second])
    chain.reset()
    chain.step(FORWARD)
    assert first.evaluations == 1
    first.position = 0
    chain.evaluate()
    assert chain.evaluate().metrics["segments"] == segments(chain.evaluate())
    assert first.evaluations == 1
    assert segments(chain.evaluate())[0]["success"] is True


def test_the_dense_reward_is_that_of_the_segment_which_acted() -> None:
    chain = Chain(corridors(1, 2))
    chain.reset()
    rewards: list[float] = []
    for action in (FORWARD, FORWARD, BACK):
        before = chain.get_env_state()
        response = chain.step(action)
        info = StepInfo(
            action=action, response=response, state_before=before, state_after=chain.get_env_state(), step=0
        )
        rewards.append(chain.step_reward(info))
    assert rewards == [1.0, 1.0, -1.0]


# --- budgets and masks ------------------------------------------------------------------------------------------------


def test_one_step_budget_truncates_the_whole() -> None:
    chain = Chain(corridors(1, 9), max_steps=4)
    chain.reset()
    response = play(chain, FORWARD, FORWARD, FORWARD, FORWARD)
    assert response.truncated
    assert not response.terminated
    with pytest.raises(LifecycleError, match="after the end"):
        chain.step(FORWARD)
    assert not chain.evaluate().success


def test_refused_steps_count_too() -> None:
    chain = Chain(corridors(1, 9), max_steps=2)
    chain.reset()
    assert not chain.step(Action(name="fly")).truncated
    assert chain.step(Action(name="fly")).truncated


def test_a_budget_spent_at_a_boundary_starts_nothing_more() -> None:
    first, second = corridors(1, 9)
    chain = Chain([first, second], max_steps=1)
    chain.reset()
    assert chain.step(FORWARD).truncated
    assert second.resets == 0


def test_to_win_with_the_last_step_is_no_truncation() -> None:
    chain = Chain(corridors(1, 1), max_steps=2)
    chain.reset()
    response = play(chain, FORWARD, FORWARD)
    assert response.terminated
    assert not response.truncated


def test_inner_step_limits_are_raised_to_the_budget() -> None:
    first, second = corridors(6, 6, max_steps=3)
    chain = Chain([first, second], max_steps=20)
    chain.reset()
    assert play(chain, *[FORWARD] * 12).terminated
    assert chain.evaluate().success
    assert second.last_options == {"max_steps": 20}


def test_the_budget_of_a_chain_of_puzzles_is_one_for_all() -> None:
    chain = Chain([make("toy24", numbers=[4, 6], max_steps=2), make("toy24", numbers=[3, 8], max_steps=2)], max_steps=9)
    chain.reset()
    idle = Action(name="reset_numbers")
    first = Action(name="combine", kwargs={"left": "4", "operation": "*", "right": "6"})
    last = Action(name="combine", kwargs={"left": "3", "operation": "*", "right": "8"})
    assert play(chain, idle, idle, idle, first, idle, idle, idle, last).terminated
    assert chain.evaluate().success


def test_without_a_budget_the_segments_keep_their_own_limits() -> None:
    first, second = corridors(6, 6, max_steps=3)
    chain = Chain([first, second])
    chain.reset()
    response = play(chain, FORWARD, FORWARD, FORWARD)
    assert response.truncated
    assert not response.terminated


def test_a_segment_truncated_by_its_own_limit_is_judged_there_and_then() -> None:
    """The goal is reached, nobody stopped, the limit comes: the verifier says success, so the chain goes on."""
    first = Corridor(2, max_steps=2, ends_at_goal=False, step_limit_option=False)
    second = Corridor(1)
    chain = Chain([first, second], max_steps=20)
    chain.reset()
    response = play(chain, FORWARD, FORWARD)
    assert not response.truncated
    assert second.resets == 1
    assert play(chain, FORWARD).terminated
    assert chain.evaluate().success


def test_the_reset_option_sets_the_budget_of_one_episode() -> None:
    chain = Chain(corridors(1, 9), max_steps=2)
    chain.reset(options={"max_steps": 3})
    assert play(chain, FORWARD, FORWARD, FORWARD).truncated
    chain.reset()
    assert play(chain, FORWARD, FORWARD).truncated
    with pytest.raises(SpecError, match="positive integer"):
        chain.reset(options={"max_steps": 0})


def test_a_component_inside_a_segment_acts_before_the_boundary_check() -> None:
    first, second = corridors(1, 1)
    chain = Chain([Reprieve(first), second])
    chain.reset()
    chain.step(FORWARD)
    assert second.resets == 0
    assert chain.get_env_state()["chain"] == {"segment": 0, "segments": 2, "visited": [0]}
    chain.step(STOP)
    assert second.resets == 1


def test_a_chain_is_not_resumable() -> None:
    chain = Chain(corridors(1, 1))
    assert not chain.capabilities.resumable
    with pytest.raises(NotResumableError, match="cannot take back"):
        chain.resume()


# --- what is shown ----------------------------------------------------------------------------------------------------


def test_the_hand_off_announces_the_change_and_carries_the_tail() -> None:
    chain = Chain(corridors(1, 2))
    chain.reset()
    shown = chain.step(FORWARD).observation
    assert shown.text.startswith("The task has changed: task 2 of 2 starts here.")
    assert "Before the change you saw:\nYou walk." in shown.text
    assert "you are at 1 of 1" in shown.text
    assert shown.text.endswith("you are at 0 of 2.")
    assert shown.data["length"] == 2
    assert isinstance(shown.data["handoff"], dict)


def test_the_hand_off_says_nothing_of_the_verdict() -> None:
    texts: list[str] = []
    for last in (FORWARD, STOP):
        chain = Chain(
            corridors(1, 2, 3),
            {"name": "branch_on_outcome", "on_success": 1, "on_failure": 2},
            handoff={"tail_steps": 0},
        )
        chain.reset()
        texts.append(str(chain.step(last).observation.data["handoff"]).replace("task 3", "task 2"))
    assert texts[0] == texts[1]


def test_announcement_and_tail_can_be_configured() -> None:
    options = {"on_start": "{last} -> {next} / {count}", "tail_steps": 2, "tail_heading": "Seen:"}
    chain = Chain(corridors(2, 2), handoff=options)
    chain.reset()
    shown = play(chain, FORWARD, FORWARD).observation.text
    assert shown.startswith("1 -> 2 / 2\n\nSeen:\nYou walk.")
    assert shown.index("at 1 of 2") < shown.index("at 2 of 2") < shown.index("at 0 of 2")
    bare = Chain(corridors(1, 2), handoff={"announce": False, "tail_steps": 0})
    bare.reset()
    assert bare.step(FORWARD).observation.text.startswith("You enter corridor-1.")
    short = Chain(corridors(1, 2), handoff={"announce": False, "tail_characters": 4})
    short.reset()
    assert short.step(FORWARD).observation.text.startswith("Before the change you saw:\nf 1.\n\nYou enter")


def test_the_tail_is_as_long_as_was_asked_for() -> None:
    seen = ["one", "two", "three"]
    for steps, expected in ((0, "now"), (1, "Before:\nthree\n\nnow"), (2, "Before:\ntwo\n\nthree\n\nnow")):
        handoff = Handoff(announce=False, tail_steps=steps, tail_heading="Before:")
        shown = handoff.compose(Observation(text="now"), last=0, following=1, count=2, returning=False, recent=seen)
        assert shown.text == expected


@pytest.mark.parametrize("template", ["{next.__class__}", "{who}", "{next!r}", "{next:>3}", "{", "{0}"])
def test_a_template_knows_its_own_fields_only(template: str) -> None:
    with pytest.raises(SpecError, match="on_start"):
        Chain(corridors(1, 1), handoff={"on_start": template})


def test_observe_repeats_what_was_shown_until_the_world_changes() -> None:
    chain = Chain(corridors(1, 2))
    assert chain.reset().observation == chain.observe()
    handed_over = chain.step(FORWARD).observation
    assert chain.observe() == handed_over
    assert chain.observe() == handed_over
    chain.step(Action(name="fly"))
    assert chain.observe() == handed_over
    walked = chain.step(FORWARD).observation
    assert chain.observe() == walked
    assert "handoff" not in walked.data


def test_what_observe_returns_is_a_copy() -> None:
    chain = Chain(corridors(1, 2))
    chain.reset()
    chain.step(FORWARD).observation.data["length"] = 99
    chain.observe().data["length"] = 99
    assert chain.observe().data["length"] == 2


def test_the_state_is_the_active_segments_with_the_key_chain() -> None:
    first, ladder = Corridor(1), Ladder()
    chain = Chain([first, ladder], tool_clashes="prefix")
    chain.reset()
    assert chain.get_env_state() == {
        **first.get_env_state(),
        "chain": {"segment": 0, "segments": 2, "visited": [0]},
    }
    assert state_violations(chain.env_state_schema(), chain.get_env_state()) == []
    chain.step(FORWARD)
    assert chain.get_env_state() == {
        **ladder.get_env_state(),
        "chain": {"segment": 1, "segments": 2, "visited": [0, 1]},
    }
    assert state_violations(chain.env_state_schema(), chain.get_env_state()) == []


def test_the_state_schema_says_which_task_a_key_belongs_to() -> None:
    text = Chain([Corridor(1), Ladder()], tool_clashes="prefix").env_state_schema()
    assert "length: int | str - task 1: where the corridor ends; task 2: of what" in text
    assert "rung?: int - task 2: counted from the ground\n  0 is the ground" in text
    same = Chain(corridors(1, 2)).env_state_schema()
    assert "position: int - steps from the start\n" in same


def test_a_change_is_reported_to_the_sink() -> None:
    chain, events = Chain(corridors(1, 2)), Events()
    chain.attach(events, 3)
    chain.reset()
    play(chain, FORWARD, FORWARD)
    assert events.seen == [
        ComponentEvent(component="chain#3", kind="switched_segment", detail="segment 0 -> 1 (0 was won)")
    ]


# --- life cycle, capabilities -------------------------------------------------------------------------------------------


def test_calls_out_of_order_are_errors() -> None:
    chain = Chain(corridors(1, 1))
    for call in (chain.observe, chain.evaluate, chain.get_env_state, lambda: chain.step(FORWARD)):
        with pytest.raises(LifecycleError, match="before reset"):
            call()
    chain.reset()
    play(chain, FORWARD, FORWARD)
    chain.observe()
    with pytest.raises(LifecycleError, match="after the end"):
        chain.step(FORWARD)
    chain.close()
    for call in (chain.observe, chain.evaluate, chain.reset, lambda: chain.step(FORWARD)):
        with pytest.raises(LifecycleError, match="after close"):
            call()


def test_close_closes_every_segment_once_started_or_not() -> None:
    first, second = corridors(1, 1)
    chain = Chain([first, second])
    chain.close()
    chain.close()
    assert (first.closes, second.closes) == (1, 1)


def test_close_goes_on_where_closing_one_segment_fails() -> None:
    class Stuck(Corridor):
        def close(self) -> None:
            raise OSError("stuck")

    last = Corridor(1)
    with pytest.raises(OSError, match="stuck"):
        Chain([Stuck(1), Stuck(1), last]).close()
    assert last.closes == 1


def test_capabilities_are_what_all_segments_can_do() -> None:
    both = Chain(corridors(1, 1)).capabilities
    assert (both.state, both.fork_safe, both.thread_safe, both.seeded) == ("episode_boundary", True, True, True)
    mixed = Chain([Corridor(1), Ladder()], tool_clashes="shared").capabilities
    assert not mixed.reversible
    assert not mixed.fork_safe
    assert not mixed.thread_safe
    assert not mixed.isolated
    assert not mixed.seeded
    assert mixed.volatile_state_keys == ("tick",)


def test_the_task_is_named_after_the_segments() -> None:
    chain = Chain(corridors(1, 1))
    assert chain.task_id == "corridor-0 + corridor-1"
    assert chain.list_tasks() == [chain.task_id]


# --- under and over other components --------------------------------------------------------------------------------------


def test_a_stage_above_replays_across_a_boundary_and_is_not_charged() -> None:
    first, second = corridors(2, 3, step_limit_option=False)
    stage = Stage(Chain([first, second], max_steps=2), [FORWARD, FORWARD, FORWARD])
    start = stage.reset()
    assert start.observation.data["position"] == 1
    assert (first.replayed_steps, second.replayed_steps) == (2, 1)
    assert not stage.step(BACK).truncated
    assert stage.step(FORWARD).truncated


def test_the_policys_turn_starts_whole_after_a_replay() -> None:
    stage = Stage(Chain(corridors(3, 3), {"name": "alternate", "every": 2}), [FORWARD])
    stage.reset()
    for expected in (0, 1):
        stage.step(FORWARD if expected else BACK)
        assert stage.get_env_state()["chain"] == {
            "segment": expected,
            "segments": 2,
            "visited": list(range(expected + 1)),
        }


def test_a_stage_that_wins_the_chain_is_an_error_that_names_the_action() -> None:
    with pytest.raises(ReplayError, match="stage action 1"):
        Stage(Chain(corridors(1, 1)), [FORWARD, FORWARD]).reset()


def test_a_stage_inside_a_segment_replays_when_the_segment_is_reached() -> None:
    chain = Chain([Corridor(1), Stage(Corridor(3), [FORWARD, FORWARD])])
    chain.reset()
    assert chain.step(FORWARD).observation.data["position"] == 2
    assert chain.step(FORWARD).terminated
    assert chain.evaluate().success


def test_chains_nest() -> None:
    inner = Chain(corridors(1, 1))
    outer = Chain([inner, Corridor(2)], max_steps=9)
    outer.reset()
    assert state_violations(outer.env_state_schema(), outer.get_env_state()) == []
    outer.step(FORWARD)
    assert outer.get_env_state()["chain"] == {
        "segment": 0,
        "segments": 2,
        "visited": [0],
        "inner": {"segment": 1, "segments": 2, "visited": [0, 1]},
    }
    assert state_violations(outer.env_state_schema(), outer.get_env_state()) == []
    before = outer.get_env_state()
    response = outer.step(FORWARD)
    after = outer.get_env_state()
    assert (
        outer.step_reward(StepInfo(action=FORWARD, response=response, state_before=before, state_after=after, step=1))
        == 1.0
    )
    assert not response.terminated
    assert after["chain"] == {"segment": 1, "segments": 2, "visited": [0, 1]}
    play(outer, FORWARD, FORWARD)
    verdict = outer.evaluate()
    assert verdict.success
    assert segments(verdict)[0]["metrics"]["segments"][1]["task"] == "corridor-1"


def test_the_budget_of_an_outer_chain_replaces_that_of_an_inner_one() -> None:
    outer = Chain([Chain(corridors(3, 3), max_steps=2), Corridor(1)], max_steps=9)
    outer.reset()
    assert play(outer, *[FORWARD] * 7).terminated


def test_a_serial_chain_joins_the_reference_solutions() -> None:
    chain = Chain(corridors(2, 1))
    solution = chain.reference_solution()
    assert solution is not None
    chain.reset()
    assert play(chain, *solution).terminated
    assert chain.evaluate().success
    assert Chain(corridors(1, 1), "alternate").reference_solution() is None
    assert Chain([Corridor(1), Ladder()], tool_clashes="shared").reference_solution() is None


@pytest.mark.parametrize(
    ("segments", "options", "message"),
    [
        ([Corridor(1)], {}, "two or more"),
        ([], {}, "two or more"),
        (corridors(1, 1), {"router": "random"}, "router: .*serial"),
        (corridors(1, 1), {"router": {"name": "serial", "n": 1}}, "router.serial.n"),
        (corridors(1, 1), {"max_steps": 0}, "max_steps"),
        (corridors(1, 1), {"tool_clashes": "ignore"}, "tool_clashes"),
        (corridors(1, 1), {"handoff": {"loud": True}}, "handoff.loud"),
    ],
)
def test_what_does_not_fit_is_one_clear_error(segments: Any, options: Any, message: str) -> None:
    with pytest.raises(SpecError, match=message):
        Chain(segments, **options)


def test_one_object_cannot_be_two_segments() -> None:
    env = Corridor(1)
    with pytest.raises(SpecError, match="twice"):
        Chain([env, env])


# --- what the state says of the goal --------------------------------------------------------------------------------


def test_a_chain_says_of_the_goal_what_the_active_segment_and_those_to_come_tell() -> None:
    chain = Chain(corridors(1, 1))
    chain.reset()
    assert chain.goal_reached(chain.get_env_state()) is False
    chain.step(FORWARD)
    assert chain.goal_reached(chain.get_env_state()) is False
    chain.step(FORWARD)
    assert chain.evaluate().success
    # The first corridor's state is gone, so nobody can say that both were walked.
    assert chain.goal_reached(chain.get_env_state()) is None


def test_a_segment_that_is_not_required_leaves_the_word_to_the_one_that_is() -> None:
    router = {"name": "switch_on_action", "rules": [{"tool": "climb", "to": 1}]}
    chain = Chain([Corridor(2), Ladder()], router, tool_clashes="prefix")
    chain.reset()
    chain.step(FORWARD)
    assert chain.goal_reached(chain.get_env_state()) is False
    chain.step(FORWARD)
    assert chain.goal_reached(chain.get_env_state()) is True is chain.evaluate().success


def test_a_chain_in_a_chain_reads_its_own_part_of_the_state() -> None:
    chain = Chain([Chain(corridors(1, 1)), Corridor(1)])
    chain.reset()
    assert chain.goal_reached(chain.get_env_state()) is False
    with pytest.raises(SpecError, match="not the state of a chain"):
        chain.goal_reached({"position": 1})
