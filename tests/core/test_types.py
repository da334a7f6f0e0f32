"""The boundary types: how an action is written, and how a call that did nothing is answered."""

from __future__ import annotations

from envharness.core.types import Action, Observation


def test_an_action_is_written_as_a_call_with_json_values() -> None:
    action = Action(name="put", kwargs={"place": 'the "desk"', "count": 10**30, "gently": True, "tool": None})
    assert str(action) == f'put(place="the \\"desk\\"", count={10**30}, gently=true, tool=null)'
    assert str(Action(name="stop")) == "stop()"


def test_a_notice_stands_above_the_text_and_leaves_the_original_alone() -> None:
    shown = Observation(text="A desk.", data={"open": False})
    below = shown.below("There is no such tool.")
    assert below == Observation(text="There is no such tool.\n\nA desk.", data={"open": False})
    below.data["open"] = True
    assert shown == Observation(text="A desk.", data={"open": False})
