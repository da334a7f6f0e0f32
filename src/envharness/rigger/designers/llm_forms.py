"""The forms in which a designer's model answers, and the tools whose parameters are the schemas of its answers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, get_args

from pydantic import JsonValue

from envharness.core.types import JsonDict, ToolSchema
from envharness.rigger.records import FailureAxis

AnswerForm = Literal["tool", "json_schema", "json"]
"""`tool`: a tool call; `json_schema`: JSON that the server holds to a schema; `json`: JSON that is only asked for."""
FORMS: tuple[str, ...] = get_args(AnswerForm)
AXES: tuple[str, ...] = get_args(FailureAxis)

RESTART = "restart_stage"
FINISH = "finish_stage"


def _object(**properties: JsonValue) -> JsonDict:
    # Everything required and nothing else: what the strict modes of providers ask for.
    return {
        "type": "object",
        "properties": dict(properties),
        "required": list(properties),
        "additionalProperties": False,
    }


_TEXT: JsonDict = {"type": "string"}
_COUNT: JsonDict = {"type": "integer", "minimum": 0}
_AXIS: JsonDict = {"type": "string", "enum": list(AXES)}


def _list(items: JsonValue) -> JsonDict:
    return {"type": "array", "items": items}


DIAGNOSIS_TOOL = ToolSchema(
    name="record_diagnosis",
    description="Write down what decides whether the policy wins, where it shows, and what you expect to change.",
    parameters=_object(
        flaw=_TEXT,
        explanation=_TEXT,
        evidence=_list(_object(rollout=_COUNT, steps=_list(_COUNT), what=_TEXT)),
        direction={"type": "string", "enum": ["harden", "scaffold", "sharpen"]},
        predicted_success_rate={"type": "number", "minimum": 0, "maximum": 1},
        predicted_failures=_list(
            _object(axis=_AXIS, label=_TEXT, change={"type": "string", "enum": ["more", "fewer", "same"]})
        ),
    ),
)

CONTRACT_TOOL = ToolSchema(
    name="propose_contract",
    description="Propose the Contract for the start that you chose.",
    parameters=_object(contract_source=_TEXT, rationale=_TEXT),
)

LABELS_TOOL = ToolSchema(
    name="label_failures",
    description="Say of each lost rollout how it was lost.",
    parameters=_object(failures=_list(_object(rollout=_COUNT, axis=_AXIS, label=_TEXT, sentence=_TEXT))),
)


def candidate_tool(tools: Sequence[ToolSchema]) -> ToolSchema:
    """Return the tool that takes a candidate for an environment with these tools."""
    return ToolSchema(
        name="propose_component",
        description="Propose a component: actions played before the policy's first turn, Contract source, or both.",
        parameters=_object(in_env_actions=_list(_action(tools)), contract_source=_TEXT, rationale=_TEXT),
    )


def move_tool(tools: Sequence[ToolSchema]) -> ToolSchema:
    """Return the tool that takes one move of an exploration, for servers without tool calls."""
    return ToolSchema(
        name="move",
        description="Act in the environment, go back to the start, or finish.",
        parameters={
            "type": "object",
            "properties": {
                "thought": _TEXT,
                "move": {"type": "string", "enum": ["act", "restart", "finish"]},
                "action": _action(tools),
            },
            "required": ["thought", "move"],
            "additionalProperties": False,
        },
    )


def exploration_tools(tools: Sequence[ToolSchema]) -> tuple[ToolSchema, ...]:
    """Return the environment's own tools, and two that lead back to the start and out of the exploration."""
    nothing: JsonDict = {"type": "object", "properties": {}}
    return (
        *tools,
        ToolSchema(name=RESTART, description="Go back to the start: the Stage is empty again.", parameters=nothing),
        ToolSchema(name=FINISH, description="The start is right as it is now.", parameters=nothing),
    )


def _action(tools: Sequence[ToolSchema]) -> JsonDict:
    names: list[JsonValue] = [tool.name for tool in tools]
    return {
        "type": "object",
        "properties": {"name": {"type": "string", "enum": names}, "kwargs": {"type": "object"}},
        "required": ["name", "kwargs"],
        "additionalProperties": False,
    }
