from __future__ import annotations

import importlib.util

import pytest
from hypothesis import given
from hypothesis import strategies as st

from envharness import make
from envharness.campaign.harden.screen import (
    RUNNING_TEXT,
    ScreenField,
    fields_of,
    label_of,
    labels_in,
    parts_of,
    without,
)
from envharness.core.types import Action, JsonDict, Observation
from presence import absent

line = st.one_of(
    st.sampled_from(["Target: 24", "Numbers left (3): 1, 2, 3", "Choices:", "- go on", "", "You walk.", "Moves: none"]),
    st.text(alphabet="aB :-\n(1)", max_size=12),
)
texts = st.lists(line, max_size=12).map("\n".join)
LABELS = ["target", "numbers left", "choices"]


@given(texts)
def test_the_parts_of_a_text_are_the_whole_text(text: str) -> None:
    assert "\n".join(found for _, lines in parts_of(text, LABELS) for found in lines) == text


@given(texts, st.sampled_from([*LABELS, RUNNING_TEXT]))
def test_what_is_hidden_is_gone_and_all_else_stays(text: str, hidden: str) -> None:
    left = without(text, LABELS, hidden)
    kept = [found for label, lines in parts_of(text, LABELS) if label != hidden for found in lines if found.strip()]
    assert [found for found in left.split("\n") if found.strip()] == kept
    if all(label != hidden for label, _ in parts_of(text, LABELS)):
        assert left == text


def test_a_label_is_what_stands_before_a_colon() -> None:
    assert label_of("Numbers left (4): 1, 2") == "numbers left"
    assert label_of("Your task is to: put a mug in desk.") == "your task is to"
    assert label_of("Choices:") == "choices"
    assert label_of("see http://example.org") == ""
    assert label_of("You see that, after all that was said about it, there are some: two") == ""


def test_a_heading_takes_the_lines_below_it_up_to_an_empty_one() -> None:
    text = "You walk.\n\nChoices:\n- a\n- b\n\nThe end."
    assert without(text, LABELS, "choices") == "You walk.\n\nThe end."


def test_a_label_must_recur_to_be_a_field() -> None:
    screens = ["Target: 24\nNothing happens: no", "Target: 24\nGood.", "Target: 24\nGood."]
    assert labels_in(screens) == ["target"]


def test_the_fields_of_toy24_join_text_and_data() -> None:
    with make("toy24", task="easy-0000") as env:
        screens = [env.reset(0).observation]
        for number in range(2):
            screens.append(env.step(Action(name="combine", kwargs=_first_two(screens[-1], "*+"[number]))).observation)
    assert fields_of(screens) == [
        ScreenField("target", "target", ("target",)),
        ScreenField("numbers left", "numbers left", ("numbers",)),
        ScreenField("moves made", "moves made", ("moves",)),
        ScreenField("steps left", "steps left", ("steps_left",)),
        ScreenField("use every number exactly once", "use every number exactly once"),
        ScreenField("running text", RUNNING_TEXT, ("message",)),
    ]


def test_a_key_that_no_text_tells_is_a_field_of_its_own() -> None:
    screens = [Observation(text=f"Room: {room}", data={"room": room, "secret": room * 7}) for room in range(4)]
    assert fields_of(screens) == [ScreenField("room", "room", ("room",)), ScreenField("data secret", None, ("secret",))]


@pytest.mark.slow
def test_the_fields_of_alfworld_join_text_and_data() -> None:
    if not (importlib.util.find_spec("textworld") and importlib.util.find_spec("alfworld")):
        raise absent("the ALFWorld engine is not installed; run scripts/install-alfworld")
    with make("alfworld", task="builtin/mug-to-desk") as env:
        commands = ("go to countertop 1", "take mug 1 from countertop 1", "go to desk 1")
        screens = [env.reset(0).observation]
        screens += [env.step(Action(name="act", kwargs={"command": command})).observation for command in commands]
    assert fields_of(screens) == [
        ScreenField("your task is to", "your task is to", ("goal",)),
        ScreenField("admissible commands", "admissible commands", ("admissible_commands",)),
        ScreenField("running text", RUNNING_TEXT, ("feedback",)),
    ]


def _first_two(screen: Observation, operation: str) -> JsonDict:
    numbers = screen.data["numbers"]
    assert isinstance(numbers, list)
    return {"left": str(numbers[0]), "operation": operation, "right": str(numbers[1])}
