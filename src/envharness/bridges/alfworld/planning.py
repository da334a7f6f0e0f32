"""Choose the next command from what is believed: find it, take it, do what is asked to it, put it there."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from envharness.bridges.alfworld.beliefs import Beliefs
from envharness.bridges.alfworld.common_sense import APPLIANCES, can_be_put_down_on, likelihood, likely_places
from envharness.bridges.alfworld.reading import Goal, kind_of


class Plan(NamedTuple):
    """The next command and why."""

    command: str
    thought: str


@dataclass(slots=True)
class Habits:
    """How this episode's player goes about things; what it is told can change that."""

    opens: bool = True
    heats_on_stove: bool = False
    takes_back: bool = False
    prepares: bool = True

    def learn_from(self, hint: str) -> None:
        """Drop a habit that a hint speaks against."""
        self.opens = self.opens or "open" in hint
        self.heats_on_stove = self.heats_on_stove and "microwave" not in hint
        self.takes_back = self.takes_back and not any(word in hint for word in ("another", "second", "both", "other"))
        self.prepares = self.prepares or any(word in hint for word in ("clean", "heat", "cool", "prepare"))


Failures = Mapping[str, int]
"""Command → how much it is mistrusted, for having failed lately; 0 or absent: not at all."""


def next_step(beliefs: Beliefs, habits: Habits, failures: Failures, rng: random.Random) -> Plan | None:
    """Return the next command, or None where everything has been searched in vain."""
    goal = beliefs.goal
    if goal is None:
        return Plan("look", "What is there to do?")
    held = beliefs.holding
    if held and kind_of(held) != goal.item:
        return _put_down(held, beliefs, failures)
    if not held:
        return _fetch(goal, beliefs, habits, failures, rng)
    if goal.lamp:
        return _find_lamp(goal, beliefs, habits, failures, rng)
    if goal.verb and habits.prepares and held not in beliefs.prepared:
        step = _prepare(goal, held, beliefs, habits, failures, rng)
        if step is not None:
            return step
    return _put(goal, held, beliefs, habits, failures, rng)


def _fetch(goal: Goal, beliefs: Beliefs, habits: Habits, failures: Failures, rng: random.Random) -> Plan | None:
    """Take the item where it was seen, or look for it."""
    mistrusted = frozenset(
        item
        for receptacle, items in beliefs.contents.items()
        for item in items
        if failures.get(f"take {item} from {receptacle}")
    )
    found = next(iter(beliefs.placed.items()), None) if habits.takes_back else None
    if found is None or found[0] in mistrusted:
        found = beliefs.where_is(goal.item, but_not=mistrusted | frozenset(beliefs.placed))
    if found is None:
        return _search(goal.item, beliefs, habits, failures, rng)
    item, receptacle = found
    return _reach(receptacle, beliefs, habits, failures) or Plan(f"take {item} from {receptacle}", f"Here is {item}.")


def _find_lamp(goal: Goal, beliefs: Beliefs, habits: Habits, failures: Failures, rng: random.Random) -> Plan | None:
    found = beliefs.where_is(goal.lamp)
    if found is None:
        return _search(goal.lamp, beliefs, habits, failures, rng)
    lamp, receptacle = found
    return _reach(receptacle, beliefs, habits, failures) or Plan(f"use {lamp}", "Now some light.")


def _prepare(
    goal: Goal, held: str, beliefs: Beliefs, habits: Habits, failures: Failures, rng: random.Random
) -> Plan | None:
    """Clean, heat or cool what is held. None where there is nothing to do it with."""
    kind = APPLIANCES[goal.verb]
    if goal.verb == "heat" and habits.heats_on_stove and _of_kind("stoveburner", beliefs):
        kind = "stoveburner"
    appliance = _choose(kind, beliefs, failures, rng, prefix="go to ")
    command = f"{goal.verb} {held} with {appliance}"
    if appliance not in beliefs.near:
        return Plan(f"go to {appliance}", f"To {goal.verb} it.")
    if failures.get(command) and rng.random() < 0.5:  # noqa: PLR2004  an even chance to let it be
        return None
    return Plan(command, f"To {goal.verb} it.")


def _put(
    goal: Goal, held: str, beliefs: Beliefs, habits: Habits, failures: Failures, rng: random.Random
) -> Plan | None:
    """Bring what is held where it belongs; two things belong in one and the same place."""
    begun = [receptacle for receptacle in beliefs.placed.values() if not failures.get(f"go to {receptacle}")]
    place = begun[-1] if begun else _choose(goal.place, beliefs, failures, rng, prefix=f"move {held} to ")
    return _reach(place, beliefs, habits, failures) or Plan(f"move {held} to {place}", "There it belongs.")


def _put_down(held: str, beliefs: Beliefs, failures: Failures) -> Plan | None:
    """Get rid of something that is not wanted."""
    for receptacle in sorted(beliefs.near - beliefs.closed):
        if not failures.get(f"move {held} to {receptacle}"):
            return Plan(f"move {held} to {receptacle}", "I have no use for this.")
    for receptacle in beliefs.room:
        if can_be_put_down_on(kind_of(receptacle)) and receptacle not in beliefs.near:
            return Plan(f"go to {receptacle}", "I have no use for this.")
    return None


def _search(kind: str, beliefs: Beliefs, habits: Habits, failures: Failures, rng: random.Random) -> Plan | None:
    """Look where such things are kept, the likeliest first, give or take."""
    for receptacle in sorted(beliefs.near & beliefs.closed - beliefs.searched):
        if habits.opens and not failures.get(f"open {receptacle}"):
            return Plan(f"open {receptacle}", "What is in here?")
    beliefs.searched.add(beliefs.at)
    left = [name for name in beliefs.room if name not in beliefs.searched and not failures.get(f"go to {name}")]
    if not left:
        # The room may not have been shown whole: a house has one of most things.
        guesses = [f"{place} 1" for place in likely_places(kind) if not _of_kind(place, beliefs)]
        left = [name for name in guesses if not failures.get(f"go to {name}")][:1]
    if not left:
        return None
    best = max(left, key=lambda name: likelihood(kind, kind_of(name)) + 0.25 * rng.random())
    return Plan(f"go to {best}", f"Is there a {kind}?")


def _reach(receptacle: str, beliefs: Beliefs, habits: Habits, failures: Failures) -> Plan | None:
    """Go there and open it. None where it is in reach."""
    if receptacle not in beliefs.near:
        return Plan(f"go to {receptacle}", f"To the {receptacle}.")
    if receptacle in beliefs.closed and habits.opens and not failures.get(f"open {receptacle}"):
        return Plan(f"open {receptacle}", "It is closed.")
    return None


def _of_kind(kind: str, beliefs: Beliefs) -> list[str]:
    return [name for name in beliefs.room if kind_of(name) == kind]


def _choose(kind: str, beliefs: Beliefs, failures: Failures, rng: random.Random, *, prefix: str) -> str:
    """Return a receptacle of a kind: where it stands already, else any that is least mistrusted.

    Where none was shown, there may be one all the same.
    """
    known = _of_kind(kind, beliefs) or [f"{kind} 1"]
    return min(
        known,
        key=lambda name: (
            failures.get(f"{prefix}{name}", 0) + failures.get(f"go to {name}", 0),
            name != beliefs.at,
            rng.random(),
        ),
    )
