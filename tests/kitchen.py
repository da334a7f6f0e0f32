"""A one-room kitchen for component tests: a mug, a drawer, a desk, and a verifier that wants the mug on the desk."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from envharness.bridges.base import Bridge
from envharness.core.errors import MissingDataError
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

Place = Literal["hand", "counter", "drawer", "desk"]


def take() -> Action:
    return Action(name="take")


def put(place: str) -> Action:
    return Action(name="put", kwargs={"place": place})


def drawer(state: str) -> Action:
    return Action(name="drawer", kwargs={"state": state})


class _Take(Tool):
    name = "take"

    def __init__(self, kitchen: Kitchen) -> None:
        self._kitchen = kitchen

    def invoke(self) -> EnvResponse:
        """Take the mug."""
        if self._kitchen.mug == "drawer" and not self._kitchen.drawer_open:
            return self._kitchen.answer("You see no mug.", ineffective=True)
        self._kitchen.mug = "hand"
        return self._kitchen.answer("You take the mug.")


class _Put(Tool):
    name = "put"

    def __init__(self, kitchen: Kitchen) -> None:
        self._kitchen = kitchen

    def invoke(self, place: Literal["counter", "drawer", "desk"]) -> EnvResponse:
        """Put the mug down.

        Args:
            place: where
        """
        if self._kitchen.mug != "hand":
            return self._kitchen.answer("You hold nothing.", ineffective=True)
        self._kitchen.mug = place
        return self._kitchen.answer(f"The mug is in or on the {place}.", terminated=place == "desk")


class _Drawer(Tool):
    name = "drawer"

    def __init__(self, kitchen: Kitchen) -> None:
        self._kitchen = kitchen

    def invoke(self, state: Literal["open", "closed"]) -> EnvResponse:
        """Open or close the drawer.

        Args:
            state: what it shall be
        """
        self._kitchen.drawer_open = state == "open"
        return self._kitchen.answer(f"The drawer is {state}.")


class Kitchen(Bridge):
    """`resumable` and `max_steps` are options so that tests can have either; `clock` is a volatile key of the state."""

    _clock = 0

    def __init__(self, *, resumable: bool = False, max_steps: int = 100) -> None:
        super().__init__()
        self._resumable = resumable
        self._max_steps = max_steps
        self.mug: Place = "counter"
        self.drawer_open = False
        self.steps = 0
        self.seed = 0
        self.text = ""
        self.evaluations = 0
        self.resets = 0

    def tools(self) -> Sequence[Tool]:
        return [_Take(self), _Put(self), _Drawer(self)]

    @property
    def capabilities(self) -> Capabilities:
        return Capabilities(resumable=self._resumable, thread_safe=True, fork_safe=True, volatile_state_keys=("clock",))

    @property
    def task_id(self) -> str:
        return "mug-on-desk"

    def list_tasks(self) -> list[str]:
        return ["mug-on-desk"]

    def _start(self, seed: int | None, options: JsonDict) -> ResetResponse:
        self.resets += 1
        self.seed = seed or 0
        self.mug, self.drawer_open, self.steps = "counter", False, 0
        self.text = "Put the mug on the desk."
        return ResetResponse(observation=self._look())

    def _look(self) -> Observation:
        visible = self.mug != "drawer" or self.drawer_open
        text = f"{self.text} {'A mug is here.' if visible else 'No mug to be seen.'}"
        return Observation(text=text, data={"mug": self.mug if visible else None})

    def answer(self, text: str, *, terminated: bool = False, ineffective: bool = False) -> EnvResponse:
        self.text = text
        self.steps += 1
        return EnvResponse(
            observation=self._look(),
            reward=1.0 if terminated else 0.0,
            terminated=terminated,
            truncated=self.steps >= self._max_steps,
            info={"ineffective": True} if ineffective else {},
        )

    def evaluate(self) -> EvaluationResult:
        self._require("evaluate", "running", "ended")
        self.evaluations += 1
        success = self.mug == "desk"
        return EvaluationResult(success=success, score=float(success))

    def resume(self) -> None:
        if not self._resumable:
            super().resume()
        self._phase = "running"

    def get_env_state(self) -> JsonDict:
        type(self)._clock += 1
        return {
            "mug": self.mug,
            "drawer_open": self.drawer_open,
            "steps": self.steps,
            "seed": self.seed,
            "clock": type(self)._clock,
        }

    def env_state_schema(self) -> str:
        return "mug: str - where\ndrawer_open: bool - open?\nsteps: int - so far\nseed: int - of the reset\nclock: int - ticks"

    def save_state(self) -> JsonDict:
        return {}


class Unfurnished(Kitchen):
    """Its data is missing, which it notices at reset."""

    def _start(self, seed: int | None, options: JsonDict) -> ResetResponse:
        raise MissingDataError("there is no furniture; get some")


class Methodical(Kitchen):
    """Forgot that `capabilities` is a property."""

    def capabilities(self) -> Capabilities:  # pyright: ignore[reportIncompatibleMethodOverride]  the mistake
        return Capabilities()
