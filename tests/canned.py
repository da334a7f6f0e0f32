"""A chat client that gives the answers it was made with, in order, and keeps what it was asked."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from envharness.llm.chat import ChatAnswer, ChatRequest, ToolCall


class CannedClient:
    """Answers from a list, again from its start when it is through; or from a function of the request."""

    def __init__(self, answers: Sequence[ChatAnswer | str | Exception] | Callable[[ChatRequest], ChatAnswer]) -> None:
        self._answers = answers
        self.asked: list[ChatRequest] = []

    async def complete(self, request: ChatRequest) -> ChatAnswer:
        self.asked.append(request)
        if callable(self._answers):
            return self._answers(request)
        answer = self._answers[(len(self.asked) - 1) % len(self._answers)]
        if isinstance(answer, Exception):
            raise answer
        return ChatAnswer(text=answer) if isinstance(answer, str) else answer

    async def close(self) -> None:
        return


def calling(*calls: tuple[str, str], text: str = "") -> ChatAnswer:
    """An answer with tool calls, each a name and the raw text of its arguments."""
    made = tuple(ToolCall(id=f"id{number}", name=name, arguments=raw) for number, (name, raw) in enumerate(calls))
    return ChatAnswer(text=text, tool_calls=made, finish_reason="tool_calls")
