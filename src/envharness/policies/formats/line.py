"""Actions as one line: a command where there is one tool to type into, a call `tool(name="value")` elsewhere."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import cast

import orjson
from pydantic import JsonValue

from envharness.core.types import Action, JsonDict, ToolSchema
from envharness.policies.command_tool import command_tool
from envharness.policies.formats.base import QUOTED, UnreadableAnswer

_NAME = re.compile(r"[A-Za-z_][\w.-]*")
_KEY = re.compile(r"\s*([A-Za-z_]\w*)\s*=(?!=)\s*")
_COMMA = re.compile(r"\s*,")
_SINGLE_QUOTED = re.compile(r"'((?:[^'\\\n]|\\.)*)'")
_WORDS: dict[str, JsonValue] = {"True": True, "False": False, "None": None}
_FENCED = re.compile(r"^```[^\n`]*\n(.*?)^```[ \t]*$", re.DOTALL | re.MULTILINE)
_DECODER = json.JSONDecoder()


def describe(tools: Sequence[ToolSchema]) -> str:
    """Return the tools as text for a prompt, and how a line is written."""
    typed = command_tool(tools)
    if typed:
        tool, argument = typed
        described = _property(tool, argument).get("description")
        return "\n".join(str(part) for part in ("An action is a command.", tool.description, described) if part)
    lines = ['An action is one call of a tool, written as tool(argument="text", other=1). The tools:']
    for tool in tools:
        required = tool.parameters.get("required")
        wanted = required if isinstance(required, list) else []
        signature = ", ".join(
            f"{name}{'' if name in wanted else '?'}: {_kind(_property(tool, name))}" for name in _names(tool)
        )
        lines.append(f"- {tool.name}({signature})  {tool.description}".rstrip())
        lines += [
            f"    {name}: {described}"
            for name in _names(tool)
            if (described := _property(tool, name).get("description"))
        ]
    return "\n".join(lines)


def example(tools: Sequence[ToolSchema]) -> str:
    """Return what stands for an action in an example of the format."""
    return "COMMAND" if command_tool(tools) else 'TOOL(ARGUMENT="TEXT")'


def parse_line(text: str, tools: Sequence[ToolSchema]) -> Action:
    """Read one action. Raises UnreadableAnswer where the text is none."""
    text = text.strip()
    if not text:
        raise UnreadableAnswer("Your answer names no action, so nothing was done.")
    typed = command_tool(tools)
    if typed:
        tool, argument = typed
        return Action(name=tool.name, kwargs={argument: text})
    name = _NAME.match(text)
    if not name:
        raise _not_a_call(text, tools)
    rest = text[name.end() :].strip()
    tool = next((tool for tool in tools if tool.name == name[0]), None)
    if not rest and tool:
        return Action(name=tool.name)
    if not rest.startswith("(") or not rest.endswith(")"):
        raise _not_a_call(text, tools)
    return Action(name=name[0], kwargs=_arguments(rest[1:-1], name[0], _names(tool) if tool else []))


def unwrap(text: str) -> str:
    """Return the one action of a plain answer: its only line, or the inside of its only fenced block.

    Raises UnreadableAnswer where it has several lines or several blocks.
    """
    blocks = _FENCED.findall(text)
    if len(blocks) > 1:
        raise UnreadableAnswer(f"Your answer has {len(blocks)} blocks, so nothing was done. Give one action.")
    if blocks:
        return str(blocks[0]).strip()
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    if len(lines) > 1:
        raise UnreadableAnswer(
            f"Your answer has {len(lines)} lines, so nothing was done. Answer with the action alone, on one line; "
            "an action of several lines goes between two lines of ```."
        )
    return lines[0].strip("`").strip() if lines else ""


def _arguments(text: str, tool: str, names: Sequence[str]) -> JsonDict:
    """Read `name=value, ...`; values without a name are taken in the order of `names`."""
    found: JsonDict = {}
    place = 0
    while text[place:].strip():
        if found or place:
            comma = _COMMA.match(text, place)
            if not comma:
                raise UnreadableAnswer(_misread(tool, text[place:]))
            place = comma.end()
            if not text[place:].strip():
                break
        key = _KEY.match(text, place)
        if key:
            name, place = key[1], key.end()
        elif len(found) < len(names):
            name = names[len(found)]
        else:
            raise UnreadableAnswer(_misread(tool, text[place:]))
        if name in found:
            raise UnreadableAnswer(f"You gave the argument {name!r} of {tool} twice, so nothing was done.")
        found[name], place = _value(text, place, tool)
    return found


def _value(text: str, place: int, tool: str) -> tuple[JsonValue, int]:
    """Read a JSON value, or one written as Python would; return it and where it ends."""
    place += len(text[place:]) - len(text[place:].lstrip())
    quoted = _SINGLE_QUOTED.match(text, place)
    if quoted:
        return re.sub(r"\\(.)", r"\1", quoted[1]), quoted.end()
    word = _NAME.match(text, place)
    if word and word[0] in _WORDS:
        return _WORDS[word[0]], word.end()
    try:
        _, end = _DECODER.raw_decode(text, place)
        # Read again by the strict parser: no NaN, no half of a surrogate pair, no integer beyond 64 bits.
        return cast("JsonValue", orjson.loads(text[place:end])), end
    except (ValueError, RecursionError) as error:
        raise UnreadableAnswer(_misread(tool, text[place:])) from error


def _misread(tool: str, rest: str) -> str:
    return (
        f"The arguments of {tool} cannot be read at {rest.strip()[:QUOTED]!r}, so nothing was done. "
        f'Write them as {tool}(argument="text", other=1).'
    )


def _not_a_call(text: str, tools: Sequence[ToolSchema]) -> UnreadableAnswer:
    names = ", ".join(tool.name for tool in tools)
    return UnreadableAnswer(
        f"{text[:QUOTED]!r} is not a call of a tool, so nothing was done. Write one as "
        f'tool(argument="text"). The tools: {names}.'
    )


def _names(tool: ToolSchema) -> list[str]:
    properties = tool.parameters.get("properties")
    return list(properties) if isinstance(properties, dict) else []


def _property(tool: ToolSchema, name: str) -> JsonDict:
    properties = tool.parameters.get("properties")
    found = properties.get(name) if isinstance(properties, dict) else None
    return found if isinstance(found, dict) else {}


def _kind(schema: JsonDict) -> str:
    """Say in a word or two what a value must be."""
    choices = schema.get("enum")
    if isinstance(choices, list):
        return " | ".join(json.dumps(choice) for choice in choices)
    if "const" in schema:
        return json.dumps(schema["const"])
    kind = schema.get("type")
    if kind == "array":
        items = schema.get("items")
        return f"list of {_kind(items)}" if isinstance(items, dict) else "list"
    options = schema.get("anyOf")
    if isinstance(options, list):
        return " | ".join(_kind(option) for option in options if isinstance(option, dict))
    return str(kind) if isinstance(kind, str) else "object"
