"""The solver policy: plays the 24 game from what the screen shows, with named weaknesses and no access to the game."""

from __future__ import annotations

import random
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar

from envharness.bridges.heuristics import read_weaknesses
from envharness.bridges.toy24.arithmetic import Hand, Line, Move, hand_of
from envharness.bridges.toy24.reading import Hint, Reading, read
from envharness.bridges.toy24.thinking import notice, plausible_move
from envharness.bridges.toy24.weaknesses import WEAKNESSES, Weaknesses
from envharness.core.policy import Decision, Turn
from envharness.core.types import Action, JsonDict

__all__ = ["WEAKNESSES", "SolverPolicy"]

SKIMMED = 300
"""Characters of a screen that are always read."""
GIVES_UP = 0.4
"""Chance to stop at a setback, for the full weakness `stops_too_early`."""
RESET = "reset_numbers"


@dataclass(frozen=True, slots=True)
class _Pending:
    """The call whose answer the next screen shows."""

    name: str
    move: Move | None
    before: Hand | None
    after: Hand | None


class SolverPolicy:
    """Plays Toy24. One instance an episode; deterministic given its seed and what it is shown.

    It reads the target, the numbers, bad news and hints from the text alone; keeps in mind what it believes to hold;
    looks for a winning line with limited attention; and treats each refusal, failure and dead end as a setback, at
    which it retries, mistrusts what was refused, or gives up.
    """

    immediate: ClassVar[bool] = True

    def __init__(self, seed: int, **weaknesses: Any) -> None:
        """Take the strengths of the weaknesses (see `WEAKNESSES`) and the `favourite` operation as options.

        Raises ConfigError for an option that is not one, or is outside its range.
        """
        self._weak = read_weaknesses("solver", Weaknesses, weaknesses)
        self._rng = random.Random(seed)
        self._target = Fraction(24)
        self._hand: Hand | None = None
        self._start: Hand | None = None
        self._plan: Line = ()
        self._pending: _Pending | None = None
        self._mistrust: dict[object, float] = {}
        self._moved = False
        self._probed = False

    async def close(self) -> None:
        """Hold nothing, release nothing."""

    async def act(self, turn: Turn) -> Decision:
        """Read the screen, digest what became of the last call, and choose the next one."""
        reading = read(self._skim(turn.observation.text), [tool.name for tool in turn.tools])
        if reading.target is not None:
            self._target = reading.target
        self._moved = self._moved or reading.moved
        if self._pending is None and reading.moved and self._happens(self._weak.starts_afresh):
            self._digest(reading)
            return self._reset("Somebody moved before me; I start afresh.")
        if self._digest(reading) and self._loses_patience():
            return self._stop("I give up.")
        return self._advise(reading) or self._repair(reading) or self._play(reading)

    # --- reading -----------------------------------------------------------------------------------------------------

    def _skim(self, text: str) -> str:
        """Return the part of the text that is read."""
        if len(text) > SKIMMED and self._happens(self._weak.ignores_long_text):
            return text[:SKIMMED]
        return text

    def _digest(self, reading: Reading) -> bool:
        """Update what is believed to be at hand. Returns whether the last call was a setback."""
        pending, self._pending = self._pending, None
        shown = reading.numbers if reading.missing == 0 else None
        if pending is None:
            self._hand = reading.numbers
            self._start = shown
            return False
        if pending.name != RESET and pending.move is None:
            return reading.bad_news
        failed = reading.bad_news or (shown is not None and shown == pending.before != pending.after)
        expected = pending.before if failed else pending.after
        self._hand = self._recall(reading, expected)
        if failed:
            self._distrust(pending)
            return True
        self._moved = pending.name != RESET
        self._plan = self._plan[1:]
        return False

    def _recall(self, reading: Reading, expected: Hand | None) -> Hand | None:
        """Weigh the screen against memory."""
        if reading.numbers is None or reading.missing:
            if expected is None or self._happens(self._weak.forgets):
                return reading.numbers
            return expected
        if expected is None or reading.numbers == expected or self._happens(self._weak.trusts_screen):
            return reading.numbers
        return expected

    def _distrust(self, pending: _Pending) -> None:
        """Learn from a call that failed: repeat it, or look elsewhere for a while."""
        if self._happens(self._weak.repeats):
            return
        move = pending.move
        if move is None:
            return
        self._plan = ()
        self._mistrust[move] = self._mistrust.get(move, 1.0) * 0.4
        if self._happens(self._weak.generalises):
            self._mistrust[move.operation] = self._mistrust.get(move.operation, 1.0) * 0.5

    # --- choosing ----------------------------------------------------------------------------------------------------

    def _advise(self, reading: Reading) -> Decision | None:
        """Follow a hint, where there is one that can be followed."""
        for hint in reading.hints:
            if self._happens(self._weak.distrusts_hints):
                continue
            if hint.resets:
                return self._reset("The hint says to take moves back.")
            move = self._hinted_move(hint)
            if move is not None:
                return self._combine(move, "The hint says so.")
            if hint.operation is not None and hint.left is None:
                # One reading of "try division" makes it half as likely to be overlooked.
                softened = {"avoids_division": self._weak.avoids_division / 2} if hint.operation == "/" else {}
                self._weak = self._weak.model_copy(update={"favourite": hint.operation, **softened})
        return None

    def _hinted_move(self, hint: Hint) -> Move | None:
        if hint.left is None or hint.right is None or hint.operation is None:
            return None
        if hint.operation == "/" and hint.right == 0:
            return None
        move = Move(hint.left, hint.operation, hint.right)
        return move if self._hand is None or _without(self._hand, move) is not None else None

    def _repair(self, reading: Reading) -> Decision | None:
        """Do what a refusal asks for, and look around where the screen shows too little."""
        if RESET in reading.tools_named and self._happens(0.5):
            return self._reset("It seems I have to take moves back first.")
        unclear = self._hand is None or (reading.missing and self._hand == reading.numbers)
        if unclear and not self._probed:
            self._probed = True
            return self._reset("I cannot see all numbers; taking moves back may show them.")
        if self._hand is None:
            self._probed = False
            return self._stop("I see no numbers.") if self._loses_patience() else self._reset("Where are the numbers?")
        return None

    def _play(self, reading: Reading) -> Decision:
        """Go on with the plan, find a new one, or make do without."""
        hand = self._hand or ()
        if len(hand) == 1:
            return self._start_over(f"{hand[0]} is not {self._target}.")
        if not self._plan or _without(hand, self._plan[0]) is None:
            self._plan = ()
            if not reading.missing or self._hand != reading.numbers:
                self._plan = notice(hand, self._target, self._weak, self._mistrust, self._rng) or ()
        if self._plan:
            return self._combine(self._plan[0], "I see a way.", rest=self._plan[1:])
        if len(hand) <= 3 and self._moved and self._happens(0.5):  # noqa: PLR2004  one move from the start or later
            return self._start_over("This leads nowhere.")
        move = plausible_move(hand, self._target, self._weak, self._mistrust, self._rng)
        return self._combine(move, "I see no way, but this looks good.")

    def _start_over(self, why: str) -> Decision:
        if self._happens(self._weak.never_resets):
            return self._stop(f"{why} I leave it at that.")
        if self._loses_patience():
            return self._stop(f"{why} I give up.")
        return self._reset(f"{why} Once more from the start.")

    # --- answering ---------------------------------------------------------------------------------------------------

    def _combine(self, move: Move, thought: str, *, rest: Line = ()) -> Decision:
        left, right = move.left, move.right
        self._plan = (move, *rest)
        after = _without(self._hand, move) if self._hand is not None else None
        self._pending = _Pending("combine", move, self._hand, after)
        kwargs: JsonDict = {"left": str(left), "operation": move.operation, "right": str(right)}
        return Decision(action=Action(name="combine", kwargs=kwargs), text=thought)

    def _reset(self, thought: str) -> Decision:
        self._plan = ()
        self._pending = _Pending(RESET, None, self._hand, self._start)
        return Decision(action=Action(name=RESET), text=thought)

    def _stop(self, thought: str) -> Decision:
        self._pending = _Pending("stop", None, self._hand, self._hand)
        return Decision(action=Action(name="stop"), text=thought)

    def _loses_patience(self) -> bool:
        return self._happens(GIVES_UP * self._weak.stops_too_early)

    def _happens(self, chance: float) -> bool:
        return self._rng.random() < chance


def _without(hand: Hand, move: Move) -> Hand | None:
    """Return the hand after a move, or None where it cannot be made."""
    rest = list(hand)
    for number in (move.left, move.right):
        if number not in rest:
            return None
        rest.remove(number)
    return hand_of([*rest, move.result])
