"""The format `function_calling`: the endpoint's own tool calls, exactly one a turn."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import count
from typing import cast

import orjson

from envharness.core.policy import Turn
from envharness.core.types import Action, JsonDict, ToolSchema
from envharness.llm.chat import ChatAnswer, Message, ToolCall
from envharness.llm.thoughts import split_thought
from envharness.policies.formats.base import NO_ANSWER, QUOTED, Asking, UnreadableAnswer, prompt

_SHOWN_CALLS, _SHOWN_NAME = 10, 80
"""Calls of one answer, and characters of a name, that are quoted back."""
_KEPT_CALLS = 128
_LONGEST_NAME = 64
_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9_-]")
"""What the protocol lets stand in a request: a model may write calls that its own server would then refuse."""


class FunctionCalling:
    """For endpoints that take tools. An answer without a call, or with two, does nothing."""

    def explain(self, tools: Sequence[ToolSchema]) -> str:
        """Return how to answer; the tools themselves go with the request."""
        del tools
        return prompt("function_calling")

    def ask(self, turn: Turn) -> Asking:
        """Offer the tools."""
        return Asking(tools=turn.tools)

    def parse(self, answer: ChatAnswer, tools: Sequence[ToolSchema]) -> tuple[Action, str]:
        """Return the one call; the text beside it is the thought."""
        match answer.tool_calls:
            case (call,):
                return Action(name=call.name, kwargs=_arguments(call)), answer.text
            case ():
                names = ", ".join(tool.name for tool in tools)
                raise UnreadableAnswer(f"You called no tool, so nothing was done. Call one of: {names}.")
            case calls:
                named = [call.name[:_SHOWN_NAME] for call in calls[:_SHOWN_CALLS]]
                names = ", ".join([*named, "..."] if len(calls) > len(named) else named)
                raise UnreadableAnswer(
                    f"You called {len(calls)} tools at once ({names}), so none was carried out. "
                    "Call exactly one, and wait for its result."
                )

    def remember(self, answer: ChatAnswer) -> Message:
        """Keep text and calls, as far as a server takes them back.

        Arguments that are no JSON object become `{}`, what a name must not hold becomes `_`, and calls beyond the
        number that servers take are left out.
        """
        text = split_thought(answer.text)[1]
        if not answer.tool_calls:
            return Message(role="assistant", content=text or NO_ANSWER)
        seen: set[str] = set()
        calls: list[ToolCall] = []
        taken = {call.id for call in answer.tool_calls}
        for number, call in enumerate(answer.tool_calls[:_KEPT_CALLS]):
            # Some servers give no id, or the same one twice; a result must name its call.
            own = call.id
            if not own or own in seen:
                own = next(name for n in count(number) if (name := f"call_{n}") not in taken | seen)
            seen.add(own)
            name = _NOT_IN_NAMES.sub("_", call.name)[:_LONGEST_NAME] or "unnamed"
            calls.append(ToolCall(id=own, name=name, arguments=_readable(call)))
        return Message(role="assistant", content=text, tool_calls=tuple(calls))


def _arguments(call: ToolCall) -> JsonDict:
    """Read the arguments. Raises UnreadableAnswer where they are no JSON object; none at all are `{}`."""
    try:
        found: object = orjson.loads(call.arguments) if call.arguments.strip() else {}
    except orjson.JSONDecodeError as error:
        raise UnreadableAnswer(
            f"The arguments of your call of {call.name} are not JSON ({error}): {call.arguments[:QUOTED]!r}. "
            "Nothing was done."
        ) from error
    if not isinstance(found, dict):
        raise UnreadableAnswer(
            f"The arguments of your call of {call.name} must be a JSON object, not {call.arguments[:QUOTED]!r}. "
            "Nothing was done."
        )
    return cast("JsonDict", found)


def _readable(call: ToolCall) -> str:
    try:
        _arguments(call)
    except UnreadableAnswer:
        return "{}"
    return call.arguments if call.arguments.strip() else "{}"
