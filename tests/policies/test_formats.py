from __future__ import annotations

import json
import re
from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from canned import calling
from envharness import make
from envharness.core.policy import Decision, Turn
from envharness.core.types import Action, JsonDict, Observation, ToolSchema
from envharness.llm.chat import ChatAnswer
from envharness.policies.formats import FORMATS, FormatName, make_format
from envharness.policies.formats.base import NO_ANSWER, read, reply
from envharness.policies.formats.json_schema import schema_of

TOY24 = tuple(make("toy24").tool_schemas())
COMBINE = Action(name="combine", kwargs={"left": "8", "operation": "*", "right": "3"})
ACT = ToolSchema(
    name="act",
    description="Do one thing.",
    parameters={"type": "object", "properties": {"command": {"type": "string"}}, "required": ["command"]},
)
LOOK = Action(name="act", kwargs={"command": "look"})


def turn(tools: tuple[ToolSchema, ...], **data: list[str]) -> Turn:
    return Turn(observation=Observation(text="You see.", data=cast("JsonDict", data)), tools=tools, step=0)


GOOD: list[tuple[FormatName, tuple[ToolSchema, ...], ChatAnswer | str, Action, str]] = [
    (
        "function_calling",
        TOY24,
        calling(("combine", json.dumps(COMBINE.kwargs)), text="24 it is."),
        COMBINE,
        "24 it is.",
    ),
    ("function_calling", TOY24, calling(("stop", "")), Action(name="stop"), ""),
    ("function_calling", (ACT,), calling(("act", '{"command": "look"}'), text="<think>hm</think>"), LOOK, "hm"),
    # whether there is such a tool, and what it takes, is for the environment to say
    ("function_calling", TOY24, calling(("divide", '{"by": 0}')), Action(name="divide", kwargs={"by": 0}), ""),
    ("think_action", (ACT,), "<think>Where am I?</think>\n<action>look</action>", LOOK, "Where am I?"),
    ("think_action", (ACT,), "<think>Stopped at the tag.</think><action>look", LOOK, "Stopped at the tag."),
    ("think_action", (ACT,), "I shall look. <action> look </action>", LOOK, "I shall look."),
    ("think_action", TOY24, '<action>combine(left="8", operation="*", right="3")</action>', COMBINE, ""),
    ("text", (ACT,), "look", LOOK, ""),
    ("text", (ACT,), "\n  `look`\n", LOOK, ""),
    ("text", (ACT,), "<think>A thinking model.\nIn lines.</think>\n\nlook", LOOK, "A thinking model.\nIn lines."),
    ("text", (ACT,), "no start tag</think>look", LOOK, "no start tag"),
    ("text", (ACT,), "Like so:\n```sh\nls\ncat x\n```\n", Action(name="act", kwargs={"command": "ls\ncat x"}), ""),
    ("text", TOY24, 'combine(left="8", operation="*", right="3")', COMBINE, ""),
    ("text", TOY24, "combine('8', '*', '3')", COMBINE, ""),
    ("text", TOY24, 'combine( "8" , operation = "*", right="3", )', COMBINE, ""),
    ("text", TOY24, "stop", Action(name="stop"), ""),
    ("text", TOY24, "stop()", Action(name="stop"), ""),
    ("text", TOY24, 'x(a=[1, {"b": null}], c=True)', Action(name="x", kwargs={"a": [1, {"b": None}], "c": True}), ""),
    ("json_schema", (ACT,), '{"thought": "Hm.", "command": "look"}', LOOK, "Hm."),
    ("json_schema", (ACT,), '```json\n{"command": "look"}\n```', LOOK, ""),
    (
        "json_schema",
        TOY24,
        json.dumps({"thought": "24!", "action": {"tool": "combine", "arguments": COMBINE.kwargs}}),
        COMBINE,
        "24!",
    ),
    ("json_schema", TOY24, '{"action": {"tool": "stop"}}', Action(name="stop"), ""),
]


@pytest.mark.parametrize(("name", "tools", "answer", "action", "thought"), GOOD)
def test_what_a_format_asks_for_is_read(
    name: FormatName, tools: tuple[ToolSchema, ...], answer: ChatAnswer | str, action: Action, thought: str
) -> None:
    found = read(make_format(name), ChatAnswer(text=answer) if isinstance(answer, str) else answer, tools)
    assert found.problem == ""
    assert found.action == action
    assert found.thought == thought


