"""The policy that is a language model: shows it what the stack shows, and takes its answer as an action."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import orjson
from pydantic import BaseModel, ConfigDict, Field, JsonValue, ValidationError

from envharness.core.errors import ConfigError
from envharness.core.messages import first_problem
from envharness.core.policy import Decision, Turn
from envharness.core.seeding import derive_seed
from envharness.core.types import ToolSchema
from envharness.llm.chat import ChatAnswer, ChatClient, ChatRequest
from envharness.llm.config import ModelConfig
from envharness.llm.make import client_for, require_usable
from envharness.llm.tokens import text_tokens
from envharness.policies.formats import FormatName, make_format
from envharness.policies.formats.base import Format, prompt, read, reply
from envharness.policies.history import History, PastTurn

_SEEDS = 2**31
"""Endpoints take seeds of 31 bits."""


class LanguageModelOptions(BaseModel):
    """The options of the policy `llm`."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    model: ModelConfig
    """Which model, where, and how it samples."""
    format: FormatName = "function_calling"
    """How it is asked for an action."""
    history_tokens: int | None = Field(default=16_000, ge=256)
    """Window of the episode that it is shown, in tokens as estimated without a tokenizer; None shows all of it."""
    instructions: str | None = None
    """Replaces the first part of the system message; None is the package's own."""
    skills: tuple[str, ...] = ()
    """What it is told to have learned, each a text."""
    thought_characters: int | None = Field(default=None, ge=1)
    """Longest thought of the format `json_schema`; None sets no bound."""


class LanguageModelPolicy:
    """Asks a model once a turn. One instance an episode; what it sends depends on the seed and what it was shown only.

    An answer that names no single action (empty, cut, two calls, not the format) is a decision without one, whose
    `problem` says to the model what was wrong; unknown tools and wrong arguments go to the environment, which refuses
    them as helpfully. Thoughts are stored with the decision and reach neither hooks nor environment.
    """

    def __init__(self, seed: int, *, client: ChatClient | None = None, **options: Any) -> None:
        """Take the options (see `LanguageModelOptions`); nothing is asked yet.

        `client` is asked in place of the configured model's own and stays its owner's; for use from Python. Raises
        ConfigError for a wrong option, a missing package or a key that is not in the environment.
        """
        self._options = _options(options)
        if client is None:
            try:
                require_usable(self._options.model)
            except ConfigError as error:
                raise ConfigError(f"policy llm: model: {error}") from error
        self._seed = seed
        self._client = client
        self._format = make_format(self._options.format, thought_characters=self._options.thought_characters)
        self._history: History | None = None
        self._last: ChatAnswer | None = None

    @classmethod
    def repeats_itself(cls, options: Mapping[str, JsonValue]) -> bool:
        """Whether every rollout would be the same: the model is asked at temperature 0.

        Raises ConfigError for a wrong option.
        """
        model = _options(dict(options)).model
        asked = model.record_from or model
        return asked.sampling.temperature == 0

    async def act(self, turn: Turn) -> Decision:
        """Ask the model. Raises a ProviderError where it gives no answer at all."""
        history = self._remember(turn)
        asking = self._format.ask(turn)
        request = ChatRequest(
            messages=history.messages(),
            tools=asking.tools,
            json_schema=asking.json_schema,
            seed=derive_seed(self._seed, "llm", turn.step) % _SEEDS,
            key=f"{self._seed}/{turn.step}",
            role="policy",
        )
        client = self._client or client_for(self._options.model)
        answer = await client.complete(request)
        self._last = answer
        reading = read(self._format, answer, turn.tools)
        said = [reading.thought]
        if reading.action is None:
            said.append(_as_text(answer))
        return Decision(
            action=reading.action,
            problem=reading.problem,
            text="\n".join(part for part in said if part),
            usage=answer.usage,
        )

    async def close(self) -> None:
        """Hold nothing: the client belongs to the event loop, and closes with it."""

    def _remember(self, turn: Turn) -> History:
        """Put what the last answer led to into the history; at the first turn, begin it."""
        shown = turn.observation.text
        if self._history is None or self._last is None:
            self._history = History(
                self._system_message(turn.tools),
                shown,
                tokens=self._options.history_tokens,
                cut_note=lambda missing: prompt("cut", missing=missing),
                beside=_tokens_beside(self._format, turn),
            )
        else:
            answered = self._format.remember(self._last)
            self._history.add(PastTurn(answered, reply(answered, shown)))
        return self._history

    def _system_message(self, tools: tuple[ToolSchema, ...]) -> str:
        instructions = self._options.instructions
        parts = [prompt("instructions") if instructions is None else instructions.strip(), self._format.explain(tools)]
        if self._options.skills:
            skills = "\n".join(f"- {skill.strip()}" for skill in self._options.skills)
            parts.append(prompt("skills", skills=skills))
        return "\n\n".join(part for part in parts if part)


def _options(options: Mapping[str, Any]) -> LanguageModelOptions:
    try:
        return LanguageModelOptions.model_validate(options)
    except ValidationError as error:
        where, message = first_problem(error)
        known = ", ".join(LanguageModelOptions.model_fields)
        # Without its cause, which holds the value: it could be a key that was pasted where a reference belongs.
        raise ConfigError(f"policy llm: option {where!r}: {message} (options: {known})") from None


def _tokens_beside(form: Format, turn: Turn) -> int:
    """Estimate what the tools, which go with every request, take of the window."""
    tools = form.ask(turn).tools
    return sum(text_tokens(orjson.dumps(tool.model_dump(mode="json")).decode()) for tool in tools)


def _as_text(answer: ChatAnswer) -> str:
    """Write down an answer that could not be used, so that the trace shows what was wrong with it."""
    calls = [f"[call] {call.name}({call.arguments})" for call in answer.tool_calls]
    return "\n".join(part for part in (answer.text, *calls) if part)
