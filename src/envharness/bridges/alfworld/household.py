"""The household policy: plays ALFWorld from the screen, with named weaknesses and no access to the game."""

from __future__ import annotations

import random
from typing import Any, ClassVar

from envharness.bridges.alfworld.beliefs import Beliefs, change_of
from envharness.bridges.alfworld.planning import Habits, Plan, next_step
from envharness.bridges.alfworld.reading import COMMAND, Change, Reading, kind_of, read
from envharness.bridges.alfworld.weaknesses import WEAKNESSES, Weaknesses
from envharness.bridges.heuristics import read_weaknesses
from envharness.core.policy import Decision, Turn
from envharness.core.types import Action

__all__ = ["WEAKNESSES", "HouseholdPolicy"]

LONG_TEXT = 2400
"""Characters beyond which the goal may be lost; screens of ALFWorld itself are shorter."""
LATE = 25
"""Turn from which the goal may be lost for tiredness."""
LONG_LIST = 6
"""Objects in one place, from which on one may be overlooked."""
GIVES_UP = 0.25
"""Chance to stop at a setback, for the full weakness `stops_early`."""


class HouseholdPolicy:
    """Plays ALFWorld. One instance an episode; deterministic given its seed and what it is shown.

    It reads the goal, the listings, bad news and hints from the text alone and remembers what it saw and did; it looks
    for the item where such things are kept, does to it what the goal asks, and brings it where it belongs. A command
    that fails is a setback: it does something else, repeats itself, or gives up. It speaks through the tool that takes
    a command, whatever its name.
    """

    immediate: ClassVar[bool] = True

    def __init__(self, seed: int, **weaknesses: Any) -> None:
        """Take the strengths of the weaknesses as options (see `WEAKNESSES`).

        Raises ConfigError for an option that is not one, or is outside [0, 1].
        """
        self._weak = read_weaknesses("household", Weaknesses, weaknesses)
        self._rng = random.Random(seed)
        self._habits = Habits(
            opens=not self._happens(self._weak.visible_only),
            heats_on_stove=self._happens(self._weak.misuses_stove),
            takes_back=self._happens(self._weak.wrong_instance),
            prepares=not self._happens(self._weak.skips_preparation),
        )
        self._beliefs = Beliefs()
        self._tool = "act"
        self._pending = ""
        self._last_text = ""
        self._failures: dict[str, int] = {}
        self._advice: list[str] = []
        self._judged: dict[str, bool] = {}
        self._forgot = False
        self._was_at = ""

    async def close(self) -> None:
        """Hold nothing, release nothing."""

    async def act(self, turn: Turn) -> Decision:
        """Read the screen, digest what became of the last command, and choose the next one."""
        text = turn.observation.text
        reading = read(text)
        self._tool = next((tool.name for tool in turn.tools if "command" in str(tool.parameters)), self._tool)
        setback = self._digest(reading, text)
        self._keep_goal_in_mind(reading, text, turn.step)
        self._heed(reading)
        if setback and self._happens(GIVES_UP * self._weak.stops_early):
            return Decision(stop=True, text="I give up.")
        if setback and self._happens(self._weak.ignores_errors):
            return self._say(self._pending, "That must work.")
        step = self._follow_advice(reading) or self._wander(reading) or self._go_on()
        if step is None:
            return Decision(stop=True, text="I have looked everywhere.")
        return self._say(step.command, step.thought)

    # --- digesting ---------------------------------------------------------------------------------------------------

    def _digest(self, reading: Reading, text: str) -> bool:
        """Update the beliefs. Returns whether the last command was a setback."""
        pending, before = self._pending, self._last_text
        self._last_text = text
        expected = change_of(pending)
        failed = bool(pending) and (bool(reading.bad_news) or (expected is not None and text == before))
        if not failed:
            change = reading.change or expected
            if change is not None:
                self._beliefs.apply(change)
            # Success anywhere makes what failed before worth another try.
            self._failures = {command: count - 1 for command, count in self._failures.items() if count > 1}
        self._beliefs.take_in(reading, overlooked=self._overlooked(reading))
        if failed:
            self._failures[pending] = self._failures.get(pending, 0) + 2
            self._reconsider(expected)
            if pending.startswith("heat ") and self._happens(0.01):
                self._habits.heats_on_stove = False
        return failed

    def _reconsider(self, expected: Change | None) -> None:
        """Draw a conclusion from a failure: it is there already, or it is not in reach after all."""
        if expected is None or not expected.place:
            return
        if expected.kind == "go":
            self._beliefs.near.add(expected.place)
        elif expected.place != self._beliefs.at:
            self._beliefs.near.discard(expected.place)

    def _overlooked(self, reading: Reading) -> frozenset[str]:
        goal = self._beliefs.goal
        missed = {
            item
            for items in reading.contents.values()
            for item in items
            if len(items) > LONG_LIST and goal and kind_of(item) == goal.item and self._happens(self._weak.overlooks)
        }
        return frozenset(missed)

    def _keep_goal_in_mind(self, reading: Reading, text: str, step: int) -> None:
        """Lose the goal now and then, and find it again where it is shown."""
        if self._forgot and reading.goal and self._happens(0.1):
            self._forgot = False
        if reading.goal and reading.goal != self._beliefs.goal:
            if self._beliefs.goal is not None:
                # Another task, in perhaps another house, as in a Chain.
                self._beliefs = Beliefs()
                self._beliefs.take_in(reading, overlooked=frozenset())
                self._failures.clear()
                self._was_at = ""
            self._beliefs.goal = reading.goal
        excess = min(max(len(text) / LONG_TEXT - 1.0, 0.0), 1.0)
        tired = 0.02 if step >= LATE else 0.0
        if self._happens(self._weak.forgets_goal * max(excess, tired)):
            self._forgot = True

    def _heed(self, reading: Reading) -> None:
        """Take in hints, and what a refusal asks for. Whether a hint is believed is decided once."""
        for hint in reading.hints:
            if hint not in self._judged:
                self._judged[hint] = not self._happens(self._weak.distrusts_hints)
                if self._judged[hint]:
                    self._advice += [match.group() for match in COMMAND.finditer(hint.lower())]
                    self._habits.learn_from(hint.lower())
        if reading.bad_news and self._happens(0.5):
            asked = [match.group() for match in COMMAND.finditer(reading.bad_news.lower())]
            self._advice += [command for command in asked if command != self._pending][:1]

    # --- choosing ----------------------------------------------------------------------------------------------------

    def _follow_advice(self, reading: Reading) -> Plan | None:
        """Do the next thing advised that can be done here."""
        while self._advice:
            command = self._advice.pop(0)
            if self._failures.get(command):
                continue
            if command in reading.commands or command.startswith("go to ") or not reading.commands:
                return Plan(command, "I was told to.")
        return None

    def _wander(self, reading: Reading) -> Plan | None:
        """Without a goal, do one thing or another; now and then, go back to where it just was."""
        if self._forgot or self._beliefs.goal is None:
            harmless = [command for command in reading.commands if command.split()[0] in {"go", "look", "examine"}]
            elsewhere = [f"go to {name}" for name in self._beliefs.room if name not in self._beliefs.near]
            return Plan(self._rng.choice(harmless or elsewhere or ["look"]), "What was I to do?")
        if self._was_at and self._was_at != self._beliefs.at and self._happens(self._weak.loops):
            return Plan(f"go to {self._was_at}", "Was there not something?")
        return None

    def _go_on(self) -> Plan | None:
        step = next_step(self._beliefs, self._habits, self._failures, self._rng)
        if step is None and not self._happens(GIVES_UP * self._weak.stops_early):
            # Searched everything: things are overlooked, so once more.
            self._beliefs.searched.clear()
            self._failures.clear()
            step = next_step(self._beliefs, self._habits, self._failures, self._rng)
        return step

    def _say(self, command: str, thought: str) -> Decision:
        if command.startswith("go to "):
            self._was_at = self._beliefs.at
        self._pending = command
        return Decision(action=Action(name=self._tool, kwargs={"command": command}), text=thought)

    def _happens(self, chance: float) -> bool:
        return self._rng.random() < chance
