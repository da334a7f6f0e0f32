"""A client that answers from a list: no model, no network, the same every time."""

from __future__ import annotations

import json
from collections.abc import Sequence

from envharness.core.errors import MalformedAnswerError
from envharness.core.usage import Usage
from envharness.llm.chat import ChatAnswer, ChatRequest, ToolCall
from envharness.llm.config import ScriptedAnswer

MODEL = "scripted"


class ScriptedClient:
    """Gives an episode's n-th turn the n-th answer, whichever episode asks first.

    The turn is the number at the end of the request's key (`{policy_seed}/{turn}`); where the key has none, it is how
    often the assistant has spoken in the request. A turn beyond the list is a MalformedAnswerError.
    """

    def __init__(self, answers: Sequence[str | ScriptedAnswer]) -> None:
        self._answers = tuple(answers)

    async def complete(self, request: ChatRequest) -> ChatAnswer:
        """Return the answer of the request's turn."""
        turn = _turn(request)
        if turn >= len(self._answers):
            raise MalformedAnswerError(
                f"scripted: turn {turn} was asked for, and there are {len(self._answers)} answers (counted from 0)"
            )
        script = self._answers[turn]
        script = ScriptedAnswer(text=script) if isinstance(script, str) else script
        calls = tuple(
            ToolCall(id=f"call_{index}", name=call.name, arguments=json.dumps(call.arguments))
            for index, call in enumerate(script.tool_calls)
        )
        return ChatAnswer(
            text=script.text,
            reasoning=script.reasoning,
            tool_calls=calls,
            finish_reason=script.finish_reason or ("tool_calls" if calls else "stop"),
            usage=Usage(calls=1),
            model=MODEL,
        )

    async def close(self) -> None:
        """Nothing to release."""


def _turn(request: ChatRequest) -> int:
    last = request.key.rpartition("/")[2]
    if last.isdecimal():
        return int(last)
    return sum(message.role == "assistant" for message in request.messages)
