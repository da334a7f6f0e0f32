"""Environments that are played by typing: a tool whose only argument is free text, and what it would accept."""

from __future__ import annotations

from collections.abc import Sequence

from envharness.core.types import Observation, ToolSchema

ADMISSIBLE = "admissible_commands"
"""The key of an observation's data under which an environment lists the commands it would accept."""


def only_string(tool: ToolSchema) -> str | None:
    """Return the name of the tool's argument where it has exactly one, a free string."""
    properties = tool.parameters.get("properties")
    if not isinstance(properties, dict) or len(properties) != 1:
        return None
    ((name, schema),) = properties.items()
    return name if isinstance(schema, dict) and schema.get("type") == "string" and "enum" not in schema else None


def command_tool(tools: Sequence[ToolSchema]) -> tuple[ToolSchema, str] | None:
    """Return the one tool and its one argument where all that can be done is to type; None otherwise."""
    if len(tools) != 1:
        return None
    argument = only_string(tools[0])
    return None if argument is None else (tools[0], argument)


def admissible_commands(observation: Observation) -> list[str]:
    """Return the commands that the observation lists, each once; empty where it lists none."""
    listed = observation.data.get(ADMISSIBLE)
    if not isinstance(listed, list):
        return []
    return list(dict.fromkeys(command for command in listed if isinstance(command, str)))
