"""What hooks and designers may read of an ALFWorld game: the engine's facts in players' words.

It describes the house, not the turn: but for the counter `steps`, a command that changed nothing leaves it as it was.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from envharness.bridges.alfworld.engine import Fact
from envharness.core.types import JsonDict

SCHEMA = """\
task: str - id of the task
goal: str - what has to be done, in the game's words
location: str - where the agent stands, by the engine's number, such as 'loc 4'
facing: list[str] - receptacles at that place; empty in the middle of the room
holding: str | null - the object in the agent's hand; there is room for one
visible: list[str] - objects that can be seen from here: on and in what the agent faces, unless it is closed
contents: dict[list[str]] - receptacle to the objects on or in it, seen or not; receptacles with nothing are there too
closed: list[str] - receptacles that are closed now
open: list[str] - receptacles that can be closed and are open now
conditions: dict[list[str]] - object to what was done to it, of: clean, hot, cool, sliced, toggled
admissible_commands: list[str] - every command the engine accepts now, to the letter, sorted
steps: int - commands so far, without those a Stage replayed
max_steps: int - commands after which the episode is cut off
won: bool - whether the goal is reached"""

_CONDITIONS = {"isclean": "clean", "ishot": "hot", "iscool": "cool", "issliced": "sliced", "istoggled": "toggled"}
PREDICATES = frozenset(
    {"atlocation", "receptacleatlocation", "holds", "inreceptacle", "openable", "opened", *_CONDITIONS}
)
"""The facts that the state is made of."""


class HouseholdView(NamedTuple):
    """The part of the state that is read off the engine's facts; every list is sorted."""

    location: str
    facing: list[str]
    holding: str | None
    visible: list[str]
    contents: dict[str, list[str]]
    closed: list[str]
    open: list[str]
    conditions: dict[str, list[str]]

    def as_json(self) -> JsonDict:
        """Return the fields under their names."""
        fields: JsonDict = {}
        fields.update(self._asdict())
        return fields


def view(facts: Iterable[Fact]) -> HouseholdView:
    """Arrange facts of `PREDICATES` for reading."""
    pairs: dict[str, list[tuple[str, ...]]] = {name: [] for name in PREDICATES}
    for fact in facts:
        pairs[fact.name].append(fact.arguments)
    place = {fact[0]: fact[1] for fact in pairs["receptacleatlocation"]}
    location = pairs["atlocation"][0][1] if pairs["atlocation"] else ""
    opened = {receptacle for (receptacle,) in pairs["opened"]}
    closed = {receptacle for (receptacle,) in pairs["openable"]} - opened
    contents: dict[str, list[str]] = {receptacle: [] for receptacle in sorted(place)}
    for item, receptacle in sorted(pairs["inreceptacle"]):
        contents.setdefault(receptacle, []).append(item)
    facing = sorted(receptacle for receptacle, at in place.items() if at == location)
    conditions: dict[str, list[str]] = {}
    for item, condition in sorted((fact[0], word) for name, word in _CONDITIONS.items() for fact in pairs[name]):
        conditions.setdefault(item, []).append(condition)
    return HouseholdView(
        location=location,
        facing=facing,
        holding=pairs["holds"][0][1] if pairs["holds"] else None,
        # A set, because the engine lets an object stand on two stove burners at once.
        visible=sorted({item for receptacle in facing if receptacle not in closed for item in contents[receptacle]}),
        contents=contents,
        closed=sorted(closed),
        open=sorted(opened),
        conditions=conditions,
    )
