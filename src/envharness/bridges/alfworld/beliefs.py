"""What the household policy believes about the house, from what it was shown and what it did."""

from __future__ import annotations

from dataclasses import dataclass, field

from envharness.bridges.alfworld.reading import Change, Goal, Reading, kind_of


@dataclass(slots=True)
class Beliefs:
    """Receptacles, what is in them, what is in the hand and what has been done. Wrong where it was not told."""

    goal: Goal | None = None
    at: str = ""
    near: set[str] = field(default_factory=set[str])
    """Receptacles in reach; several may stand at one place, and then there is no going from one to the other."""
    holding: str = ""
    room: dict[str, None] = field(default_factory=dict[str, None])
    """Receptacles known, in the order met."""
    contents: dict[str, list[str]] = field(default_factory=dict[str, list[str]])
    closed: set[str] = field(default_factory=set[str])
    searched: set[str] = field(default_factory=set[str])
    prepared: set[str] = field(default_factory=set[str])
    placed: dict[str, str] = field(default_factory=dict[str, str])
    """Item put where it belongs → the receptacle."""

    def take_in(self, reading: Reading, *, overlooked: frozenset[str]) -> None:
        """Learn what a screen says, except for the items overlooked."""
        for receptacle in reading.room:
            self.room.setdefault(receptacle)
        for receptacle, items in reading.contents.items():
            self.room.setdefault(receptacle)
            self.contents[receptacle] = [item for item in items if item not in overlooked]
            self.closed.discard(receptacle)
            self.searched.add(receptacle)
        for receptacle in reading.closed:
            self.closed.add(receptacle)
        self._learn_from_commands(reading.commands, overlooked)

    def _learn_from_commands(self, commands: tuple[str, ...], overlooked: frozenset[str]) -> None:
        """A command that is offered says what is in reach: `take mug 1 from desk 1`, `move mug 1 to desk 1`."""
        for command in commands:
            verb, _, rest = command.partition(" ")
            if verb == "take":
                item, _, receptacle = rest.partition(" from ")
                known = self.contents.setdefault(receptacle, [])
                if item not in known and item not in overlooked:
                    known.append(item)
                self.holding = ""
                self.near.add(receptacle)
            elif verb == "move":
                self.holding, _, receptacle = rest.partition(" to ")
                self.near.add(receptacle)
            elif verb in {"open", "close"} or (verb == "examine" and rest in self.room):
                self.near.add(rest)

    def apply(self, change: Change) -> None:
        """Bring about what a command does."""
        if change.kind == "go":
            self.at = change.place
            self.near = {change.place}
        elif change.kind == "open":
            self.closed.discard(change.place)
        elif change.kind == "take":
            self.holding = change.item
            self.placed.pop(change.item, None)
            self._remove(change.item)
        elif change.kind == "move":
            self.holding = ""
            self.contents.setdefault(change.place, []).append(change.item)
            if self.goal and kind_of(change.item) == self.goal.item and kind_of(change.place) == self.goal.place:
                self.placed[change.item] = change.place
        elif change.kind == "prepare":
            self.prepared.add(change.item)

    def _remove(self, item: str) -> None:
        for items in self.contents.values():
            if item in items:
                items.remove(item)

    def where_is(self, kind: str, *, but_not: frozenset[str] = frozenset()) -> tuple[str, str] | None:
        """Return an item of a kind and the receptacle it was seen in, the nearest first; None where none is known."""
        known = [
            (item, receptacle)
            for receptacle, items in self.contents.items()
            for item in items
            if kind_of(item) == kind and item not in but_not
        ]
        return min(known, key=lambda found: found[1] != self.at, default=None)


def change_of(command: str) -> Change | None:
    """Return what a command does where it works, or None where it changes nothing worth remembering."""
    verb, _, rest = command.partition(" ")
    if verb == "go":
        return Change("go", place=rest.removeprefix("to "))
    if verb in {"open", "use"}:
        return Change(verb, rest if verb == "use" else "", rest if verb == "open" else "")
    for name, joint in (
        ("take", " from "),
        ("move", " to "),
        ("clean", " with "),
        ("heat", " with "),
        ("cool", " with "),
    ):
        if verb == name and joint in rest:
            item, _, place = rest.partition(joint)
            return Change(verb if verb in {"take", "move"} else "prepare", item, place)
    return None
