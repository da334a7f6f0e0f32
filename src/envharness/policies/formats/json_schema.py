"""The format `json_schema`: JSON that the server holds to a schema, thought first. For servers without tool calls."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import cast

import orjson
from pydantic import JsonValue

from envharness.core.policy import Turn
from envharness.core.types import Action, JsonDict, Observation, ToolSchema
from envharness.llm.chat import ChatAnswer, Message
from envharness.llm.thoughts import split_thought
from envharness.policies.command_tool import admissible_commands, command_tool, only_string
from envharness.policies.formats.base import NO_ANSWER, QUOTED, Asking, UnreadableAnswer, prompt
from envharness.policies.formats.line import describe

_FENCE = re.compile(r"\A```[^\n]*\n(.*)\n```\Z", re.DOTALL)


class JsonSchema:
    """One object a turn: `thought`, then `command` where there is one tool to type into, else `tool` and `arguments`.

    Commands that the observation lists as admissible become the only ones that can be chosen.
    """

    def __init__(self, *, thought_characters: int | None = None) -> None:
        """Take the longest thought, in characters; None sets no bound (not every server knows `maxLength`)."""
        self._thought_characters = thought_characters

    def explain(self, tools: Sequence[ToolSchema]) -> str:
        """Return how to answer, with the tools as text."""
        if command_tool(tools):
            return prompt("json_schema_command", tools=describe(tools))
        described = "\n".join(
            orjson.dumps({"tool": tool.name, "description": tool.description, "arguments": tool.parameters}).decode()
            for tool in tools
        )
        return prompt("json_schema", tools=described)

    def ask(self, turn: Turn) -> Asking:
        """Return the schema of this turn's answer."""
        if not turn.tools:
            return Asking()
        return Asking(json_schema=schema_of(turn.tools, turn.observation, self._thought_characters))

    def parse(self, answer: ChatAnswer, tools: Sequence[ToolSchema]) -> tuple[Action, str]:
        """Return the action of the object, and its thought."""
        fields = _object(answer.text)
        thought = fields.get("thought")
        beside = thought.strip() if isinstance(thought, str) else ""
        typed = command_tool(tools)
        if typed:
            tool, argument = typed
            command = fields.get("command")
            if not isinstance(command, str):
                raise UnreadableAnswer("Your answer has no text under 'command', so nothing was done.")
            return Action(name=tool.name, kwargs={argument: command}), beside
        call = fields.get("action")
        name = call.get("tool") if isinstance(call, dict) else None
        if not isinstance(call, dict) or not isinstance(name, str):
            raise UnreadableAnswer("Your answer names no tool under 'action', so nothing was done.")
        arguments = call.get("arguments", {})
        if not isinstance(arguments, dict):
            raise UnreadableAnswer(f"The 'arguments' of {name} are not an object, so nothing was done.")
        return Action(name=name, kwargs=arguments), beside

    def remember(self, answer: ChatAnswer) -> Message:
        """Keep the object as it was written."""
        return Message(role="assistant", content=split_thought(answer.text)[1] or NO_ANSWER)


def schema_of(tools: Sequence[ToolSchema], observation: Observation, thought_characters: int | None = None) -> JsonDict:
    """Return the schema that an answer must fit; the thought comes first, so that it is written before the choice."""
    thought: JsonDict = {"type": "string"}
    if thought_characters is not None:
        thought["maxLength"] = thought_characters
    commands: list[JsonValue] = [*admissible_commands(observation)]
    typed = command_tool(tools)
    if typed:
        command: JsonDict = {"type": "string", "enum": commands} if commands else {"type": "string"}
        return _closed({"thought": thought, "command": command})
    definitions: JsonDict = {}
    calls: list[JsonValue] = []
    for tool in tools:
        arguments = _arguments(tool, definitions)
        argument = only_string(tool)
        if argument is not None and commands:
            arguments["properties"] = {argument: {"type": "string", "enum": commands}}
        calls.append(_closed({"tool": {"type": "string", "enum": [tool.name]}, "arguments": arguments}))
    schema = _closed({"thought": thought, "action": {"anyOf": calls}})
    if definitions:
        schema["$defs"] = definitions
    return schema


def _arguments(tool: ToolSchema, definitions: JsonDict) -> JsonDict:
    """Return the schema of a tool's arguments, its definitions moved to the root under the tool's name."""
    parameters = cast("JsonDict", _pointed(tool.parameters, tool.name))
    own = parameters.pop("$defs", {})
    if isinstance(own, dict):
        definitions.update({f"{tool.name}.{name}": definition for name, definition in own.items()})
    return {"type": "object", "properties": {}, "additionalProperties": False, **parameters}


def _pointed(node: JsonValue, tool: str) -> JsonValue:
    """Copy a schema, with its references pointing to where the tool's definitions go."""
    if isinstance(node, list):
        return [_pointed(item, tool) for item in node]
    if not isinstance(node, dict):
        return node
    return {
        key: value.replace("#/$defs/", f"#/$defs/{tool}.", 1)
        if key == "$ref" and isinstance(value, str)
        else _pointed(value, tool)
        for key, value in node.items()
    }


def _closed(properties: JsonDict) -> JsonDict:
    return {"type": "object", "properties": properties, "required": [*properties], "additionalProperties": False}


def _object(text: str) -> JsonDict:
    """Read the answer's object; a server that does not hold to the schema may have fenced it."""
    fenced = _FENCE.match(text.strip())
    try:
        found = orjson.loads(fenced[1] if fenced else text)
    except orjson.JSONDecodeError as error:
        raise UnreadableAnswer(
            f"Your answer is not JSON ({error}), so nothing was done: {text[:QUOTED]!r}. Answer with one object alone."
        ) from error
    if not isinstance(found, dict):
        raise UnreadableAnswer("Your answer is not a JSON object, so nothing was done.")
    return cast("JsonDict", found)