DEEP = '{"a":' * 400 + "1" + "}" * 400
BAD: list[tuple[FormatName, tuple[ToolSchema, ...], ChatAnswer | str, str]] = [
    ("function_calling", TOY24, "I would combine.", "called no tool.*combine, reset_numbers, stop"),
    ("function_calling", TOY24, calling(("stop", "{}"), ("stop", "{}")), r"2 tools at once \(stop, stop\).*none"),
    ("function_calling", TOY24, calling(("combine", '{"left": "8"')), "combine are not JSON"),
    ("function_calling", TOY24, calling(("combine", '["8"]')), "combine must be a JSON object"),
    ("function_calling", TOY24, calling(("combine", '{"left": NaN}')), "not JSON"),
    ("function_calling", TOY24, calling(("combine", '{"left": "\\ud83d"}')), "not JSON"),
    ("function_calling", TOY24, calling(("combine", DEEP)), "nested too deeply"),
    ("think_action", (ACT,), "look", "no <action>"),
    ("think_action", (ACT,), "<action>look</action><action>look</action>", "2 actions"),
    ("think_action", (ACT,), "<think>never closed <action>look</action>", "empty"),
    ("think_action", (ACT,), "<action> </action>", "names no action"),
    ("text", (ACT,), "look\nThen I go on.", "2 lines"),
    ("text", (ACT,), "```\nlook\n```\nand\n```\nlook\n```", "2 blocks"),
    ("text", TOY24, "Let us combine 8 and 3.", r"not a call of a tool.*combine, reset_numbers, stop"),
    ("text", TOY24, "combine(8, *, 3)", r"combine cannot be read at '\*"),
    ("text", TOY24, 'combine("8", "*", "3", "4")', "cannot be read at '\"4\"'"),
    ("text", TOY24, 'combine(left="8", left="3")', "'left' of combine twice"),
    ("text", TOY24, 'combine(left="8" right="3")', "cannot be read at 'right="),
    ("text", TOY24, "x(a=NaN)", "cannot be read"),
    ("text", TOY24, 'x(a="\\ud83d")', "cannot be read"),
    ("text", TOY24, f"x(a={'[' * 5000})", "cannot be read"),
    ("text", TOY24, f"x(a={DEEP})", "nested too deeply"),
    ("json_schema", (ACT,), "look", "not JSON.*'look'"),
    ("json_schema", (ACT,), '"look"', "not a JSON object"),
    ("json_schema", (ACT,), '{"thought": "x"}', "no text under 'command'"),
    ("json_schema", (ACT,), '{"command": 3}', "no text under 'command'"),
    ("json_schema", TOY24, '{"thought": "x", "action": "stop"}', "names no tool"),
    ("json_schema", TOY24, '{"action": {"tool": "stop", "arguments": []}}', "'arguments' of stop are not an object"),
]


@pytest.mark.parametrize(("name", "tools", "answer", "said"), BAD)
def test_what_cannot_be_read_is_explained_and_names_no_action(
    name: FormatName, tools: tuple[ToolSchema, ...], answer: ChatAnswer | str, said: str
) -> None:
    found = read(make_format(name), ChatAnswer(text=answer) if isinstance(answer, str) else answer, tools)
    assert found.action is None
    assert re.search(said, found.problem)


@pytest.mark.parametrize("name", FORMATS)
def test_empty_and_cut_answers_name_no_action(name: FormatName) -> None:
    form = make_format(name)
    assert "empty" in read(form, ChatAnswer(), (ACT,)).problem
    assert "empty" in read(form, ChatAnswer(text=" \n", reasoning="I thought, and forgot to say it."), (ACT,)).problem
    complete = {
        "function_calling": calling(("act", '{"command": "look"}')),
        "think_action": ChatAnswer(text="<action>look</action>"),
        "text": ChatAnswer(text="look"),
        "json_schema": ChatAnswer(text='{"command": "look"}'),
    }[name]
    assert read(form, complete, (ACT,)).action == LOOK
    cut = read(form, complete.model_copy(update={"finish_reason": "length"}), (ACT,))
    assert cut.action is None
    assert "cut off" in cut.problem


NOISE = st.text(st.characters(codec=None, exclude_categories=()), max_size=60)
MARKS = st.sampled_from(
    ["<think>", "</think>", "<action>", "</action>", "(", ")", "=", '"', "'", ",", "{", "```\n", "\n"]
)


