"""A policy that calls a random tool with random arguments that fit the tool's schema."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import ClassVar

from envharness.core.errors import ConfigError
from envharness.core.policy import Decision, Turn
from envharness.core.types import Action, Observation, ToolSchema
from envharness.policies.command_tool import admissible_commands, only_string
from envharness.policies.sampling import sample, words_of


class RandomPolicy:
    """Chooses uniformly among the tools, and then among what the tool's schema allows.

    Where the only argument of a tool is a string and the observation's data lists `admissible_commands`, it chooses
    one of these. Other strings are words and values that the observation shows. Deterministic given its seed and what
    it is shown.
    """

    immediate: ClassVar[bool] = True

    def __init__(self, seed: int, *, stop_chance: float = 0.0) -> None:
        """Take the chance, in [0, 1], to stop at each turn. Raises ConfigError where it is outside of that."""
        if not 0.0 <= stop_chance <= 1.0:
            raise ConfigError(f"policy random: stop_chance must be from 0 to 1, not {stop_chance}")
        self._rng = random.Random(seed)
        self._stop_chance = stop_chance

    async def act(self, turn: Turn) -> Decision:
        """Choose. Names no action where there is no tool."""
        if self._rng.random() < self._stop_chance:
            return Decision(stop=True)
        if not turn.tools:
            return Decision()
        return Decision(action=random_action(turn.tools, turn.observation, self._rng))

    async def close(self) -> None:
        """Hold nothing, release nothing."""


def random_action(tools: Sequence[ToolSchema], observation: Observation, rng: random.Random) -> Action:
    """Return a call of one of `tools` that its schema allows. Raises IndexError where there is no tool."""
    tool = rng.choice(tools)
    admissible = admissible_commands(observation)
    argument = only_string(tool)
    if argument is not None and admissible:
        return Action(name=tool.name, kwargs={argument: rng.choice(admissible)})
    arguments = sample(tool.parameters, rng, words_of(observation))
    return Action(name=tool.name, kwargs=arguments if isinstance(arguments, dict) else {})
