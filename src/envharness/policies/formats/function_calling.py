"""The format `function_calling`: the endpoint's own tool calls, exactly one a turn."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import orjson

from envharness.core.policy import Turn
from envharness.core.types import Action, JsonDict, ToolSchema
from envharness.llm.chat import ChatAnswer, Message, ToolCall
from envharness.llm.thoughts import split_thought
from envharness.policies.formats.base import NO_ANSWER, QUOTED, Asking, UnreadableAnswer, prompt


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
                names = ", ".join(call.name for call in calls)
                raise UnreadableAnswer(
                    f"You called {len(calls)} tools at once ({names}), so none was carried out. "
                    "Call exactly one, and wait for its result."
                )

    def remember(self, answer: ChatAnswer) -> Message:
        """Keep text and calls. Arguments that are no JSON object become `{}`: some servers fail on others."""
        text = split_thought(answer.text)[1]
        if not answer.tool_calls:
            return Message(role="assistant", content=text or NO_ANSWER)
        seen: set[str] = set()
        calls: list[ToolCall] = []
        for number, call in enumerate(answer.tool_calls):
            # Some servers give no id, or the same one twice; a result must name its call.
            own = call.id if call.id and call.id not in seen else f"call_{number}"
            seen.add(own)
            calls.append(ToolCall(id=own, name=call.name or "unnamed", arguments=_readable(call)))
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
