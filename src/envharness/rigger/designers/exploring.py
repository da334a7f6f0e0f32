"""The exploring designer: acts in the environment to choose the start, then writes the Contract for it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, ClassVar, Literal

from pydantic import ValidationError

from envharness.core.errors import ConfigError
from envharness.core.messages import first_problem
from envharness.core.types import Action, ToolSchema
from envharness.llm.chat import ChatAnswer
from envharness.rigger.designers.base import DesignAttempt, Evidence
from envharness.rigger.designers.llm import LanguageModelDesigner
from envharness.rigger.designers.llm_answers import (
    UnusableAnswerError,
    WrittenCandidate,
    as_action,
    read_candidate,
    read_object,
)
from envharness.rigger.designers.llm_conversation import Conversation, NoAnswerError
from envharness.rigger.designers.llm_forms import CONTRACT_TOOL, FINISH, RESTART, exploration_tools, move_tool
from envharness.rigger.designers.llm_prompts import contract_prompt, how_to_answer, prompt
from envharness.rigger.fence import fence
from envharness.rigger.patterns import spell
from envharness.rigger.records import Round
from envharness.rigger.render import clip
from envharness.rigger.requests import Work, play

SCREEN_TOKENS = 700
"""What is shown of one screen."""
UNUSABLE_IN_A_ROW = 3
"""Answers without a move after which an exploration is given up."""

Move = Action | Literal["restart", "finish"]


class ExploringDesigner(LanguageModelDesigner):
    """Builds the Stage move by move, each tried on the environment itself, from the last Stage or from nothing.

    A move is tried as the Stage would play it, by a probe that costs no rollout, so whatever it reaches replays.
    """

    name: ClassVar[str] = "exploring"

    def __init__(self, *, moves: int = 12, **options: Any) -> None:
        """Take the options of the LLM designer, and how many `moves` (1 or more) an exploration may take."""
        super().__init__(**options)
        if moves < 1:
            raise ConfigError(f"designer {self.name!r}: moves must be 1 or more, not {moves}")
        self._moves = moves

    def write_candidate(
        self, evidence: Evidence, conversation: Conversation, failed: Sequence[Round]
    ) -> Work[WrittenCandidate]:
        """Explore, then ask for the Contract on the start that was chosen."""
        stage, conversation = yield from self._explore(evidence, conversation)
        shown = "; ".join(map(spell, stage)) or "the environment's own, without a Stage"
        conversation = conversation.say(
            "user", contract_prompt(shown, failed, how_to_answer(self._form, CONTRACT_TOOL))
        )
        try:
            written = read_candidate((yield from conversation.ask("write", CONTRACT_TOOL)))
        except UnusableAnswerError:
            # Where a start was chosen there is a candidate, whatever became of the Contract.
            if not stage:
                raise
            written = WrittenCandidate(rationale="A new start; the answer that should hold a Contract held none.")
        return written.model_copy(update={"in_env_actions": stage})

    def _explore(self, evidence: Evidence, conversation: Conversation) -> Work[tuple[list[Action], Conversation]]:
        """Let the model move until it finishes or its moves are used up. Raises UnusableAnswerError, NoAnswerError."""
        stage, screen = yield from self._resume(evidence, conversation.attempt)
        how = (
            f"Act with the environment's tools; {RESTART} goes back to the start, {FINISH} ends the exploration."
            if self._form == "tool"
            else how_to_answer(self._form, move_tool(evidence.tools))
        )
        conversation = conversation.say(
            "user", prompt("explore", how=how, turns=str(self._moves), position=_position(stage, screen))
        )
        unusable = 0
        for turn in range(self._moves):
            tool, offered = move_tool(evidence.tools), exploration_tools(evidence.tools)
            answer = yield from conversation.ask(f"explore-{turn}", tool, offered)
            try:
                move = read_move(answer, evidence.tools)
            except UnusableAnswerError as error:
                unusable += 1
                if unusable == UNUSABLE_IN_A_ROW:
                    raise
                conversation = conversation.say("assistant", "(no move)").say("user", f"This was no move: {error}")
                continue
            unusable = 0
            if move == "finish":
                return stage, conversation.say("assistant", _said(move))
            tried = [] if isinstance(move, str) else [*stage, move]
            shown, problem = yield from self._look(tried, conversation.attempt)
            if not problem:
                stage, screen = tried, shown
            conversation = conversation.say("assistant", _said(move)).say("user", problem or _position(stage, screen))
        return stage, conversation

    def _resume(self, evidence: Evidence, attempt: DesignAttempt) -> Work[tuple[list[Action], str]]:
        """Return the last Stage that was proposed and what it shows; nothing where there is none, or it fails."""
        last: list[Action] = list(evidence.rounds[-1].candidate.in_env_actions) if evidence.rounds else []
        screen, problem = yield from self._look(last, attempt)
        if problem and last:
            last = []
            screen, problem = yield from self._look(last, attempt)
        if problem:
            raise NoAnswerError(problem)
        return last, screen

    def _look(self, stage: Sequence[Action], attempt: DesignAttempt) -> Work[tuple[str, str]]:
        """Return what the policy would be shown first after `stage`, or why it cannot be played."""
        episode = (yield from play(attempt.stage_probe(stage)))[0]
        if episode.valid and episode.start is not None:
            return episode.start.shown.text, ""
        if episode.outcome.reason == "component_fault":
            return "", fence(clip(episode.outcome.detail, SCREEN_TOKENS), "the move was not taken into the Stage")
        raise NoAnswerError(f"the environment could not be explored: {episode.outcome.detail}")


def read_move(answer: ChatAnswer, tools: Sequence[ToolSchema]) -> Move:
    """Read one move: a call of an environment's tool or of a control tool, or JSON. Raises UnusableAnswerError."""
    for call in answer.tool_calls:
        if call.name in {RESTART, FINISH}:
            return "restart" if call.name == RESTART else "finish"
        if any(tool.name == call.name for tool in tools):
            return _action({"name": call.name, "arguments": call.arguments or "{}"}, tools)
    found = read_object(answer, "move", "action", "name")
    move = found.get("move")
    if move in ("restart", "finish"):
        return "restart" if move == "restart" else "finish"
    return _action(found["action"] if "action" in found and not isinstance(found["action"], str) else found, tools)


def _action(value: object, tools: Sequence[ToolSchema]) -> Action:
    try:
        action = Action.model_validate(as_action(value))
    except ValidationError as error:
        place, message = first_problem(error)
        raise UnusableAnswerError(f"action.{place}: {message}") from None
    names = [tool.name for tool in tools]
    if action.name in {RESTART, FINISH} or action.name not in names:
        raise UnusableAnswerError(f"there is no tool {action.name!r}; the tools are {', '.join(names)}")
    return action


def _position(stage: Sequence[Action], screen: str) -> str:
    played = "; ".join(map(spell, stage)) or "nothing yet"
    return f"Stage so far: {played}.\n{fence(clip(screen, SCREEN_TOKENS), 'what the policy would see first')}"


def _said(move: Move) -> str:
    return json.dumps({"move": move} if isinstance(move, str) else {"move": "act", "action": move.model_dump()})
