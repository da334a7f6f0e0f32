from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from envharness.core.trace import Episode
from envharness.core.types import JsonDict
from envharness.rigger.flaws import revisits_states
from envharness.rigger.places import place, telling_numbers
from rigger.build import TOOLS, episode, mix, step


def walked(states: list[JsonDict], *, vain: frozenset[int] = frozenset()) -> Episode:
    """An episode that starts in the first state and comes through the others; turns in `vain` changed nothing."""
    turns = [
        step(0, mix(str(number)), state=state, info={"ineffective": True} if number in vain else {})
        for number, state in enumerate(states[1:])
    ]
    played = episode(turns)
    assert played.start is not None
    return played.model_copy(update={"start": played.start.model_copy(update={"state": states[0]})})


def corridor(*rooms: int, counter: bool = False) -> Episode:
    states: list[JsonDict] = [{"room": room, "goal": 9} for room in rooms]
    return walked([{**state, "steps": number} if counter else state for number, state in enumerate(states)])


def strength(*episodes: Episode) -> float:
    return revisits_states(episodes, TOOLS).score


@pytest.mark.parametrize("counter", [False, True])
def test_a_straight_walk_past_numbered_rooms_is_no_circle(counter: bool) -> None:
    assert strength(corridor(0, 1, 2, 3, 4, 5, counter=counter)) == 0.0


@pytest.mark.parametrize("counter", [False, True])
def test_a_walk_back_through_numbered_rooms_is_one(counter: bool) -> None:
    assert strength(corridor(0, 1, 2, 1, 0, 1, 2, counter=counter)) == 1.0


def test_what_is_carried_along_a_straight_walk_makes_it_no_circle() -> None:
    rooms, held = (0, 1, 2, 2, 3, 4, 4, 5, 6), ("", "", "", "key", "key", "key", "", "", "")
    way: list[JsonDict] = [{"room": room, "holds": holds} for room, holds in zip(rooms, held, strict=True)]
    assert telling_numbers([walked(way)]) == ["room"]
    assert strength(walked(way)) == 0.0


def test_a_counter_hides_no_return() -> None:
    names = ["hall", "attic", "hall", "attic"]
    steps: list[JsonDict] = [{"steps": number, "left": 9 - number, "room": name} for number, name in enumerate(names)]
    assert telling_numbers([walked(steps)]) == []
    assert strength(walked(steps)) == 1.0
    resets: list[JsonDict] = [{"resets": number // 2, "items": [number % 2]} for number in range(6)]
    assert telling_numbers([walked(resets)]) == []
    assert strength(walked(resets)) == 1.0


def test_a_number_that_moves_on_a_vain_turn_counts_turns() -> None:
    states: list[JsonDict] = [{"tries": number, "goal": 9} for number in range(4)]
    assert telling_numbers([walked(states)]) == ["tries"]
    assert telling_numbers([walked(states, vain=frozenset({1}))]) == []
    afresh: list[JsonDict] = [{"tries": tries} for tries in (0, 1, 2, 0, 1)]
    assert telling_numbers([walked(afresh)]) == ["tries"]
    assert telling_numbers([walked(afresh, vain=frozenset({1}))]) == []


def test_every_rollout_has_a_say() -> None:
    assert telling_numbers([corridor(0, 1, 2, counter=True), corridor(2, 1, 0, counter=True)]) == ["room"]


def test_to_stay_where_one_is_is_no_return() -> None:
    assert strength(walked([{"room": "hall"}] * 4)) == 0.0


def test_truth_values_and_what_is_absent_tell_and_unmoved_numbers_do_not() -> None:
    assert place({"lit": True, "holds": None, "steps": 3, "row": 1.5}, ["row"]) == {
        "lit": True,
        "holds": None,
        "row": 1.5,
    }


@given(st.lists(st.integers(0, 5), min_size=2, max_size=12))
def test_a_return_is_found_whether_rooms_are_numbered_or_named(rooms: list[int]) -> None:
    named = walked([{"room": f"room {room}", "steps": number} for number, room in enumerate(rooms)])
    numbered = walked([{"room": room, "steps": number} for number, room in enumerate(rooms)])
    assert strength(numbered) == strength(named)
