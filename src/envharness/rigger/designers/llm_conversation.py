"""A conversation of a designer with its model: what was said so far, and how the next call is named and answered."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from envharness.core.seeding import derive_seed
from envharness.core.types import ToolSchema
from envharness.llm.chat import ChatAnswer, ChatRequest, Message, Sampling
from envharness.llm.config import ModelConfig
from envharness.rigger.designers.base import DesignAttempt
from envharness.rigger.designers.llm_answers import UnusableAnswerError
from envharness.rigger.designers.llm_forms import AnswerForm
from envharness.rigger.requests import Answered, Call, Work, ask


class NoAnswerError(Exception):
    """Nobody answered, which is no fault of the designer's. Never leaves this package."""


class TooLongError(NoAnswerError):
    """The prompt does not fit the model."""


@dataclass(frozen=True)
class Conversation:
    """What both sides said about one task in one attempt. Saying something returns another conversation."""

    model: ModelConfig
    form: AnswerForm
    task: str
    seed: int
    attempt: DesignAttempt
    messages: tuple[Message, ...]
    sampling: Sampling
    """What it leaves open, the model's configuration says."""

    def say(self, role: Literal["user", "assistant"], text: str) -> Conversation:
        """Return the conversation with this said; what one side says in a row is one message.

        Many chat templates refuse two messages of one side.
        """
        *before, last = self.messages
        if last.role == role:
            return replace(self, messages=(*before, last.model_copy(update={"content": f"{last.content}\n\n{text}"})))
        return replace(self, messages=(*self.messages, Message(role=role, content=text)))

    def ask(self, purpose: str, tool: ToolSchema, offered: tuple[ToolSchema, ...] = ()) -> Work[ChatAnswer]:
        """Ask for an answer that fits the parameters of `tool`. `offered`, where given, are the tools it may call.

        Raises UnusableAnswerError where a filter refused, and NoAnswerError where nobody answered.
        """
        name = self.attempt.call_name(purpose)
        request = ChatRequest(
            messages=self.messages,
            tools=(offered or (tool,)) if self.form == "tool" else (),
            json_schema=tool.parameters if self.form == "json_schema" else None,
            sampling=self.sampling,
            seed=derive_seed(self.seed, name) >> 33,
            key=name,
            role="designer",
            task=self.task,
        )
        return _answer((yield from ask(Call(request, self.model))))


def _answer(answered: Answered) -> ChatAnswer:
    if answered.answer is not None:
        return answered.answer
    if answered.failure == "context_too_long":
        raise TooLongError(f"the evidence does not fit the designer's model: {answered.detail}")
    if answered.failure == "content_filter":
        raise UnusableAnswerError(f"the provider's filter refused: {answered.detail}")
    raise NoAnswerError(f"the designer's model did not answer: {answered.detail}")
