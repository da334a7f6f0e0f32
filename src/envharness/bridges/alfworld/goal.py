"""Whether the goal of a household game is reached, read off the house and the goal's words alone."""

from __future__ import annotations

from pydantic import BaseModel, ValidationError

from envharness.bridges.alfworld.reading import kind_of, read_goal
from envharness.core.types import JsonDict

_CONDITION = {"clean": "clean", "heat": "hot", "cool": "cool"}


class _House(BaseModel):
    """The part of the state that the goal is about. The engine's own word, `won`, is not in it."""

    goal: str
    holding: str | None
    visible: list[str]
    contents: dict[str, list[str]]
    conditions: dict[str, list[str]]


def goal_reached(state: JsonDict) -> bool | None:
    """Say whether the goal is reached; None where its words are not understood, or this is no state of the bridge."""
    try:
        house = _House.model_validate(state)
    except ValidationError:
        return None
    goal = read_goal(f"Your task is to: {house.goal}")
    if goal is None:
        return None
    if goal.lamp:
        lit = any(kind_of(thing) == goal.lamp and _is(house, thing, "toggled") for thing in house.visible)
        return lit and house.holding is not None and kind_of(house.holding) == goal.item
    places = [items for place, items in house.contents.items() if kind_of(place) == goal.place]
    condition = _CONDITION.get(goal.verb, "")
    # A set, because the engine lets an object stand on two stove burners at once.
    there = {item for items in places for item in items if kind_of(item) == goal.item}
    return sum(not condition or _is(house, item, condition) for item in there) >= goal.count


def _is(house: _House, thing: str, condition: str) -> bool:
    return condition in house.conditions.get(thing, ())
