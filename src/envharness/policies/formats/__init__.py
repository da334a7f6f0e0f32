"""How a model is asked for an action and how its answer is read: one small class a format."""

from __future__ import annotations

from typing import Literal, get_args

from envharness.policies.formats.base import Format
from envharness.policies.formats.function_calling import FunctionCalling
from envharness.policies.formats.json_schema import JsonSchema
from envharness.policies.formats.text import Text
from envharness.policies.formats.think_action import ThinkAction

__all__ = ["FORMATS", "Format", "FormatName", "make_format"]

FormatName = Literal["function_calling", "think_action", "text", "json_schema"]
FORMATS: tuple[FormatName, ...] = get_args(FormatName)


def make_format(name: FormatName, *, thought_characters: int | None = None) -> Format:
    """Return the format called `name`. `thought_characters` bounds the thought of `json_schema`; None does not."""
    if name == "function_calling":
        return FunctionCalling()
    if name == "think_action":
        return ThinkAction()
    if name == "text":
        return Text()
    return JsonSchema(thought_characters=thought_characters)
