"""What every format shares: its protocol, the shape of what was read, and the answers that none can use."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from pydantic import JsonValue, ValidationError

from envharness.core.policy import Turn
from envharness.core.types import Action, ToolSchema
from envharness.llm.chat import ChatAnswer, Message
from envharness.llm.prompts import fill_prompt
from envharness.llm.thoughts import split_thought

CUT = "Your answer was cut off at its length limit, so nothing was done. Answer more briefly."
EMPTY = "Your answer was empty, so nothing was done. Name one action."
NESTED = "The arguments of your action are nested too deeply, so nothing was done. Make them simpler."
QUOTED = 200
"""Characters of a malformed answer that are quoted back to the model."""
NO_ANSWER = "(no answer)"
"""Stands for an empty answer in the history, because some endpoints refuse an empty message."""


class UnreadableAnswer(Exception):
    """An answer that names no single action. The text is written for the model: what was wrong, what to do."""


@dataclass(frozen=True)
class Asking:
    """What a format adds to a request beside the messages."""

    tools: tuple[ToolSchema, ...] = ()
    json_schema: dict[str, JsonValue] | None = None


@dataclass(frozen=True)
class Reading:
    """What was read out of an answer: an action, or the problem that kept it from being one."""

    action: Action | None
    problem: str = ""
    """Empty where there is an action."""
    thought: str = ""
    """The model's own thought, whichever way it came; empty where there is none."""


class Format(Protocol):
    """One way to ask for an action. Without state: one instance may serve many episodes."""

    def explain(self, tools: Sequence[ToolSchema]) -> str:
        """Return the format's part of the system message: how to answer, and with which tools."""
        ...

    def ask(self, turn: Turn) -> Asking:
        """Return what the request for this turn carries beside the messages."""
        ...

    def parse(self, answer: ChatAnswer, tools: Sequence[ToolSchema]) -> tuple[Action, str]:
        """Return the action and the thought written beside it. `answer` is complete, not empty, without `<think>`.

        Whether there is such a tool with such arguments is the environment's to say, and it says so helpfully. Raises
        UnreadableAnswer where the answer does not name exactly one action.
        """
        ...

    def remember(self, answer: ChatAnswer) -> Message:
        """Return the assistant's message that stands for the answer in the history."""
        ...


def read(form: Format, answer: ChatAnswer, tools: Sequence[ToolSchema]) -> Reading:
    """Read an answer. Whatever is wrong with it becomes a problem to tell the model."""
    thought, spoken = split_thought(answer.text)
    thoughts = [answer.reasoning.strip(), thought]
    try:
        if answer.finish_reason == "length":
            raise UnreadableAnswer(CUT)  # noqa: TRY301  one place turns every problem into a reading
        if not spoken and not answer.tool_calls:
            raise UnreadableAnswer(EMPTY)  # noqa: TRY301  as above
        action, beside = form.parse(answer.model_copy(update={"text": spoken}), tools)
    except UnreadableAnswer as problem:
        return Reading(None, str(problem), _joined(thoughts))
    except ValidationError:
        # The parsers let through only JSON, so all that an Action can object to is its depth.
        return Reading(None, NESTED, _joined(thoughts))
    return Reading(action, thought=_joined([*thoughts, beside]))


def reply(answered: Message, shown: str) -> tuple[Message, ...]:
    """Return the messages that show an observation after `answered`: the result of its call, or the user's turn.

    Every call of the answer gets a result, as the protocol demands; the observation stands in the first.
    """
    if not answered.tool_calls:
        return (Message(role="user", content=shown),)
    first, *others = answered.tool_calls
    return (
        Message(role="tool", content=shown, tool_call_id=first.id),
        *(Message(role="tool", content="Not carried out.", tool_call_id=call.id) for call in others),
    )


def prompt(name: str, **values: str) -> str:
    """Return a prompt of the formats, filled in. Raises KeyError for a place that no value is given for."""
    return fill_prompt("envharness.policies.formats", name, **values)


def _joined(parts: Sequence[str]) -> str:
    return "\n".join(part for part in parts if part)
