"""A policy that plays a fixed list of actions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Literal, get_args

from pydantic import JsonValue, TypeAdapter, ValidationError

from envharness.core.errors import ConfigError
from envharness.core.messages import one_line
from envharness.core.policy import Decision, Turn
from envharness.core.types import Action

AtEnd = Literal["stop", "idle", "repeat"]

_ACTIONS = TypeAdapter(list[Action])


class ScriptedPolicy:
    """Plays `actions` one a turn, whatever it is shown."""

    immediate: ClassVar[bool] = True

    def __init__(
        self,
        seed: int = 0,
        *,
        actions: Sequence[Action | dict[str, JsonValue]] = (),
        at_end: AtEnd = "stop",
    ) -> None:
        """Take the script.

        Args:
            seed: Not used: a script leaves nothing to chance.
            actions: Actions, or objects with `name` and `kwargs`.
            at_end: After the last action: `stop` ends the episode, `idle` names no action from then on, and `repeat`
                plays the list again from its start.

        Raises:
            ConfigError: an action is malformed, `at_end` is another word, or there is nothing to repeat.
        """
        del seed
        if at_end not in get_args(AtEnd):
            raise ConfigError(f"policy scripted: at_end must be one of {', '.join(get_args(AtEnd))}, not {at_end!r}")
        try:
            self._actions = _ACTIONS.validate_python(list(actions))
        except ValidationError as error:
            raise ConfigError(f"policy scripted: actions.{one_line(error)}") from error
        if at_end == "repeat" and not self._actions:
            raise ConfigError("policy scripted: at_end 'repeat' needs one action or more")
        self._at_end: AtEnd = at_end
        self._next = 0

    async def act(self, turn: Turn) -> Decision:
        """Play the next action; one call is one turn, whatever the turn's number is."""
        del turn
        if self._next == len(self._actions):
            if self._at_end == "stop":
                return Decision(stop=True, text="The script is over.")
            if self._at_end == "idle":
                return Decision(text="The script is over.")
            self._next = 0
        action = self._actions[self._next].model_copy(deep=True)
        self._next += 1
        return Decision(action=action)

    async def close(self) -> None:
        """Hold nothing, release nothing."""
