"""A component that resets, plays and resets again before the episode begins, and reports what came of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Self

from pydantic import TypeAdapter

from envharness.core.env import ActionableEnv
from envharness.core.errors import SpecError
from envharness.core.glimpse import Glimpse, difference
from envharness.core.harness import EnvHarness
from envharness.core.seeding import stream
from envharness.core.trace import ComponentEvent
from envharness.core.types import Action, JsonDict, Observation, ResetResponse
from envharness.policies.random import random_action

TURNS = 12
"""So many actions of the reference solution (or random ones) are played between two resets, and after them."""

_Actions = TypeAdapter(list[Action])


class SecondReset(EnvHarness):
    """Resets, plays `actions` (none: random ones), resets again, and reports where the two starts differ."""

    tag: ClassVar[str] = f"{__name__}:SecondReset"

    def __init__(self, inner: ActionableEnv, actions: Sequence[Action] = ()) -> None:
        super().__init__(inner)
        self.actions = tuple(actions)

    def reset(self, seed: int | None = None, options: JsonDict | None = None) -> ResetResponse:
        """Return what the second reset returns."""
        first = self.inner.reset(seed, options).observation
        before = self._glimpse(first)
        self._play(first, seed)
        again = self.inner.reset(seed, options)
        if how := difference(before, self._glimpse(again.observation)):
            self.sink.event(ComponentEvent(component=self.label, kind="violation", hook="reset", detail=how))
        return again

    def save_state(self) -> JsonDict:
        """Return the actions."""
        return {"actions": [action.model_dump(mode="json") for action in self.actions]}

    @classmethod
    def from_state(cls, state: JsonDict, inner: ActionableEnv | None = None, **options: object) -> Self:
        """Make one around `inner` from `{"actions": [...]}`."""
        if inner is None or options:
            raise SpecError("a second reset wraps one environment and takes no options")
        return cls(inner, _Actions.validate_python(state.get("actions", [])))

    def _play(self, shown: Observation, seed: int | None) -> None:
        rng = stream(seed or 0, "second reset")
        for turn in range(TURNS):
            if self.actions and turn >= len(self.actions):
                return
            planned = self.actions[turn] if self.actions else random_action(self.inner.tool_schemas(), shown, rng)
            response = self.inner.step(planned)
            if response.terminated or response.truncated:
                return
            shown = response.observation

    def _glimpse(self, shown: Observation) -> Glimpse:
        volatile = self.inner.capabilities.volatile_state_keys
        return Glimpse.of(self.inner.get_env_state(), shown, volatile=volatile)
