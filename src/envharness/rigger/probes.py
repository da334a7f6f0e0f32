"""Probe policies: they cost no model call and ask what a stack does with nothing, with junk, and with a known win."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Literal

from envharness.core.policy import Decision, PolicySpec, Turn
from envharness.core.types import Action, JsonDict

PATIENCE = 4
"""How often a known winning action is tried again where nothing happened, before the win is given up."""

JUNK = Action(name="no_op")
"""A call that no tool understands. A hook that plays moves by rewriting actions would turn it into one."""


class ProbePolicy:
    """Plays `actions` in order, each again while nothing happens, then stops or goes on with junk calls."""

    immediate: ClassVar[bool] = True

    def __init__(self, seed: int, actions: Sequence[JsonDict] = (), then: Literal["stop", "idle"] = "stop") -> None:
        del seed
        self._actions = [Action.model_validate(action) for action in actions]
        self._then = then
        self._position = 0
        self._tries = 0
        self._before = ""

    async def act(self, turn: Turn) -> Decision:
        """Choose from the plan; a turn that was refused or blocked shows the old text again behind a reason."""
        shown = turn.observation.text
        nothing_happened = self._tries > 0 and shown.endswith(f"\n\n{self._before}")
        if self._tries and not nothing_happened:
            self._position, self._tries = self._position + 1, 0
        if not nothing_happened:
            self._before = shown
        if self._position >= len(self._actions):
            return Decision(stop=True) if self._then == "stop" else Decision(action=JUNK)
        if self._tries > PATIENCE:
            return Decision(stop=True, text="a known winning action was refused every time")
        self._tries += 1
        return Decision(action=self._actions[self._position])

    async def close(self) -> None:
        """Hold nothing."""


def probe(actions: Sequence[Action] = (), *, then: Literal["stop", "idle"] = "stop") -> PolicySpec:
    """Return a probe as data, for a rollout job."""
    plan = [action.model_dump(mode="json") for action in actions]
    return PolicySpec.model_validate(
        {"id": "envharness.rigger.probes:ProbePolicy", "options": {"actions": plan, "then": then}}
    )
