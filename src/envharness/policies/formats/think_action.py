"""The format `think_action`: a thought in `<think>`, then one action in `<action>`, as text."""

from __future__ import annotations

import re
from collections.abc import Sequence

from envharness.core.policy import Turn
from envharness.core.types import Action, ToolSchema
from envharness.llm.chat import ChatAnswer, Message
from envharness.policies.formats.base import NO_ANSWER, Asking, UnreadableAnswer, prompt
from envharness.policies.formats.line import describe, example, parse_line

# The end tag may be missing: a server that stops at it leaves it out.
_ACTION = re.compile(r"<action>(.*?)(?:</action>|\Z)", re.DOTALL | re.IGNORECASE)


class ThinkAction:
    """Think first, then act, on any endpoint that writes text."""

    def explain(self, tools: Sequence[ToolSchema]) -> str:
        """Return how to answer, with the tools as text."""
        return prompt("think_action", example=example(tools), tools=describe(tools))

    def ask(self, turn: Turn) -> Asking:
        """Ask for plain text."""
        del turn
        return Asking()

    def parse(self, answer: ChatAnswer, tools: Sequence[ToolSchema]) -> tuple[Action, str]:
        """Return the one action; text around it is part of the thought."""
        actions = _ACTION.findall(answer.text)
        if not actions:
            raise UnreadableAnswer(
                "Your answer has no <action>, so nothing was done. Answer with "
                f"<think>your thought</think><action>{example(tools)}</action>."
            )
        if len(actions) > 1:
            raise UnreadableAnswer(
                f"Your answer has {len(actions)} actions, so none was carried out. Give exactly one <action>, and wait "
                "for what it does."
            )
        return parse_line(str(actions[0]), tools), _ACTION.sub("", answer.text).strip()

    def remember(self, answer: ChatAnswer) -> Message:
        """Keep the answer as it was written: without its own thoughts in sight a model soon stops to write any."""
        return Message(role="assistant", content=answer.text.strip() or NO_ANSWER)
