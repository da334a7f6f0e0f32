"""The format `text`: the answer is the action, and nothing else. For models and servers that can do no more."""

from __future__ import annotations

from collections.abc import Sequence

from envharness.core.policy import Turn
from envharness.core.types import Action, ToolSchema
from envharness.llm.chat import ChatAnswer, Message
from envharness.llm.thoughts import split_thought
from envharness.policies.formats.base import NO_ANSWER, Asking, prompt
from envharness.policies.formats.line import describe, example, parse_line, unwrap


class Text:
    """One line of plain text a turn. Where there is one tool with one argument, the line is that argument."""

    def explain(self, tools: Sequence[ToolSchema]) -> str:
        """Return how to answer, with the tools as text."""
        return prompt("text", example=example(tools), tools=describe(tools))

    def ask(self, turn: Turn) -> Asking:
        """Ask for plain text."""
        del turn
        return Asking()

    def parse(self, answer: ChatAnswer, tools: Sequence[ToolSchema]) -> tuple[Action, str]:
        """Return the action on the answer's only line, or in its only fenced block."""
        return parse_line(unwrap(answer.text), tools), ""

    def remember(self, answer: ChatAnswer) -> Message:
        """Keep the text without the thought: the format asks for none."""
        return Message(role="assistant", content=split_thought(answer.text)[1] or NO_ANSWER)
