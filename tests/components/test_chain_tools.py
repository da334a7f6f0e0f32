"""The tools of a Chain: one set for the whole episode, and no name that means two things unseen."""

from __future__ import annotations

from typing import Any

import pytest

from envharness.components.chain import Chain
from envharness.components.tool_union import ToolUnion
from envharness.core.errors import SpecError
from envharness.core.types import Action, ToolSchema
from environments import FORWARD, STOP, Corridor, Ladder


def names(chain: Chain) -> list[str]:
    return [schema.name for schema in chain.tool_schemas()]


def test_the_tools_are_the_union_and_stay_the_same_through_the_episode() -> None:
    chain = Chain([Corridor(1), Corridor(2)])
    assert names(chain) == ["forward", "back", "stop"]
    chain.reset()
    before = chain.tool_schemas()
    chain.step(FORWARD)
    assert chain.tool_schemas() == before


def test_a_clash_is_an_error_unless_it_is_resolved() -> None:
    with pytest.raises(SpecError, match=r"segments 0, 1 each have a tool 'stop' .*'prefix' or 'shared'"):
        Chain([Corridor(1), Ladder()])


def test_prefix_offers_each_segments_tool_apart() -> None:
    chain = Chain([Corridor(1), Ladder()], tool_clashes="prefix")
    assert names(chain) == ["forward", "back", "task1_stop", "task2_stop", "climb"]
    chain.reset()
    assert "belongs to task 2" in str(chain.step(Action(name="task2_stop", kwargs={"why": "?"})).info["refused"])
    ambiguous = chain.step(STOP)
    assert "'stop' is ambiguous" in str(ambiguous.info["refused"])
    assert "task1_stop" in str(ambiguous.info["refused"])
    assert chain.step(Action(name="task1_stop")).terminated


def test_a_prefixed_tool_reaches_its_segment_under_its_own_name() -> None:
    ladder = Ladder()
    chain = Chain([Corridor(1), ladder], tool_clashes="prefix")
    chain.reset()
    chain.step(FORWARD)
    response = chain.step(Action(name="task2_stop", kwargs={"why": "enough"}))
    assert response.observation.text == "You stop: enough"


def test_a_prefixed_reference_solution_still_wins() -> None:
    first = Corridor(1, ends_at_goal=False)

    class Loft(Ladder):
        def reference_solution(self) -> list[Action]:
            return [Action(name="climb", kwargs={"rungs": 5})]

    chain = Chain([first, Loft()], tool_clashes="prefix")
    solution = chain.reference_solution()
    assert solution is not None
    assert [action.name for action in solution] == ["forward", "task1_stop", "climb"]
    chain.reset()
    for action in solution:
        chain.step(action)
    assert chain.evaluate().success


def test_shared_offers_one_tool_that_takes_what_any_takes() -> None:
    chain = Chain([Corridor(1), Ladder()], tool_clashes="shared")
    stop = next(schema for schema in chain.tool_schemas() if schema.name == "stop")
    assert stop.parameters["properties"] == {"why": {"type": "string", "description": "the reason"}}
    assert stop.parameters["required"] == []
    assert stop.description == "Task 1: End the episode here. Task 2: End the episode."
    chain.reset()
    assert "unknown argument 'why'" in str(chain.step(Action(name="stop", kwargs={"why": "?"})).info["refused"])
    chain.step(FORWARD)
    assert "missing argument 'why'" in str(chain.step(STOP).info["refused"])


def test_a_tool_of_another_task_is_refused_and_nothing_happens() -> None:
    corridor, ladder = Corridor(2), Ladder()
    chain = Chain([corridor, ladder], tool_clashes="prefix")
    start = chain.reset()
    response = chain.step(Action(name="climb", kwargs={"rungs": 1}))
    reason = response.info["refused"]
    assert reason == ("'climb' belongs to task 2; you are on task 1 of 2, whose tools are: forward, back, task1_stop")
    assert response.observation.text == f"{reason}\n\n{start.observation.text}"
    assert (corridor.steps, ladder.resets) == (0, 0)


def test_a_tool_nobody_has_is_the_active_segments_to_refuse() -> None:
    """A Contract inside the segment may know it."""
    chain = Chain([Corridor(1), Corridor(1)])
    chain.reset()
    assert "there is no tool 'fly'" in str(chain.step(Action(name="fly")).info["refused"])


def test_what_tool_schemas_returns_is_a_copy() -> None:
    chain = Chain([Corridor(1), Corridor(1)])
    chain.tool_schemas()[0].parameters["type"] = "array"
    assert chain.tool_schemas()[0].parameters["type"] == "object"


def schema(name: str, **properties: Any) -> ToolSchema:
    return ToolSchema(name=name, parameters={"type": "object", "properties": properties, "required": list(properties)})


def test_arguments_of_two_types_may_be_either() -> None:
    union = ToolUnion(
        [[schema("go", to={"type": "string"}, n={"type": "integer"})], [schema("go", to={"type": "integer"})]], "shared"
    )
    assert union.schemas[0].parameters == {
        "type": "object",
        "properties": {"to": {"anyOf": [{"type": "string"}, {"type": "integer"}]}, "n": {"type": "integer"}},
        "required": ["to"],
        "additionalProperties": False,
    }


def test_types_defined_twice_cannot_be_merged() -> None:
    one, other = schema("go", to={"$ref": "#/$defs/Place"}), schema("go", to={"$ref": "#/$defs/Place"}, n={})
    one.parameters["$defs"] = {"Place": {"enum": ["here"]}}
    other.parameters["$defs"] = {"Place": {"enum": ["there"]}}
    with pytest.raises(SpecError, match="'Place'"):
        ToolUnion([[one], [other]], "shared")
    other.parameters["$defs"] = {"Place": {"enum": ["here"]}}
    assert ToolUnion([[one], [other]], "shared").schemas[0].parameters["$defs"] == {"Place": {"enum": ["here"]}}


def test_a_prefixed_name_that_is_taken_is_an_error() -> None:
    taken = [schema("go", to={}), schema("task2_go", x={})]
    with pytest.raises(SpecError, match="'task2_go' is there twice"):
        ToolUnion([taken, [schema("go")]], "prefix")