@given(
    name=st.sampled_from(FORMATS),
    tools=st.sampled_from([TOY24, (ACT,), ()]),
    parts=st.lists(NOISE | MARKS, max_size=8),
    called=st.lists(st.tuples(NOISE, NOISE | st.just("{}")), max_size=2),
    data=st.data(),
)
def test_no_answer_breaks_a_format_and_every_reading_can_be_written_down(
    name: FormatName,
    tools: tuple[ToolSchema, ...],
    parts: list[str],
    called: list[tuple[str, str]],
    data: st.DataObject,
) -> None:
    form = make_format(name)
    finish = data.draw(st.sampled_from(["stop", "length", "tool_calls", "other"]))
    answer = calling(*called, text="".join(parts)).model_copy(update={"finish_reason": finish})
    found = read(form, answer, tools)
    assert (found.action is None) == bool(found.problem)
    Decision(action=found.action, problem=found.problem, text=found.thought).model_dump_json()
    remembered = form.remember(answer)
    remembered.model_dump_json()
    assert remembered.content or remembered.tool_calls
    assert [message.tool_call_id for message in reply(remembered, "seen") if message.role == "tool"] == [
        call.id for call in remembered.tool_calls
    ]
    assert len({call.id for call in remembered.tool_calls}) == len(remembered.tool_calls)
    assert all(isinstance(json.loads(call.arguments), dict) for call in remembered.tool_calls)
    assert reply(remembered, "seen")[0].content == "seen"


def test_only_think_action_shows_a_model_its_own_thoughts_again() -> None:
    answer = ChatAnswer(text="<think>t</think><action>look</action>", reasoning="r")
    assert make_format("think_action").remember(answer).content == answer.text
    assert make_format("text").remember(answer).content == "<action>look</action>"
    assert make_format("text").remember(ChatAnswer()).content == NO_ANSWER


def test_the_schema_offers_the_admissible_commands_after_the_thought() -> None:
    asked = make_format("json_schema", thought_characters=80).ask(
        turn((ACT,), admissible_commands=["look", "go", "look"])
    )
    assert asked.tools == ()
    assert asked.json_schema == {
        "type": "object",
        "properties": {
            "thought": {"type": "string", "maxLength": 80},
            "command": {"type": "string", "enum": ["look", "go"]},
        },
        "required": ["thought", "command"],
        "additionalProperties": False,
    }
    assert asked.json_schema is not None
    assert list(cast("JsonDict", asked.json_schema["properties"])) == ["thought", "command"]


def test_the_schema_of_many_tools_is_a_choice_among_their_own() -> None:
    schema = schema_of((*TOY24, ACT), Observation(text="", data={"admissible_commands": ["look"]}))
    calls = cast("list[JsonDict]", cast("JsonDict", cast("JsonDict", schema["properties"])["action"])["anyOf"])
    arguments = [cast("JsonDict", call["properties"])["arguments"] for call in calls]
    assert cast("JsonDict", arguments[0])["required"] == ["left", "operation", "right"]
    assert cast("JsonDict", arguments[3])["properties"] == {"command": {"type": "string", "enum": ["look"]}}
    assert "thought" in json.dumps(schema)


def test_definitions_of_tools_move_to_the_root_without_clashing() -> None:
    def tool(name: str, kind: str) -> ToolSchema:
        parameters: JsonDict = {
            "type": "object",
            "properties": {"point": {"$ref": "#/$defs/Point"}},
            "$defs": {"Point": {"type": kind}},
        }
        return ToolSchema(name=name, parameters=parameters)

    tools = (tool("a", "string"), tool("b", "integer"))
    schema = schema_of(tools, Observation(text=""))
    assert schema["$defs"] == {"a.Point": {"type": "string"}, "b.Point": {"type": "integer"}}
    assert '"#/$defs/b.Point"' in json.dumps(schema)
    assert tools[0].parameters["properties"] == {"point": {"$ref": "#/$defs/Point"}}


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("tools", [TOY24, (ACT,)], ids=["toy24", "act"])
def test_the_prompt_says_what_there_is_to_call(name: FormatName, tools: tuple[ToolSchema, ...]) -> None:
    explained = make_format(name).explain(tools)
    assert "{tools}" not in explained
    assert "{example}" not in explained
    if name != "function_calling":
        assert all(tool.description in explained for tool in tools)
