"""A small world of text commands for rigger tests, and a walker who plays it: addressed as `rigger.halls:Halls`."""

from __future__ import annotations

import random
from collections.abc import Sequence

from envharness.bridges.base import Bridge
from envharness.core.policy import Decision, Turn
from envharness.core.tool import Tool
from envharness.core.types import (
    Action,
    Capabilities,
    EnvResponse,
    EvaluationResult,
    JsonDict,
    Observation,
    ResetResponse,
)

LAST = 4
"""The room that wins."""


def go(where: str) -> Action:
    return Action(name="command", kwargs={"text": where})


class _Command(Tool):
    name = "command"

    def __init__(self, halls: Halls) -> None:
        self._halls = halls

    def invoke(self, text: str) -> EnvResponse:
        """Do what the text says: `walk on`, `walk back`, `open door`, `rest`."""
        return self._halls.do(text)


class _Look(Tool):
    name = "look"

    def __init__(self, halls: Halls) -> None:
        self._halls = halls

    def invoke(self) -> EnvResponse:
        """Look around."""
        return self._halls.answer("You look around.")


class Halls(Bridge):
    """Rooms in a row; `rest` ends the episode, and resting in the last room wins."""

    def __init__(
        self, task: str = "hall-0", *, reversible: bool = True, reference: bool = True, fails: bool = False
    ) -> None:
        super().__init__()
        self._task = task
        self._reversible = reversible
        self._reference = reference
        self._fails = fails
        self._room = 0
        self._text = ""

    def tools(self) -> Sequence[Tool]:
        return (_Command(self), _Look(self))

    @property
    def capabilities(self) -> Capabilities:
        return Capabilities(reversible=self._reversible)

    @property
    def task_id(self) -> str:
        return self._task

    def list_tasks(self) -> list[str]:
        return [f"hall-{index}" for index in range(6)]

    def _start(self, seed: int | None, options: JsonDict) -> ResetResponse:
        if self._fails:
            raise OSError("the halls are closed")
        self._room, self._text = 0, "Rest in the last room."
        return ResetResponse(observation=self._look())

    def _look(self) -> Observation:
        return Observation(text=f"{self._text} You are in room {self._room}, and see a chair, a table, a lamp.")

    def do(self, text: str) -> EnvResponse:
        if text == "rest":
            return self.answer("You rest.", terminated=True)
        step = {"walk on": 1, "walk back": -1}.get(text, 0)
        if not step or not 0 <= self._room + step <= LAST:
            return self.answer("Nothing comes of it.", ineffective=True)
        self._room += step
        return self.answer("You walk.")

    def answer(self, text: str, *, terminated: bool = False, ineffective: bool = False) -> EnvResponse:
        self._text = text
        info: JsonDict = {"ineffective": True} if ineffective else {}
        return EnvResponse(observation=self._look(), terminated=terminated, info=info)

    def evaluate(self) -> EvaluationResult:
        won = self._room == LAST
        return EvaluationResult(success=won, score=float(won))

    def get_env_state(self) -> JsonDict:
        return {"room": f"room {self._room}"}

    def env_state_schema(self) -> str:
        return "room: str - where you are"

    def reference_solution(self) -> list[Action] | None:
        return [*[go("walk on")] * LAST, go("rest")] if self._reference else None

    def save_state(self) -> JsonDict:
        return {}


class Walker:
    """Walks on until the last room is shown, then rests; at a setback it rests at once with chance `gives_up`."""

    def __init__(self, seed: int, *, gives_up: float = 0.3, lazy: float = 0.0) -> None:
        self._random = random.Random(seed)
        self._gives_up = gives_up
        self._lazy = lazy
        self._before = ""

    async def act(self, turn: Turn) -> Decision:
        text = turn.observation.text
        setback = "\n\n" in text or "Nothing" in text
        tired = self._random.random() < (self._gives_up if setback else self._lazy)
        if tired or f"room {LAST}" in text:
            return Decision(action=go("rest"))
        return Decision(action=go("walk on"))

    async def close(self) -> None:
        """Hold nothing."""
