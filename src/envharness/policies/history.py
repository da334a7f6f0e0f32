"""What a model is shown of its own episode: the whole of it, or a window that says what it leaves out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from envharness.llm.chat import Message
from envharness.llm.tokens import text_tokens

TOKENS_A_MESSAGE = 8
"""What a message or a call costs beside its text."""
KEPT_SHARE = 0.75
"""How much of the window is filled after a cut: room for some turns, so that providers can reuse the prefix."""


@dataclass(frozen=True)
class PastTurn:
    """One answer of the model and what it was shown next: a call never stands without its result."""

    answered: Message
    shown: tuple[Message, ...]

    @property
    def messages(self) -> tuple[Message, ...]:
        """The messages in order."""
        return (self.answered, *self.shown)


class History:
    """The messages of one episode. The system message and the first observation stay; the oldest turns go first."""

    def __init__(
        self, system: str, first: str, *, tokens: int | None, cut_note: Callable[[str], str], beside: int = 0
    ) -> None:
        """Start with the system message and the first observation.

        Args:
            system: The system message.
            first: The first observation, which often states the task.
            tokens: The window, in estimated tokens; None never cuts.
            cut_note: Makes the note after the first observation where something is left out, from what that is, such as
                `3 turns`.
            beside: Tokens that every request carries beside the messages, such as the tools'.
        """
        self._system = Message(role="system", content=system)
        self._first = first
        self._tokens = tokens
        self._cut_note = cut_note
        self._beside = beside
        self._turns: list[PastTurn] = []
        self._left_out = 0

    @property
    def left_out(self) -> int:
        """How many turns, the oldest ones, are no longer shown."""
        return self._left_out

    def add(self, turn: PastTurn) -> None:
        """Append a turn. Once the window is too small, the oldest are left out until a good part of it is free."""
        self._turns.append(turn)
        if self._tokens is None or self._size() <= self._tokens:
            return
        while len(self._turns) > 1 and self._size() > self._tokens * KEPT_SHARE:
            del self._turns[0]
            self._left_out += 1

    def messages(self) -> tuple[Message, ...]:
        """Return what is sent: system, first observation with the note of what is left out, turns.

        The latest turn is always there. Where it does not fit the window beside the first observation, only the note
        is left of that; where it does not fit alone, it is sent nevertheless, and the endpoint decides.
        """
        return (self._system, self._opening(), *(message for turn in self._turns for message in turn.messages))

    def _opening(self) -> Message:
        if not self._turns or self._tokens is None or self._size() <= self._tokens:
            return self._whole_opening()
        return Message(role="user", content=self._note("The first observation"))

    def _whole_opening(self) -> Message:
        note = self._note()
        return Message(role="user", content=f"{self._first}\n\n{note}" if note else self._first)

    def _note(self, *parts: str) -> str:
        """Say what is left out: `parts`, and the turns that are; empty where nothing is."""
        turns = f"{self._left_out} turn{'s' if self._left_out > 1 else ''}"
        missing = [*parts, turns] if self._left_out else [*parts]
        return self._cut_note(" and ".join(missing)) if missing else ""

    def _size(self) -> int:
        """Estimate the tokens of a request with the whole first observation."""
        turns = (message for turn in self._turns for message in turn.messages)
        return self._beside + estimated_tokens([self._system, self._whole_opening(), *turns])


def estimated_tokens(messages: Sequence[Message]) -> int:
    """Estimate, without a tokenizer and rather too high, how many tokens messages take."""
    return sum(_tokens_of(message) for message in messages)


def _tokens_of(message: Message) -> int:
    calls = sum(TOKENS_A_MESSAGE + text_tokens(call.id + call.name + call.arguments) for call in message.tool_calls)
    return TOKENS_A_MESSAGE + text_tokens(message.content) + calls
